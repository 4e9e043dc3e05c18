"""The network between the nodes of a cluster, and between them and clients: what of it a test has cut.

Each node holds back what passes on the connections that it has opened to other nodes, and on those of its clients
(broker/control). Nobody needs rights on the machine for that.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pybroker.testing.errors import BrokerError


class Connected(Protocol):
    """A node, as its network needs it."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_suspended(self) -> bool: ...

    @property
    def listeners(self) -> Mapping[str, str]: ...

    def _ask(self, command: str, **arguments: object) -> Any: ...

    def _tell(self, line: bytes) -> None: ...


class Network:
    """Which nodes are cut off, and which links are cut. Any thread may call the methods."""

    def __init__(self) -> None:
        self.nodes: Sequence[Connected] = ()
        self._cut_off: dict[Connected, bool] = {}  # whether clients do not reach it, either
        self._lost: set[tuple[Connected, Connected]] = set()  # what the first sends to the second
        self._known: dict[Connected, Mapping[str, object]] = {}  # what the processes were told
        self._lock = threading.RLock()

    def cut_off(self, node: Connected, *, clients: bool) -> None:
        """Cut a node off from all others, and from clients, or from the others alone."""
        with self._lock:
            self._cut_off[node] = clients
            self.update()

    def cut_link(self, source: Connected, target: Connected, *, one_way: bool) -> None:
        """Cut what `source` sends to `target`; without `one_way` also what it receives from there."""
        if source is target:
            raise BrokerError("a node has no link to itself")
        with self._lock:
            self._lost |= {(source, target)} if one_way else {(source, target), (target, source)}
            self.update()

    def reconnect(self, node: Connected | None = None) -> None:
        """End all cuts, or those of a node and of its links."""
        with self._lock:
            for each in list(self._cut_off) if node is None else [node]:
                self._cut_off.pop(each, None)
            self._lost = set() if node is None else {each for each in self._lost if node not in each}
            self.update()

    def is_cut_off(self, node: Connected) -> bool:
        """Return whether a node is cut off from all others."""
        return node in self._cut_off

    def passes(self, source: Connected, target: Connected) -> bool:
        """Return whether what `source` sends arrives at `target`."""
        return not (source in self._cut_off or target in self._cut_off or (source, target) in self._lost)

    def are_linked(self, one: Connected, other: Connected) -> bool:
        """Return whether two nodes can talk to each other, which needs both directions."""
        return self.passes(one, other) and self.passes(other, one)

    def update(self) -> None:
        """Tell all nodes that run what is cut for them, if that has changed."""
        with self._lock:
            for node in self.nodes:
                cut = self._cut_for(node)
                if node.is_running and not node.is_suspended and cut != self._known.get(node, _WHOLE):
                    try:
                        node._ask("cut_off", **cut)
                    except BrokerError:
                        if node.is_running:
                            raise
                    self._known[node] = cut

    def begin(self, node: Connected) -> None:
        """Tell a node whose process has just begun what is cut for it, before it connects to others."""
        with self._lock:
            self._known[node] = cut = self._cut_for(node)
            if cut != _WHOLE:
                node._tell(json.dumps({"command": "cut_off", "arguments": cut}).encode() + b"\n")

    def _cut_for(self, node: Connected) -> Mapping[str, object]:
        others = [each for each in self.nodes if each is not node]
        return {
            "clients": self._cut_off.get(node, False),
            "sending_to": [port for each in others if not self.passes(node, each) for port in _ports(each)],
            "receiving_from": [port for each in others if not self.passes(each, node) for port in _ports(each)],
        }


_WHOLE: Mapping[str, object] = {"clients": False, "sending_to": [], "receiving_from": []}


def _ports(node: Connected) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in node.listeners.values()]
