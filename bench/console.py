"""Measure the broker's cost of an open console: `python -m bench.console [--topics N] [--seconds N] [--browser]`.

One broker with N topics runs with console and metrics. A turn has the page with the curves open, or not. By default
this process sends the page's requests (its numbers every five seconds); with --browser a Chromium does, which loads
the same machine. A turn measures the processor time of the broker's and the console's process in percent of a core,
first idle, then while one client produces at a fixed rate; and the response times.

Turns with and without the page alternate, so that other load on the machine affects both. Prints medians over rounds.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from bench.process import Broker, running
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder

#: The intervals of console/static/console.js.
EVERY_S, SOON_S = 5.0, 2.2
RATE = 200
VALUE_BYTES = 1_000
TOPICS_A_REQUEST = 500


class Turn(NamedTuple):
    """Percent of a core that broker and console used; response times in ms, sorted, if requests were sent."""

    broker: float
    console: float
    answers: list[float]

    def at(self, share: float) -> float:
        return self.answers[min(len(self.answers) - 1, int(share * len(self.answers)))]


def make_topics(broker: Broker, count: int) -> None:
    names = [f"topic-{number:04d}" for number in range(count)]
    for first in range(0, count, TOPICS_A_REQUEST):
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names[first : first + TOPICS_A_REQUEST]
        ]
        broker.call(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=topics, timeout_ms=60_000))
    for name in names:  # a topic without records has no metrics
        produce(broker, name)


def produce(broker: Broker, topic: str) -> float:
    """Write a record; return the time until it is acknowledged, in ms."""
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, bytes(VALUE_BYTES))
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=builder.build())])]
    request = PRODUCE.request(acks=-1, timeout_ms=30_000, topic_data=data)
    began = time.perf_counter()
    broker.call(PRODUCE, 9, request)
    return 1000 * (time.perf_counter() - began)


@contextmanager
def looked_at(port: int) -> Iterator[None]:
    """Keep the page open: send the requests of its script."""
    connection = HTTPConnection("127.0.0.1", port)

    def get(path: str) -> bytes:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        return body

    page = get("/").decode()
    numbers = re.search(r'data-rates="([^"]+)"', page)
    assert numbers is not None
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        get(path)
    is_over = threading.Event()

    def ask() -> None:
        wait_s = SOON_S
        while not is_over.wait(wait_s):
            connection.close()  # the console closes idle connections sooner
            get(numbers[1])
            wait_s = EVERY_S

    get(numbers[1])
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()
        connection.close()


@contextmanager
def in_a_browser(port: int) -> Iterator[None]:
    """Keep the page open in a Chromium."""
    from tests.support.browsers import chromium

    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        yield


def spent_ms(pid: int) -> float:
    """Return the processor time that a process has used."""
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return 1000 * (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def child_of(pid: int) -> int:
    """Return the process id of the console, the broker's only child."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def turn(broker: Broker, console: int, seconds: float, rate: int) -> Turn:
    """Run one turn of `seconds` with `rate` records a second."""
    began = time.perf_counter()
    before = spent_ms(broker.pid), spent_ms(console)
    answers: list[float] = []
    while (passed := time.perf_counter() - began) < seconds:
        if not rate:
            time.sleep(seconds - passed)
        elif (early := len(answers) / rate - passed) > 0:
            time.sleep(early)
        else:
            answers.append(produce(broker, "topic-0000"))
    took_ms = 1000 * (time.perf_counter() - began)
    after = spent_ms(broker.pid), spent_ms(console)
    shares = [100 * (end - start) / took_ms for start, end in zip(before, after, strict=True)]
    return Turn(shares[0], shares[1], sorted(answers))


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def show(name: str, turns: dict[bool, list[Turn]]) -> None:
    for is_open, found in turns.items():
        broker, console = (statistics.median(values) for values in zip(*(each[:2] for each in found), strict=True))
        line = f"{name}, console {'open' if is_open else 'shut'}: "
        line += f"broker {broker:5.2f} %, console {console:5.2f} % of a core"
        if found[0].answers:
            p50, p99 = (statistics.median(each.at(share) for each in found) for share in (0.5, 0.99))
            line += f"; answers p50 {p50:.2f} ms, p99 {p99:.2f} ms"
        print(line, flush=True)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__.partition(":")[0])
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind")
    parser.add_argument("--browser", action="store_true", help="open the page in a Chromium")
    options = parser.parse_args(argv)
    console_port, metrics_port = free_ports(2)
    listeners = {
        "console_listeners": f"http://127.0.0.1:{console_port}",
        "metrics_listeners": f"http://127.0.0.1:{metrics_port}",
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, running(Path(scratch), **listeners) as broker:
        make_topics(broker, options.topics)
        console = child_of(broker.pid)
        opened = in_a_browser if options.browser else looked_at
        with looked_at(console_port):  # modules that the first page loads count for no turn
            time.sleep(SOON_S)
        for name, rate in (("idle", 0), (f"{RATE} records/s", RATE)):
            turns: dict[bool, list[Turn]] = {False: [], True: []}
            for number in range(2 * options.rounds):
                is_open = number % 2 == 1
                with opened(console_port) if is_open else nullcontext():
                    turns[is_open].append(turn(broker, console, options.seconds, rate))
            show(f"{options.topics} topics, {name}", turns)


if __name__ == "__main__":
    main(sys.argv[1:])
