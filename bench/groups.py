"""Measure groups, here and with Apache Kafka: `bench groups [--only NAME ...] [--seconds 5] [--rounds 3] [--warm 10]`.

commits    offset commits at full speed: 20 connections, a group each, of one and of ten partitions a request
heartbeats 1,000 groups of 5 members: classic and KIP-848 groups on 1,000 partitions, share and streams groups on 10.
           Figures are their cost at the interval of real clients (3 s, 5 s), and that of one heartbeat at a tenth of
           the interval
share      records that members of a share group fetch and acknowledge (see bench/share_records.py)
rebalance  a group of 100 members on 1,000 partitions: the time until each partition has one owner, after all members
           join at once and after one more joins, and the broker's CPU for it; members send two heartbeats a second

In KIP-848's protocol, the first of many members gets all partitions at once. It gives up the others' shares by a
heartbeat after the assignment interval (1 s), and the others get them by heartbeats after that. With a heartbeat every
0.5 s, that takes at least 1.5 s with any broker, or 2 s if the first one's comes just before the interval ends.

Both brokers run on the first core; the members run on the second and drive them in turn. CPU is the broker's, from
/proc: the figure that other work on the machine disturbs least. Trust the rates only on a quiet machine: on a shared
core, a broker with many runnable threads gets a larger share than one with a single thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.compare import cpu_seconds, create, show, started
from bench.comparison import generator
from bench.comparison.connections import Measured
from bench.comparison.light_members import (
    ClassicMember,
    ConsumerMember,
    Crowd,
    LightMember,
    ShareMember,
    StreamsMember,
    are_settled,
)
from bench.comparison.plan import Client, place, request
from bench.share_records import PROPERTIES as SHARE_PROPERTIES
from bench.share_records import measure_share_records
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import WireClient

PROPERTIES = {
    **SHARE_PROPERTIES,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
TOPIC, PARTITIONS = "t", 1000
#: A share group has a state, and a streams group a task, for each partition: few partitions keep that small.
FEW, FEW_PARTITIONS = "few", 10
COMMITTERS = 20
COMMIT_VERSION = 8
GROUPS, GROUP_SIZE = 1000, 5
REBALANCED = 100
#: The time within which members have to settle.
_PATIENCE_S = 120
#: The time in which a broker accepts many connections, so that no member's join waits for that.
_ACCEPTED_S = 0.5


class Kind(NamedTuple):
    """A kind of group; `interval_s` is the heartbeat interval of its clients."""

    member: type[LightMember]
    interval_s: float
    topic: str = TOPIC
    partitions: int = PARTITIONS


KINDS = {
    "classic": Kind(ClassicMember, 3),
    "consumer": Kind(ConsumerMember, 5),
    "share": Kind(ShareMember, 5, FEW, FEW_PARTITIONS),
    "streams": Kind(StreamsMember, 5, FEW, FEW_PARTITIONS),
}


def wait_for_coordinator(broker: RunningBroker) -> None:
    """Wait until the broker has a coordinator: its topic is created by the first request for one."""
    with WireClient(HOST, broker.port) as client:
        eventually(lambda: not client.call(FIND_COORDINATOR, 3, key="any").error_code, timeout_s=_PATIENCE_S)


def committer(group: str, partitions: int) -> Client:
    """Return a client that commits the same offsets again and again."""
    committed = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(partitions)]

    def answer(failed: int, error_code: int) -> bytes:
        codes = [error_code if index == failed else 0 for index in range(partitions)]
        answers = [
            OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in enumerate(codes)
        ]
        topics = [OffsetCommitResponseTopic(name=TOPIC, partitions=answers)]
        header = bytes(4 + OFFSET_COMMIT.response_header_version(COMMIT_VERSION))
        return header + OFFSET_COMMIT.response.encode(COMMIT_VERSION, OFFSET_COMMIT.response(topics=topics))

    return Client(
        group="commits",
        frame=request(
            OFFSET_COMMIT,
            COMMIT_VERSION,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=committed)],
        ),
        errors_at=tuple(place(partial(answer, index), 2) for index in range(partitions)),
    )


def commits(broker: RunningBroker, partitions: int, seconds: float) -> tuple[float, float]:
    """Return (CPU microseconds a request, requests a second)."""
    clients = [committer(f"committer-{number}", partitions) for number in range(COMMITTERS)]
    found = generator.run(broker, seconds, clients)
    done = found.groups["commits"]
    return found.cpu_s * 1e6 / done.requests, done.requests / done.seconds


def measure_commits(brokers: list[RunningBroker], times: argparse.Namespace) -> None:
    for partitions in (1, 10):
        found: list[list[tuple[float, float]]] = [[], []]
        for round_ in range(times.rounds + 1):
            for broker, figures in zip(brokers, found, strict=True):
                figures.append(commits(broker, partitions, times.seconds if round_ else times.warm))
        name = f"commit of {partitions}"
        show(name, "CPU us/commit", [statistics.median(each[0] for each in figures[1:]) for figures in found])
        if generator.language() == "Python":
            continue  # the broker does not limit the rate then
        rates = [statistics.median(each[1] for each in figures[1:]) for figures in found]
        show(name, "commits/s", rates, more_is_better=True)


def entered(broker: Measured, kind: Kind, groups: Sequence[str], interval_s: float) -> Crowd:
    """Return groups whose members have all joined and settled."""
    crowd = Crowd(0.5)
    for first in range(0, len(groups), 50):
        some = [
            [kind.member(broker.port, group, kind.topic, kind.partitions) for _ in range(GROUP_SIZE)]
            for group in groups[first : first + 50]
        ]
        for members in some:
            for member in members:
                crowd.add(member)
        until = time.monotonic() + _PATIENCE_S
        while not all(are_settled(members) for members in some):
            assert time.monotonic() < until, f"{kind.member.__name__}s did not settle in time"
            crowd.run(time.monotonic() + 0.1)
    crowd.interval_s = interval_s
    return crowd


def measure_heartbeats(brokers: list[RunningBroker], times: argparse.Namespace) -> None:
    for name, kind in KINDS.items():
        shares, costs = [], []
        for broker in brokers:
            groups = [f"{name}-{number}" for number in range(GROUPS)]
            crowd = entered(broker, kind, groups, kind.interval_s / 10)

            def beats(seconds: float, crowd: Crowd = crowd, broker: RunningBroker = broker) -> tuple[float, float]:
                """Return (share of a core in %, CPU microseconds a heartbeat)."""
                crowd.run(time.monotonic() + 0.5 + crowd.interval_s)  # those that were due at the old interval
                before, began = cpu_seconds(broker.pid), time.monotonic()
                count = sum(member.beat_count for member in crowd.members)
                crowd.run(time.monotonic() + seconds)
                used = cpu_seconds(broker.pid) - before
                count = sum(member.beat_count for member in crowd.members) - count
                return used / (time.monotonic() - began) * 100, used / count * 1e6

            beats(times.warm)
            costs.append(statistics.median(beats(times.seconds)[1] for _ in range(times.rounds)))
            crowd.interval_s = kind.interval_s
            shares.append(beats(max(times.seconds, 2 * kind.interval_s))[0])
            crowd.close()
        show(f"{name} members", "% of a core", shares)
        show(f"{name} members", "CPU us/heartbeat", costs)


def settle(broker: RunningBroker, crowd: Crowd, newcomers: Sequence[LightMember]) -> tuple[float, float]:
    """Return (time from joining until all members have their share, the broker's CPU for it), in ms."""
    before, began = cpu_seconds(broker.pid), time.monotonic()
    for member in newcomers:
        crowd.add(member)
    assert crowd.run(began + _PATIENCE_S, lambda: are_settled(crowd.members)), "the group did not settle in time"
    return (time.monotonic() - began) * 1000, (cpu_seconds(broker.pid) - before) * 1000


def measure_rebalance(brokers: list[RunningBroker], times: argparse.Namespace) -> None:
    for name in ("classic", "consumer"):
        starts: list[list[tuple[float, float]]] = [[], []]
        changes: list[list[tuple[float, float]]] = [[], []]
        for round_ in range(times.rounds + 1):
            for side, broker in enumerate(brokers):
                group = f"{name}-{round_}"
                members = [KINDS[name].member(broker.port, group, TOPIC, PARTITIONS) for _ in range(REBALANCED)]
                time.sleep(_ACCEPTED_S)
                crowd = Crowd(0.5)
                starts[side].append(settle(broker, crowd, members[1:]))
                crowd.run(time.monotonic() + 1)
                changes[side].append(settle(broker, crowd, members[:1]))
                crowd.close()
        for what, found in (("all enter", starts), ("one more", changes)):
            show(f"{name}: {what}", "ms", [statistics.median(took for took, _ in each[1:]) for each in found])
            show(f"{name}: {what}", "CPU ms", [statistics.median(used for _, used in each[1:]) for each in found])


MEASURES: dict[str, Callable[[list[RunningBroker], argparse.Namespace], None]] = {
    "commits": measure_commits,
    "heartbeats": measure_heartbeats,
    "rebalance": measure_rebalance,
    "share": measure_share_records,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="groups, here and with Apache Kafka")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=10)
    times = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="groups-") as scratch, started(Path(scratch), PROPERTIES) as brokers:
        for broker in brokers:
            create(broker, TOPIC, PARTITIONS)
            create(broker, FEW, FEW_PARTITIONS)
            wait_for_coordinator(broker)
        for name in times.only:
            MEASURES[name](brokers, times)


if __name__ == "__main__":
    main(sys.argv[1:])
