"""Many clients that do little: a burst of new connections, and consumers that poll empty partitions."""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bench.comparison import generator
from bench.comparison.figures import Category, Figure
from bench.comparison.plan import request, waiting_consumer
from bench.comparison.session import Session, make_figure
from bench.comparison.usage import cpu_seconds, memory_mb
from protocol.messages.api_versions import API_VERSIONS
from tests.support.brokers import HOST, RunningBroker

COUNT = 10_000
PARTITIONS, POLLS = 1000, 100
_MAX_WAIT_MS = 500
_PATIENCE_S = 300.0
_SPARE_FILES = 200


@dataclass(frozen=True, slots=True)
class Burst:
    """The outcome of connections that were opened at once, with one request each."""

    seconds: float  # until the last one was answered or lost
    answered: int
    lost: int
    cpu_s: float
    kb_each: float


class _Asking:
    """A connection that sends its request as soon as it is connected, and waits for the response."""

    def __init__(self, port: int, frame: bytes) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex((HOST, port))
        self._frame = frame
        self.is_sent = False

    def advance(self) -> bool:
        """Do what is possible without waiting; return whether it is answered. OSError: the connection is lost."""
        if not self.is_sent:
            self.socket.send(self._frame)
            self.is_sent = True
            return False
        if not self.socket.recv(1 << 16):
            raise ConnectionResetError
        return True


class Measured(Protocol):
    """A broker on this machine."""

    @property
    def pid(self) -> int: ...

    @property
    def port(self) -> int: ...


def burst(broker: Measured, count: int) -> Burst:
    """Open `count` connections as fast as this process can; keep them open until all are answered or lost."""
    frame = request(API_VERSIONS, 0)
    selector = selectors.DefaultSelector()
    before_mb, before_s = memory_mb(broker.pid), cpu_seconds(broker.pid)
    began = time.perf_counter()
    answered: list[_Asking] = []
    lost = 0
    for _ in range(count):
        one = _Asking(broker.port, frame)
        selector.register(one.socket, selectors.EVENT_WRITE, one)
    while selector.get_map() and time.perf_counter() - began < _PATIENCE_S:
        for key, _ in selector.select(1):
            one = key.data
            try:
                is_answered = one.advance()
            except OSError:
                lost += 1
                selector.unregister(one.socket)
                one.socket.close()
                continue
            if is_answered:
                selector.unregister(one.socket)
                answered.append(one)
            else:
                selector.modify(one.socket, selectors.EVENT_READ, one)
    took = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        lost += 1
        key.data.socket.close()
    found = Burst(
        seconds=took,
        answered=len(answered),
        lost=lost,
        cpu_s=cpu_seconds(broker.pid) - before_s,
        kb_each=(memory_mb(broker.pid) - before_mb) * 1024 / max(1, len(answered)),
    )
    selector.close()
    for one in answered:
        one.socket.close()
    return found


def measure_burst(session: Session) -> Iterator[Figure]:
    """Measure a burst a round. Memory is the first burst's, because the broker keeps memory for later ones."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    count = min(COUNT, limit - _SPARE_FILES)
    found: list[list[Burst]] = [[] for _ in session.brokers]
    for _ in range(session.rounds):
        for broker, bursts in zip(session.brokers, found, strict=True):
            bursts.append(burst(broker, count))
            broker.catch_up()
    load = f"{count:,} connections at once"
    yield make_figure(Category.LATENCY, load, "s until all are answered", found, lambda each: each.seconds)
    yield make_figure(Category.LATENCY, load, "lost", found, lambda each: each.lost)
    yield make_figure(
        Category.CPU, load, "CPU us a connection", found, lambda each: each.cpu_s * 1e6 / max(1, each.answered)
    )
    firsts = [bursts[:1] for bursts in found]
    yield make_figure(Category.MEMORY, load, "kB a connection", firsts, lambda each: each.kb_each)


def measure_polls(session: Session) -> Iterator[Figure]:
    """Measure consumers that poll ten empty partitions each."""
    session.topic("waited-for", PARTITIONS)
    each = PARTITIONS // POLLS
    clients = [
        waiting_consumer("polls", "waited-for", range(number * each, (number + 1) * each), _MAX_WAIT_MS)
        for number in range(POLLS)
    ]

    def share(broker: RunningBroker, seconds: float) -> float:
        found = generator.run(broker, seconds, clients)
        return 100 * found.cpu_s / found.groups["polls"].seconds

    found = session.alternate(share)
    load = f"{POLLS} long polls on {PARTITIONS:,} partitions"
    yield make_figure(Category.CPU, load, "% of a core", found, lambda percent: percent)
