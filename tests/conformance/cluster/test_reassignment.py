"""Replicas are moved between members and a broker of Apache Kafka."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, THIRD, MixedCluster
from tests.support.eventually import eventually

COUNT = 200
ALL = [OURS, THEIRS, THIRD]
_LEADS = pytest.mark.parametrize("leads", [OURS, THEIRS])
_OURS_LEADS = pytest.mark.parametrize("leads", [OURS, pytest.param(THEIRS, marks=pytest.mark.full_size)])


@_LEADS
def test_replicas_grow_move_and_shrink(cluster: MixedCluster, leads: int) -> None:
    """A record written in each state is on all replicas of the next one; replicas that left have no log."""
    other = OURS + THEIRS - leads
    topic = cluster.create(leads)
    for number, replicas in enumerate(([leads, other], [leads, other, THIRD], [THIRD, other], [other])):
        cluster.produce(topic, number * COUNT, COUNT)
        assert cluster.reassign(topic, replicas, at=other) == 0
        eventually(partial(cluster.state, topic, other), until=lambda now, to=replicas: now[1:] == (to, sorted(to)))
        eventually(partial(cluster.are_equal, topic, *replicas))
        for gone in set(ALL) - set(replicas):
            eventually(partial(cluster.directories_of, topic, gone), equal_to=[])
    assert cluster.reassigning() == {}


@_OURS_LEADS
def test_a_cancelled_move_leaves_the_replicas_as_before(cluster: MixedCluster, leads: int) -> None:
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other)
    cluster.produce(topic, 0, COUNT)
    cluster[THIRD].kill()
    try:
        assert cluster.reassign(topic, [leads, THIRD]) == 0
        eventually(lambda: cluster.reassigning(other).get(topic), equal_to=([THIRD], [other]))
        cluster.produce(topic, COUNT, COUNT)
        assert cluster.reassign(topic, None) == 0
    finally:
        cluster.start_all()
    assert cluster.reassigning() == {}
    eventually(partial(cluster.state, topic), equal_to=(leads, [leads, other], [OURS, THEIRS]))
    eventually(partial(cluster.directories_of, topic, THIRD), equal_to=[])
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))


@_OURS_LEADS
def test_a_move_goes_on_while_brokers_are_killed(cluster: MixedCluster, leads: int) -> None:
    """The leader is killed while the third broker copies the log from it, whose start has been deleted."""
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other)
    cluster.produce(topic, 0, COUNT, size=5000)
    cluster.delete_before(topic, COUNT // 2, leads)
    assert cluster.reassign(topic, [THIRD, other], at=other) == 0
    cluster[leads].kill()
    try:
        moved = [THIRD, other], sorted((THIRD, other))
        eventually(partial(cluster.state, topic, other), until=lambda now: now[1:] == moved)
        cluster.produce(topic, COUNT, COUNT)
    finally:
        cluster.start_all()
    eventually(partial(cluster.directories_of, topic, leads), equal_to=[])
    assert cluster.offsets(topic) == (COUNT // 2, 2 * COUNT)
