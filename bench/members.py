"""Compare one node with several members of a cluster on this machine: `python -m bench members [--members 2]`.

The loads are those of `compare`; topics have one replica. Each member has a generator with the clients of the
partitions that it leads. Where the machine has more cores than members, the brokers get the first ones and the load the
others; else they share all cores, and the load takes cores from the brokers. The table therefore shows how many cores
the brokers with their controller, the load and everything else used: a rate is the brokers' limit only where cores were
left. It also shows the cost of a request, from which follows what the members could serve with enough cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.comparison import generator
from bench.comparison.brokers import PROPERTIES, create
from bench.comparison.generator import Generator, Outcome
from bench.comparison.loads import LOADS, SOURCE_BYTES, Load, clients
from bench.comparison.machine import description
from bench.comparison.plan import Client
from bench.comparison.usage import cpu_seconds, machine_seconds
from pybroker.testing import Cluster
from tests.support.brokers import HOST, OurBroker

_CHOSEN = ("small", "medium", "large", "fetch-small", "fetch-medium", "fetch-large")
_FILLING_S = 600


class Served(ABC):
    """The processes that serve the load, and the addresses of those that lead partitions."""

    name: str
    addresses: Sequence[str]
    pids: Sequence[int]

    def __init__(self) -> None:
        self._filled: set[str] = set()

    @abstractmethod
    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with one replica."""

    @abstractmethod
    def leader(self, topic: str, partition: int) -> int:
        """Return the number of the address whose process leads a partition."""

    @abstractmethod
    def stop(self) -> None:
        """End the processes."""

    def is_new(self, topic: str) -> bool:
        """Return whether no load has used a topic yet, and remember that one does now."""
        found = topic not in self._filled
        self._filled.add(topic)
        return found


class Node(Served):
    """One process."""

    name = "one node"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._broker = OurBroker(folder, PROPERTIES)
        self.addresses = [f"{HOST}:{self._broker.port}"]
        self.pids = [self._broker.pid]

    def create(self, topic: str, partitions: int) -> None:
        create(self._broker, topic, partitions)

    def leader(self, topic: str, partition: int) -> int:
        return 0

    def stop(self) -> None:
        self._broker.stop()


class Members(Served):
    """A controller and members."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__()
        self.name = f"{count} members"
        settings = {**PROPERTIES, "default.replication.factor": 1, "min.insync.replicas": 1}
        self._cluster = Cluster(brokers=count, config=settings, directory=folder).start()
        self.addresses = [each.bootstrap_servers for each in self._cluster.brokers]
        self.pids = [each.pid for each in (self._cluster.controller, *self._cluster.brokers)]

    def create(self, topic: str, partitions: int) -> None:
        self._cluster.create_topic(topic, partitions, replicas=1)

    def leader(self, topic: str, partition: int) -> int:
        return self._cluster.leader_of(topic, partition).node_id

    def stop(self) -> None:
        self._cluster.stop()


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round: the results of all generators in `seconds`, and the processor time by its user."""

    requests: int
    bytes: int
    seconds: float
    brokers_s: float
    load_s: float
    others_s: float


def divided(served: Served, load: Load) -> list[list[Client]]:
    """Return the clients of a load, by the address of their partition's leader."""
    parts: list[list[Client]] = [[] for _ in served.addresses]
    leaders = [served.leader(load.topic, partition) for partition in range(load.partitions)]
    for number, client in enumerate(clients(load)):
        parts[leaders[number % load.partitions]].append(client)
    return parts


def run(served: Served, load: Load, seconds: float, limit_bytes: int = 0) -> RoundResult:
    """Run a generator for each address that has clients, all at the same time."""
    with ExitStack() as stack:
        generators = []
        for address, part in zip(served.addresses, divided(served, load), strict=True):
            if part:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plan-")))
                part = [replace(each, limit_bytes=limit_bytes) for each in part]
                generators.append(Generator(address, seconds, part, folder))
        before = sum(map(cpu_seconds, served.pids)), _load_seconds(), machine_seconds()
        for each in generators:
            each.go()
        outcomes: list[Outcome] = [each.outcome()["load"] for each in generators]
        after = sum(map(cpu_seconds, served.pids)), _load_seconds(), machine_seconds()
        brokers_s, load_s, all_s = (later - earlier for earlier, later in zip(before, after, strict=True))
        return RoundResult(
            sum(each.requests for each in outcomes),
            sum(each.bytes for each in outcomes),
            max(each.seconds for each in outcomes),
            brokers_s,
            load_s,
            max(0.0, all_s - brokers_s - load_s),
        )


def _load_seconds() -> float:
    """Return the processor time of the generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepare(served: Served, load: Load) -> None:
    """Create the topic of a load if it is missing, and fill it if the load fetches."""
    if not served.is_new(load.topic):
        return
    served.create(load.topic, load.partitions)
    if load.max_bytes:
        filler = replace(load, max_bytes=0, connections=load.partitions)
        run(served, filler, _FILLING_S, SOURCE_BYTES // load.partitions)


def row(name: str, load: Load, served: Served, rounds: Sequence[RoundResult]) -> str:
    """Return a line of the table with medians."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    if load.by_bytes:
        rate = f"{median([each.bytes / each.seconds / 1e6 for each in rounds]):,.0f} MB/s"
        cost = f"{median([each.brokers_s * 1e9 / each.bytes for each in rounds]):.2f} s a GB"
    else:
        rate = f"{median([each.requests / each.seconds for each in rounds]):,.0f} requests/s"
        cost = f"{median([each.brokers_s * 1e6 / each.requests for each in rounds]):.1f} us a request"
    had = median([each.brokers_s / each.seconds for each in rounds])
    spent = median([each.load_s / each.seconds for each in rounds])
    others = median([each.others_s / each.seconds for each in rounds])
    return f"| {name} | {served.name} | {rate} | {cost} | {had:.2f} | {spent:.2f} | {others:.2f} |"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="compare one node with several members on this machine")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=LOADS, default=_CHOSEN, help=", ".join(LOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=2)
    options = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0))
    for_brokers, for_load = cores[: options.members], cores[options.members :]
    if not for_load:
        for_brokers = for_load = cores
    with tempfile.TemporaryDirectory(prefix="members-") as scratch, ExitStack() as stack:
        os.sched_setaffinity(0, for_brokers)
        compared: list[Served] = [Node(Path(scratch) / "node")]
        stack.callback(compared[-1].stop)
        compared.append(Members(Path(scratch) / "members", options.members))
        stack.callback(compared[-1].stop)
        os.sched_setaffinity(0, for_load)
        apart = "apart" if for_load != for_brokers else "on the same cores"
        print(f"{description()}. Load generator: {generator.language()}; brokers and load {apart}.\n")
        print("| load | served by | rate | the brokers' CPU | cores they had | the load | others |")
        print("|---|---|---:|---:|---:|---:|---:|", flush=True)
        for name in options.loads:
            load = LOADS[name]
            found: dict[str, list[RoundResult]] = {each.name: [] for each in compared}
            for served in compared:
                prepare(served, load)
                run(served, load, options.warm)
            for _ in range(options.rounds):
                for served in compared:
                    found[served.name].append(run(served, load, options.seconds))
            for served in compared:
                print(row(name, load, served, found[served.name]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
