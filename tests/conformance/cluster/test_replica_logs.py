"""The logs of replicas of both kinds: large batches, retention, deletion and compaction."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest
from confluent_kafka import Producer

from protocol.records.batch import iter_batches
from protocol.records.record import iter_batch_records
from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, THIRD, MixedCluster
from tests.integration.membership.kafka_nodes import QUIET
from tests.support.eventually import eventually

COUNT = 200
MB = 1 << 20
_LEADS = pytest.mark.parametrize("leads", [OURS, THEIRS])
_OURS_LEADS = pytest.mark.parametrize("leads", [OURS, pytest.param(THEIRS, marks=pytest.mark.full_size)])


def starts(cluster: MixedCluster, topic: str, at: int) -> list[int]:
    """Return the first offsets of the segments that a broker has of the partition."""
    (home,) = cluster.directories_of(topic, at)
    return sorted(int(each.stem) for each in home.glob("*.log"))


def by_key(cluster: MixedCluster, topic: str, at: int) -> dict[bytes, bytes]:
    """Return the last value of each key in the segments of a broker."""
    found: dict[bytes, bytes] = {}
    (data,) = cluster.logs(topic, at)
    for position, header in iter_batches(data):
        for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
            found[bytes(record.key or b"")] = bytes(record.value or b"")
    return found


@_LEADS
def test_batches_larger_than_a_fetch_are_replicated(cluster: MixedCluster, leads: int) -> None:
    """A batch of 12 MB passes whole, whatever replica.fetch.max.bytes (1 MB) and its response (10 MB) allow."""
    topic = cluster.create(leads, OURS + THEIRS - leads, config={"max.message.bytes": str(20 * MB)})
    limits = {"message.max.bytes": 20 * MB, "bootstrap.servers": cluster.bootstrap, "acks": "all"}
    producer = Producer({**QUIET, **limits, "message.copy.max.bytes": 0, "compression.type": "none"})
    failed: list[object] = []
    for size in (100, 12 * MB, 5 * MB, 100):
        producer.produce(topic, os.urandom(size), on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush(60)
    assert failed == []
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))
    assert cluster.state(topic)[2] == [OURS, THEIRS]


@_LEADS
def test_records_in_flight_while_a_second_replica_comes(cluster: MixedCluster, leads: int) -> None:
    topic = cluster.create(leads)
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    failed: list[object] = []
    for number in range(5 * COUNT):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
        if number == COUNT:
            assert cluster.reassign(topic, [leads, OURS + THEIRS - leads]) == 0
    assert producer.flush(60) == 0
    assert failed == []
    eventually(lambda: cluster.state(topic)[2], equal_to=[OURS, THEIRS])
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))
    assert cluster.offsets(topic) == (0, 5 * COUNT)


@_LEADS
def test_each_replica_deletes_old_segments(cluster: MixedCluster, leads: int) -> None:
    """Both delete what they may, and the follower's log begins where the leader's does."""
    config = {"segment.bytes": str(MB), "retention.bytes": str(2 * MB), "file.delete.delay.ms": "0"}
    topic = cluster.create(leads, OURS + THEIRS - leads, config=config)
    cluster.produce(topic, 0, 70, size=100_000)
    for at in (OURS, THEIRS):
        eventually(lambda at=at: starts(cluster, topic, at)[0], until=lambda first: first > 20)  # type: ignore[misc]
    eventually(lambda: starts(cluster, topic, OURS) == starts(cluster, topic, THEIRS))
    eventually(lambda: cluster.offsets(topic)[0] == starts(cluster, topic, leads)[0])
    assert cluster.state(topic)[2] == [OURS, THEIRS]


@_OURS_LEADS
def test_a_follower_continues_at_the_start_of_its_leader(cluster: MixedCluster, leads: int) -> None:
    """While it is frozen, records are deleted that it does not have: its log continues where the leader's begins."""
    follows = OURS + THEIRS - leads
    topic = cluster.create(leads, follows, config={"min.insync.replicas": "1"})
    cluster.produce(topic, 0, COUNT)
    os.kill(cluster[follows].pid, signal.SIGSTOP)
    try:
        eventually(lambda: cluster.state(topic, leads)[2], equal_to=[leads])
        cluster.produce(topic, COUNT, COUNT)
        cluster.delete_before(topic, 2 * COUNT - 10, leads)
        cluster.produce(topic, 2 * COUNT, COUNT)
    finally:
        os.kill(cluster[follows].pid, signal.SIGCONT)
    eventually(lambda: cluster.state(topic)[2], equal_to=[OURS, THEIRS])
    eventually(lambda: cluster.logs(topic, leads)[0].endswith(cluster.logs(topic, follows)[0][-1000:]))
    assert cluster.offsets(topic) == (2 * COUNT - 10, 3 * COUNT)
    assert starts(cluster, topic, follows)[-1] <= 2 * COUNT - 10


@_OURS_LEADS
def test_compacted_replicas_are_equal_by_key(cluster: MixedCluster, leads: int) -> None:
    """Each cleans its own log, also after its leader was killed."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(MB),
        "segment.ms": "500",
        "min.cleanable.dirty.ratio": "0.01",
        "min.insync.replicas": "1",
    }
    topic = cluster.create(leads, OURS + THEIRS - leads, THIRD, config=config)
    produce_keys(cluster, topic, 0)
    cluster[leads].kill()
    try:
        produce_keys(cluster, topic, 1)
    finally:
        cluster.start_all()
    eventually(lambda: cluster.state(topic)[2], equal_to=[OURS, THEIRS, THIRD])
    produce_keys(cluster, topic, 2)
    wanted = {b"key%d" % number: b"2" for number in range(20)}
    for at in (OURS, THEIRS, THIRD):
        eventually(partial(by_key, cluster, topic, at), equal_to=wanted)


def produce_keys(cluster: MixedCluster, topic: str, turn: int) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    failed: list[object] = []
    for number in range(100):
        producer.produce(
            topic,
            str(turn),
            f"key{number % 20}",
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failed == []
