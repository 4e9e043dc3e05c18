"""Measure a good client beside hostile requests: `python -m bench hostile [--requests N] [--kind KIND]`.

Eight connections send 100,000 requests, generated from the schemas as in tests/fault/test_hostile_requests.py, the same
ones to both brokers. Meanwhile a good client writes a record, reads it and asks for its topic every 5 ms. Figures are
its latencies, whether all of its records are there, and the broker's memory after a tenth of the requests and half a
minute after the last one.

Apache Kafka neither answers some requests nor closes their connections: after half a second without a response the
sender opens another connection. AddRaftVoter is left out: an empty listener name in it ends Apache Kafka 4.3.1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

from bench.comparison.brokers import BOTH, started
from bench.comparison.figures import quantile
from bench.comparison.machine import description
from bench.comparison.usage import memory_mb
from protocol.messages.add_raft_voter import ADD_RAFT_VOTER
from protocol.schema import Api
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.good_client import GoodClient
from tests.support.hostile import hostile_requests
from tests.support.hostile_client import PROPERTIES, prepared

CONNECTIONS = 8
PATIENCE_S, SETTLED_S = 0.5, 30.0
#: Requests of one API and version that are generated at a time: the generator keeps them in memory meanwhile.
_BATCH = 500
_ID = 7
_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


class GoodClientResult(NamedTuple):
    """The good client's observations."""

    times_ms: list[float]
    has_all: bool


def random_frames(served: Sequence[tuple[Api, int]], count: int) -> list[bytes]:
    """Return `count` frames, evenly of each API and version, in random order with a fixed seed."""
    frames: list[bytes] = []
    each = -(-count // len(served))
    for place, (api, version) in enumerate(served):
        for part in range(0, each, _BATCH):

            @seed(place * 1000 + part)
            @settings(
                max_examples=min(_BATCH, each - part),
                database=None,
                deadline=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            )
            @given(hostile_requests(api, version))
            def collect(request: object) -> None:
                frames.append(request.frame(_ID))  # type: ignore[attr-defined]

            collect()
        print(f"\r{len(frames):,} requests generated", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    random.Random(8).shuffle(frames)
    return frames[:count]


def good_client(port: int, channel: Connection) -> None:
    """Run the good client as a process, until a message arrives on `channel`; then send the results."""
    client = GoodClient(port)
    client.work(200)
    client.times_ms.clear()
    channel.send(None)
    while not channel.poll(0.005):
        client.work(1)
    try:
        client.check()
        has_all = True
    except AssertionError:
        has_all = False
    channel.send(GoodClientResult(client.times_ms, has_all))


class Senders:
    """Connections with one request in flight each; a request is given up after PATIENCE_S."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.outcomes: Counter[str] = Counter()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send all frames."""
        left = iter(frames)
        lock = threading.Lock()
        threads = [threading.Thread(target=self._work, args=(left, lock)) for _ in range(CONNECTIONS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _work(self, left: Iterator[bytes], lock: threading.Lock) -> None:
        connection: socket.socket | None = None
        while True:
            with lock:
                frame = next(left, None)
            if frame is None:
                break
            if connection is None:
                try:
                    connection = socket.create_connection((HOST, self._port), 60)
                except ConnectionRefusedError:
                    self.outcomes["connection refused"] += 1
                    break
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(PATIENCE_S)
            outcome = _sent(connection, frame)
            self.outcomes[outcome] += 1
            if outcome != "answered":
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


def _sent(connection: socket.socket, frame: bytes) -> str:
    try:
        connection.sendall(frame)
        received = bytearray()
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            piece = connection.recv(1 << 16)
            if not piece:
                return "closed"
            received += piece
    except TimeoutError:
        return "not answered"
    except OSError:
        return "closed"
    return "answered"


def measure(broker: RunningBroker, frames: Sequence[bytes]) -> None:
    """Measure one broker."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=good_client, args=(broker.port, theirs), daemon=True)
    process.start()
    theirs.close()
    ours.recv()
    senders = Senders(broker.port)
    began = time.monotonic()
    tenth = len(frames) // 10
    senders.send(frames[:tenth])
    before = memory_mb(broker.pid)
    senders.send(frames[tenth:])
    took = time.monotonic() - began
    try:
        ours.send(None)
        good: GoodClientResult = ours.recv()
    except (EOFError, BrokenPipeError):
        raise SystemExit(f"{broker.kind}: the broker has ended: {dict(senders.outcomes)}") from None
    process.join(60)
    time.sleep(SETTLED_S)
    counts = ", ".join(f"{count:,} {name}" for name, count in senders.outcomes.most_common())
    quantiles = " ".join(f"{name} {quantile(good.times_ms, share):.1f}" for name, share in _QUANTILES.items())
    print(f"{broker.kind:6} {len(frames):,} requests in {took:.0f} s: {counts}")
    print(f"       good client, {len(good.times_ms):,} answers, ms: {quantiles} worst {max(good.times_ms):.1f}", end="")
    print(", all records there" if good.has_all else ", RECORDS ARE MISSING")
    print(f"       memory {before:.0f} MB, in the end {memory_mb(broker.pid):.0f} MB", flush=True)
    if isinstance(broker, OurBroker) and ("Traceback" in broker.output or " ERROR " in broker.output):
        print("       errors in its log", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench hostile", description="hostile requests")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--kind", choices=[kind.kind for kind in BOTH], help="one of the brokers alone")
    options = parser.parse_args(argv)
    print(description())
    frames: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for kind in BOTH:
            if options.kind not in (None, kind.kind):
                continue
            with started(Path(scratch), PROPERTIES, [kind]) as [broker]:
                served, _ = prepared(broker.port)
                served = [(api, version) for api, version in served if api.key != ADD_RAFT_VOTER.key]
                frames = frames or random_frames(served, options.requests)
                measure(broker, frames)


if __name__ == "__main__":
    main(sys.argv[1:])
