"""The links of a node: a proxy in front of its listener, which can hold back what one of the other nodes sends it.

The client id of its first request names a node. A link that is cut loses nothing: like TCP over a bad
cable it delivers later, unless a node has given its connection up meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from tests.fault.proxy import Proxy, until_one_ends
from tests.support.ports import free_port

_PIECE = 1 << 16
#: size, API key, version, correlation id, then the client id with its size
_CLIENT_ID_AT = 12
#: fetchers and other peers; observers of the metadata log; channels to the controller
_NODE = re.compile(rb"(?:broker-|raft-client-)(\d+)\b|(\d+)$")
CLIENTS = -1


class Links(Proxy):
    """A proxy to the node's own port.

    `cut` holds back the requests of these nodes, the answers to them, or both; CLIENTS stands for everybody else.
    """

    def __init__(self) -> None:
        self._no_requests: frozenset[int] = frozenset()
        self._no_answers: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        super().__init__(free_port())

    def cut(self, nodes: Iterable[int], *, requests: bool = True, answers: bool = True) -> None:
        """Hold back what passes between these nodes and this one, in one direction or in both."""
        held = frozenset(nodes)
        self._loop.call_soon_threadsafe(self._set, held if requests else frozenset(), held if answers else frozenset())

    def heal(self) -> None:
        """Let everything pass, also what was held back."""
        self._loop.call_soon_threadsafe(self._set, frozenset(), frozenset())

    def _set(self, no_requests: frozenset[int], no_answers: frozenset[int]) -> None:
        self._no_requests, self._no_answers = no_requests, no_answers
        self._changed.set()
        self._changed = asyncio.Event()

    async def relay(
        self,
        client: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
        broker: asyncio.StreamReader,
        answers: asyncio.StreamWriter,
    ) -> None:
        first = await client.readexactly(_CLIENT_ID_AT + 2)
        name = await client.readexactly(max(0, int.from_bytes(first[-2:], signed=True)))
        source = _node_of(name)
        requests.write(first + name)
        await until_one_ends(
            self._pass(source, client, requests, is_request=True),
            self._pass(source, broker, answers, is_request=False),
        )

    async def _pass(
        self, source: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        while data := await reader.read(_PIECE):
            while source in (self._no_requests if is_request else self._no_answers):
                await self._changed.wait()
            writer.write(data)
            await writer.drain()


def _node_of(client_id: bytes) -> int:
    found = _NODE.match(client_id)
    return int(found[1] or found[2]) if found else CLIENTS
