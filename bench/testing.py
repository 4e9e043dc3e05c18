"""Measure how fast a broker for tests is: `python -m bench.testing [--rounds N] [--megabytes N]`.

Times the start of `pybroker.testing.Broker` until clients can connect, a topic, a stop, a fork of loaded topics (its
copy and its start), and `pybroker serve --ephemeral --print-json` until its line. Shows best and median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from pybroker.testing import Broker

VALUE_BYTES = 10_000
SEGMENT_BYTES = 1 << 20


class Clock:
    """Collects times in ms by name."""

    def __init__(self) -> None:
        self._took: dict[str, list[float]] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._took.setdefault(name, []).append(1000 * (time.perf_counter() - began))

    def show(self) -> None:
        for name, took in self._took.items():
            print(f"{name:34} best {min(took):6.1f} ms, median {statistics.median(took):6.1f} ms of {len(took)}")


def fill(broker: Broker, megabytes: int) -> None:
    """Write a topic of `megabytes` megabytes in segments of one."""
    broker.create_topic("loaded", config={"segment.bytes": SEGMENT_BYTES})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for _ in range(megabytes * 1_000_000 // VALUE_BYTES):
        producer.produce("loaded", bytes(VALUE_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def one_broker(clock: Clock) -> None:
    broker = Broker()
    with clock.time("start"):
        broker.start()
    with clock.time("create_topic"):
        broker.create_topic("orders")
    with clock.time("stop"):
        broker.stop()


def one_fork(clock: Clock, loaded: Broker) -> None:
    with clock.time("fork, the copy"):
        fork = loaded.fork()
    with clock.time("fork, its start"):
        fork.start()
    fork.stop()


def one_line(clock: Clock) -> None:
    command = [sys.executable, "-m", "pybroker", "serve", "--ephemeral", "--print-json", "--until-stdin-ends"]
    with clock.time("pybroker serve, until its line"):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        )
        assert process.stdout is not None
        process.stdout.readline()
    process.communicate()


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.testing", description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the forked topic")
    options = parser.parse_args(argv)
    clock = Clock()
    with Broker() as loaded:
        fill(loaded, options.megabytes)
        loaded.pause()
        each: tuple[Callable[[], None], ...] = (
            lambda: one_broker(clock),
            lambda: one_line(clock),
            lambda: one_fork(clock, loaded),
        )
        for do in each:
            for _ in range(options.rounds):
                do()
    clock.show()


if __name__ == "__main__":
    main(sys.argv[1:])
