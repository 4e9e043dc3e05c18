"""The load generator where there is no Go: `python -m bench.comparison.sender PLAN`.

It does what bench/load/main.go does, but is too slow to saturate a broker: only its figures of the broker's processor
time and memory, and those of clients at a fixed pace, are meaningful.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import uvloop

from bench.comparison.figures import quantile

_PIECE_BYTES = 16 << 10
_HEAD_BYTES = 512


class Client:
    """One of the plan's clients (bench/comparison/plan.py describes its fields)."""

    def __init__(self, plan: dict[str, Any], address: str, sent: dict[str, list[float]]) -> None:
        host, _, port = address.rpartition(":")
        self.plan = plan
        self.requests = self.bytes = 0
        self.latencies_ms: list[float] = []
        self.ended = 0.0
        self._sent = sent[plan["pair"]] if plan["pair"] else None
        self._received = self._offset = 0
        self._request = bytearray(Path(plan["frame"]).read_bytes())
        self._begun: deque[float] = deque()
        self._buffer = memoryview(bytearray(_PIECE_BYTES if plan["read_bytes_per_second"] else 1 << 20))
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()

    async def run(self, started: float, seconds: float) -> None:
        """Execute the plan until the time is over and no request is outstanding."""
        until = started + seconds
        if self.plan["per_second"]:
            await self._paced(started, until)
        else:
            for _ in range(self.plan["in_flight"]):
                await self._send(time.perf_counter())
            while self._begun:
                await self._receive()
                if not self._is_done(until):
                    await self._send(time.perf_counter())
        self.ended = time.perf_counter()
        self._socket.close()

    async def _paced(self, started: float, until: float) -> None:
        """Send when a request is due. Its time starts when it was due, even if the last response arrived later."""
        due = started + 1 / self.plan["per_second"]
        while due < until and not self._is_done(until):
            begun = due
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
                begun = time.perf_counter()
            await self._send(begun)
            await self._receive()
            due += 1 / self.plan["per_second"]

    def _is_done(self, until: float) -> bool:
        limit = self.plan["limit_bytes"]
        return time.perf_counter() >= until or bool(limit and self.bytes >= limit)

    async def _send(self, begun: float) -> None:
        if fetching := self.plan["fetching"]:
            at = fetching["offset_at"]
            self._request[at : at + 8] = self._offset.to_bytes(8, "big")
        elif self._sent is not None:
            self._sent.append(begun)
        self._begun.append(begun)
        await self._loop.sock_sendall(self._socket, self._request)

    async def _receive(self) -> None:
        """Receive one response."""
        size = int.from_bytes(await self._read(4), "big")
        head = bytes(await self._read(min(size, _HEAD_BYTES)))
        await self._skip(size - len(head))
        now = time.perf_counter()
        for at in self.plan["errors_at"]:
            if code := int.from_bytes(head[at : at + 2], "big", signed=True):
                sys.exit(f"the broker answered a client of {self.plan['group']!r} with error {code}")
        begun = self._begun.popleft()
        self.requests += 1
        self.bytes += self.plan["record_bytes"]
        if fetching := self.plan["fetching"]:
            at = fetching["records_at"]
            self._take(max(0, int.from_bytes(head[at : at + 4], "big", signed=True)), begun, now)
        else:
            self.latencies_ms.append(1000 * (now - begun))

    async def _read(self, size: int) -> memoryview:
        filled = 0
        while filled < size:
            got = await self._loop.sock_recv_into(self._socket, self._buffer[filled:size])
            if not got:
                sys.exit(f"the broker closed a connection of {self.plan['group']!r}")
            filled += got
        return self._buffer[:size]

    async def _skip(self, size: int) -> None:
        """Read the rest of a response at the pace of this client."""
        while size > 0:
            piece = min(size, len(self._buffer))
            if pace := self.plan["read_bytes_per_second"]:
                await asyncio.sleep(piece / pace)
            await self._read(piece)
            size -= piece

    def _take(self, size: int, begun: float, now: float) -> None:
        """Count bytes of records. All batches have the same size; a truncated last one is fetched again."""
        fetching = self.plan["fetching"]
        batches = size // fetching["batch_bytes"]
        self.bytes += size
        if self._sent is None:
            self.latencies_ms.append(1000 * (now - begun))
        else:
            received = self._sent[self._received : self._received + batches]
            self.latencies_ms += [1000 * (now - each) for each in received]
            self._received += batches
        self._offset += batches * fetching["batch_records"]
        if not batches and not fetching["follows"]:
            self._offset = 0  # from the front again


def outcomes(clients: list[Client], started: float) -> dict[str, dict[str, float]]:
    """Return the results of each group, in the format of bench/load/main.go."""
    groups: dict[str, list[Client]] = defaultdict(list)
    for client in clients:
        groups[client.plan["group"]].append(client)
    found = {}
    for group, members in groups.items():
        latencies_ms = [wait for client in members for wait in client.latencies_ms]
        found[group] = {
            "requests": sum(client.requests for client in members),
            "bytes": sum(client.bytes for client in members),
            "seconds": max(client.ended for client in members) - started,
            "p50_ms": quantile(latencies_ms, 0.5),
            "p99_ms": quantile(latencies_ms, 0.99),
            "max_ms": max(latencies_ms, default=0.0),
        }
    return found


async def run(plan: dict[str, Any]) -> None:
    sent: dict[str, list[float]] = defaultdict(list)
    clients = [Client(each, plan["address"], sent) for each in plan["clients"]]
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    await asyncio.gather(*(client.run(started, plan["seconds"]) for client in clients))
    print(json.dumps(outcomes(clients, started)))


def main() -> None:
    uvloop.run(run(json.loads(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()
