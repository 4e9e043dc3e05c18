"""Limits of replication (KIP-73): a replica that is added to a topic gets no more bytes a second than they allow."""

from __future__ import annotations

import time

import pytest

from metadata.image import ResourceType
from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, THIRD, MixedCluster
from tests.support.eventually import eventually

#: Bytes per second, the records to copy, and their size.
RATE, COUNT, SIZE = 1_000_000, 600, 10_000
#: replica.fetch.max.bytes: one answer more may arrive before the rate is known.
FETCHED = 1_048_576
_SIDES = ["leader", "follower"]


def copied(cluster: MixedCluster, topic: str, to: int) -> int:
    """Return the bytes of the partition at a broker."""
    return sum(each.stat().st_size for path in cluster.directories_of(topic, to) for each in path.glob("*.log"))


@pytest.mark.parametrize("side", _SIDES)
def test_a_new_replica_is_throttled(cluster: MixedCluster, side: str) -> None:
    """A member leads or follows, and its side alone has a limit, which is lifted in the end."""
    leads, follows = (OURS, THEIRS) if side == "leader" else (THEIRS, OURS)
    topic = cluster.create(leads)
    cluster.produce(topic, 0, COUNT, size=SIZE)
    rate_key, replicas_key = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
    cluster.configure(ResourceType.BROKER, str(OURS), {rate_key: str(RATE)})
    cluster.configure(ResourceType.TOPIC, topic, {replicas_key: f"0:{OURS}"})
    try:
        assert cluster.reassign(topic, [leads, follows]) == 0
        started = eventually(lambda: copied(cluster, topic, follows) and time.monotonic())
        before = copied(cluster, topic, follows)
        eventually(lambda: copied(cluster, topic, follows) >= COUNT * SIZE * 0.8, interval_s=0.005)
        took_s, passed = time.monotonic() - started, copied(cluster, topic, follows) - before
        # not faster than the limit, whatever the machine does: one second may be saved
        assert passed <= RATE * (took_s * 1.2 + 1) + FETCHED, (passed, took_s)
        cluster.configure(ResourceType.BROKER, str(OURS), {rate_key: str(100 * RATE)})
        eventually(lambda: cluster.state(topic)[2], equal_to=[OURS, THEIRS])
    finally:
        cluster.configure(ResourceType.BROKER, str(OURS), {rate_key: None})
    assert cluster.are_equal(topic, OURS, THEIRS)


@pytest.mark.full_size
@pytest.mark.parametrize("side", _SIDES)
def test_the_rate_is_met(cluster: MixedCluster, side: str) -> None:
    """Over 20 s, between a member and another; the rate is within 20 % of the limit."""
    leads, follows = (OURS, THIRD) if side == "leader" else (THIRD, OURS)
    topic = cluster.create(leads)
    rate, seconds = 1_000_000, 20
    cluster.produce(topic, 0, rate * (seconds + 3) // 100_000, size=100_000)
    rate_key, replicas_key = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
    cluster.configure(ResourceType.BROKER, str(OURS), {rate_key: str(rate)})
    cluster.configure(ResourceType.TOPIC, topic, {replicas_key: "*"})
    try:
        assert cluster.reassign(topic, [leads, follows]) == 0
        eventually(lambda: copied(cluster, topic, follows))
        before, started = copied(cluster, topic, follows), time.monotonic()
        time.sleep(seconds)
        measured = (copied(cluster, topic, follows) - before) / (time.monotonic() - started)
        assert measured == pytest.approx(rate, rel=0.2)
    finally:
        cluster.configure(ResourceType.BROKER, str(OURS), {rate_key: None})
