"""Measure clusters of three brokers, replication factor 3, acks=all: `bench replication [--loads NAME ...] [--alone]`.

Three brokers of pybroker, then three of Apache Kafka, each under a controller of Apache Kafka. Broker 1 leads all
partitions and gets all requests; both others follow. Processor time is that of the leader, and the mean of the
followers, from /proc. The brokers share the first core, the load generator runs on the second.

    --rounds 3 --seconds 4 --warm 20     number and length of the rounds, after a warm-up of so many seconds
    --partitions 1000                    of the loads "idle", "failover" and "start"
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.compare import show
from bench.comparison import cluster, failover, generator
from bench.comparison.brokers import start_again
from bench.comparison.cluster import Cluster
from bench.comparison.generator import Outcome
from bench.comparison.loads import LARGE, MEDIUM, batch
from bench.comparison.plan import Client, producer
from bench.comparison.usage import cpu_seconds, memory_mb
from tests.support.eventually import eventually


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` clients of so many partitions, each with `in_flight` outstanding requests."""

    partitions: int
    connections: int
    in_flight: int
    records: int
    record_bytes: int


LOADS = {
    "small": Load(10, 20, 1, 1, 100),
    "medium": Load(4, 20, 1, *MEDIUM),
    "large": Load(4, 4, 1, *LARGE),
    "one connection": Load(1, 1, 1, 1, 100),
    "one connection, 5 in flight": Load(1, 1, 5, 1, 100),
    "one busy of 1,000": Load(1000, 1, 1, 1, 100),
}
_SETTLED_S = 2


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a load: processor seconds of the leader and of a follower, and what the generator saw."""

    leader_s: float
    follower_s: float
    load: Outcome


def clients(topic: str, load: Load) -> list[Client]:
    """Return the clients of a load, spread over its partitions."""
    records = batch(load.records, load.record_bytes)
    every = [producer("load", topic, each % load.partitions, records, acks=-1) for each in range(load.connections)]
    return [replace(each, in_flight=load.in_flight) for each in every]


def run(of: Cluster, seconds: float, load: Sequence[Client]) -> Round:
    """Put the clients' load on the leader."""
    before = [cpu_seconds(broker.pid) for broker in of.brokers]
    found = generator.run(of.leader, seconds, load)
    leader, *followers = (cpu_seconds(broker.pid) - used for broker, used in zip(of.brokers, before, strict=True))
    return Round(leader, statistics.mean(followers), found.groups["load"])


def measure_load(name: str, clusters: Sequence[Cluster], options: argparse.Namespace) -> None:
    """Print a load's figures."""
    topic, load = name.replace(" ", "-").replace(",", ""), LOADS[name]
    made = clients(topic, load)
    for each in clusters:
        each.create(topic, load.partitions)
        run(each, options.warm, made)
    rounds = [[run(each, options.seconds, made) for _ in range(options.rounds)] for each in clusters]

    def print_figure(what: str, of: Callable[[Round], float], *, more_is_better: bool = False) -> None:
        values = [statistics.median(map(of, found)) for found in rounds]
        show(name, what, values, more_is_better=more_is_better)

    print_figure("leader's CPU us a request", lambda each: each.leader_s * 1e6 / each.load.requests)
    print_figure("follower's CPU us a request", lambda each: each.follower_s * 1e6 / each.load.requests)
    print_figure("leader's CPU ms a MB", lambda each: each.leader_s * 1e9 / each.load.bytes)
    print_figure("follower's CPU ms a MB", lambda each: each.follower_s * 1e9 / each.load.bytes)
    print_figure("requests a second", lambda each: each.load.requests / each.load.seconds, more_is_better=True)
    print_figure("ms a request, median", lambda each: each.load.p50_ms)
    print_figure("ms a request, 99 of 100", lambda each: each.load.p99_ms)


def measure_idle(clusters: Sequence[Cluster], options: argparse.Namespace) -> None:
    """Print what idle partitions cost: processor time of a second in per cent of a core, and memory."""
    for each in clusters:
        each.create("idle", options.partitions)
    time.sleep(_SETTLED_S)
    found: list[tuple[float, float]] = []
    for each in clusters:
        before = [cpu_seconds(broker.pid) for broker in each.brokers]
        time.sleep(options.seconds * options.rounds)
        used = [cpu_seconds(broker.pid) - at for broker, at in zip(each.brokers, before, strict=True)]
        percent = [100 * seconds / (options.seconds * options.rounds) for seconds in used]
        found.append((percent[0], statistics.mean(percent[1:])))
    show("idle", "leader's % of a core", [leader for leader, _ in found])
    show("idle", "follower's % of a core", [follower for _, follower in found])
    show("idle", "follower's MB of memory", [memory_mb(each.brokers[1].pid) for each in clusters])


def measure_failover(clusters: Sequence[Cluster], options: argparse.Namespace) -> None:
    """Print the pause of writes and of elections after a leader was killed, and the time until it answers again."""
    pauses, back = [], []
    for each in clusters:
        each.create("failover", options.partitions)
        pauses.append(failover.kill_leader(each, "failover"))
        back.append(start_again(each.leader))
        _wait_until_in_sync(each, "failover", options.partitions)
    show("failover", "s beyond the session, a write succeeds", [each.written_s for each in pauses])
    show("failover", "s beyond the session, others lead", [each.moved_s for each in pauses])
    show("failover", "s until it answers again", back)


def measure_start(clusters: Sequence[Cluster], options: argparse.Namespace) -> None:
    """Print the time until a broker with partitions is unfenced: killed and started again, and after a clean stop."""
    killed, stopped = [], []
    for each in clusters:
        each.create("start", options.partitions)
        killed.append(failover.return_after_kill(each))
        _wait_until_in_sync(each, "start", options.partitions)
        stopped.append(failover.return_after_stop(each))
        _wait_until_in_sync(each, "start", options.partitions)
    show("start", "s beyond the session, killed, until unfenced", killed)
    show("start", "s beyond the session, stopped, until unfenced", stopped)


def _wait_until_in_sync(of: Cluster, topic: str, partitions: int) -> None:
    at = of.followers[0]
    eventually(lambda: cluster.in_sync(at, topic), equal_to=(partitions, len(cluster.IDS)), timeout_s=120)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="replication, here and in Apache Kafka")
    measures = {"idle": measure_idle, "failover": measure_failover, "start": measure_start}
    names = [*LOADS, *measures]
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=20)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka's brokers")
    options = parser.parse_args(argv)
    kinds = {"ours": cluster.OurNode} if options.alone else cluster.KINDS
    with tempfile.TemporaryDirectory(prefix="replication-") as scratch, cluster.started(Path(scratch), kinds) as found:
        for name in options.loads:
            if name in measures:
                measures[name](found, options)
            else:
                measure_load(name, found, options)


if __name__ == "__main__":
    main(sys.argv[1:])
