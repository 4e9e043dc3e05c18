"""Compare one worker with several: `python -m bench workers [--workers 2] [--loads small large ...]`.

The loads are those of `compare`. Each worker has a generator with the clients of its partitions, as if the clients
divided themselves. Where the machine has more cores than workers, the brokers get the first ones and the load the
others; else they share all cores, and the load takes cores from the brokers. The table therefore shows how many cores
the broker, the load and everything else used: a rate is the broker's limit only where cores were left. It also shows
the cost of a request, from which follows what the workers could serve with enough cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.comparison import generator
from bench.comparison.brokers import PROPERTIES
from bench.comparison.generator import Generator, Outcome
from bench.comparison.loads import LOADS, SOURCE_BYTES, Load, clients
from bench.comparison.machine import description
from bench.comparison.plan import Client
from bench.comparison.usage import cpu_seconds, machine_seconds
from broker.process.placement import worker_of
from tests.support.brokers import HOST
from tests.support.several_workers import WorkersBroker

_CHOSEN = ("small", "medium", "large", "fetch-small", "fetch-medium", "fetch-large")
_FILLING_S = 600


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round: the results of all generators in `seconds`, and the processor time by its user."""

    requests: int
    bytes: int
    seconds: float
    broker_s: float
    load_s: float
    others_s: float


def divided(load: Load, workers: int) -> list[list[Client]]:
    """Return the clients of a load, by the worker that has their partition."""
    parts: list[list[Client]] = [[] for _ in range(workers)]
    for number, client in enumerate(clients(load)):
        parts[worker_of(load.topic, number % load.partitions, workers)].append(client)
    return parts


def run(broker: WorkersBroker, load: Load, seconds: float, limit_bytes: int = 0) -> RoundResult:
    """Run a generator for each worker that has clients, all at the same time."""
    with ExitStack() as stack:
        generators = []
        for worker, part in enumerate(divided(load, broker.count)):
            if part:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plan-")))
                part = [replace(each, limit_bytes=limit_bytes) for each in part]
                generators.append(Generator(f"{HOST}:{broker.port + worker}", seconds, part, folder))
        before = cpu_seconds(broker.pid), _load_seconds(), machine_seconds()
        for each in generators:
            each.go()
        outcomes: list[Outcome] = [each.outcome()["load"] for each in generators]
        after = cpu_seconds(broker.pid), _load_seconds(), machine_seconds()
        broker_s, load_s, all_s = (later - earlier for earlier, later in zip(before, after, strict=True))
        return RoundResult(
            sum(each.requests for each in outcomes),
            sum(each.bytes for each in outcomes),
            max(each.seconds for each in outcomes),
            broker_s,
            load_s,
            max(0.0, all_s - broker_s - load_s),
        )


def _load_seconds() -> float:
    """Return the processor time of the generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepare(broker: WorkersBroker, load: Load) -> None:
    """Create the topic of a load if it is missing, and fill it if the load fetches."""
    if load.topic in broker.client().topics():
        return
    broker.client().create_topic(load.topic, load.partitions)
    if load.max_bytes:
        filler = replace(load, max_bytes=0, connections=load.partitions)
        run(broker, filler, _FILLING_S, SOURCE_BYTES // load.partitions)


def row(name: str, load: Load, workers: int, rounds: Sequence[RoundResult]) -> str:
    """Return a line of the table with medians."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    if load.by_bytes:
        rate = f"{median([each.bytes / each.seconds / 1e6 for each in rounds]):,.0f} MB/s"
        cost = f"{median([each.broker_s * 1e9 / each.bytes for each in rounds]):.2f} s a GB"
    else:
        rate = f"{median([each.requests / each.seconds for each in rounds]):,.0f} requests/s"
        cost = f"{median([each.broker_s * 1e6 / each.requests for each in rounds]):.1f} us a request"
    had = median([each.broker_s / each.seconds for each in rounds])
    spent = median([each.load_s / each.seconds for each in rounds])
    others = median([each.others_s / each.seconds for each in rounds])
    return f"| {name} | {workers} | {rate} | {cost} | {had:.2f} | {spent:.2f} | {others:.2f} |"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="compare one worker beside several")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=LOADS, default=_CHOSEN, help=", ".join(LOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=2)
    options = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0))
    for_brokers, for_load = cores[: options.workers], cores[options.workers :]
    if not for_load:
        for_brokers = for_load = cores
    with tempfile.TemporaryDirectory(prefix="cores-") as scratch, ExitStack() as stack:
        os.sched_setaffinity(0, for_brokers)
        brokers = []
        for count in (1, options.workers):
            brokers.append(WorkersBroker(Path(scratch) / str(count), count, PROPERTIES))
            stack.callback(brokers[-1].stop)
        os.sched_setaffinity(0, for_load)
        apart = "apart" if for_load != for_brokers else "on the same cores"
        print(f"{description()}. Load generator: {generator.language()}; broker and load {apart}.\n")
        print("| load | workers | rate | the broker's CPU | cores it had | the load | others |")
        print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
        for name in options.loads:
            load = LOADS[name]
            found: dict[int, list[RoundResult]] = {each.count: [] for each in brokers}
            for broker in brokers:
                prepare(broker, load)
                run(broker, load, options.warm)
            for _ in range(options.rounds):
                for broker in brokers:
                    found[broker.count].append(run(broker, load, options.seconds))
            for broker in brokers:
                print(row(name, load, broker.count, found[broker.count]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
