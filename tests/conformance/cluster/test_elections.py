"""Leaders of both kinds are elected: preferred, unclean, and of the eligible leader replicas (KIP-966)."""

from __future__ import annotations

from functools import partial

import pytest

from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, TopicRequest
from tests.conformance.cluster.mixed_cluster import OURS, PREFERRED, THEIRS, THIRD, UNCLEAN, MixedCluster
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.wire import WireClient

COUNT = 200
NOBODY = -1
_LEADS = pytest.mark.parametrize("leads", [OURS, pytest.param(THEIRS, marks=pytest.mark.full_size)])


def eligible(cluster: MixedCluster, topic: str, at: int = THIRD) -> tuple[int, list[int], list[int], list[int]]:
    """Return leader, ISR, eligible leader replicas and the last known ones, as a broker knows them."""
    with WireClient(HOST, cluster[at].port) as client:
        answer = client.call(
            DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[TopicRequest(name=topic)],
            response_partition_limit=10,
            cursor=None,
        )
    found = answer.topics[0].partitions[0]
    return (
        found.leader_id,
        sorted(found.isr_nodes),
        sorted(found.eligible_leader_replicas or []),
        sorted(found.last_known_elr or []),
    )


@_LEADS
def test_the_preferred_leader_is_elected(cluster: MixedCluster, leads: int) -> None:
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other)
    cluster.produce(topic, 0, COUNT)
    assert cluster.elect(topic, PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.reassign(topic, [other, leads]) == 0
    eventually(partial(cluster.state, topic), until=lambda now: now[:2] == (leads, [other, leads]))
    assert cluster.elect(topic, PREFERRED) == 0
    eventually(partial(cluster.state, topic), equal_to=(other, [other, leads], [OURS, THEIRS]))
    cluster.produce(topic, COUNT, COUNT)
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))


@pytest.mark.parametrize(
    "how", ["asked", *(pytest.param(each, marks=pytest.mark.full_size) for each in ("topic", "cluster"))]
)
@_LEADS
def test_an_unclean_leader_loses_what_it_lacks(cluster: MixedCluster, leads: int, how: str) -> None:
    """The old leader truncates its log to the new one's when it comes back."""
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other, config={"min.insync.replicas": "1"})
    cluster.produce(topic, 0, COUNT)
    cluster[other].kill()
    try:
        eventually(partial(cluster.state, topic, THIRD), equal_to=(leads, [leads, other], [leads]))
        cluster.produce(topic, COUNT, COUNT)  # lost
        cluster[leads].kill()
        eventually(lambda: cluster.state(topic, THIRD)[0], equal_to=NOBODY)
        cluster[other].start()
        assert cluster.state(topic, THIRD)[0] == NOBODY
        assert cluster.elect(topic, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        enabled = {"unclean.leader.election.enable": "true"}
        if how == "asked":
            assert cluster.elect(topic, UNCLEAN) == 0
        elif how == "topic":
            cluster.configure(ResourceType.TOPIC, topic, enabled)
        else:
            cluster.configure(ResourceType.BROKER, "", enabled)
        eventually(lambda: cluster.state(topic, THIRD)[0], equal_to=other)
        cluster.produce(topic, 2 * COUNT, COUNT)
    finally:
        cluster.configure(ResourceType.BROKER, "", {"unclean.leader.election.enable": None})
        cluster.start_all()
    eventually(partial(cluster.state, topic, THIRD), equal_to=(other, [leads, other], [OURS, THEIRS]))
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))
    assert cluster.offsets(topic) == (0, 2 * COUNT)


@_LEADS
def test_the_eligible_replica_leads_after_a_clean_stop(cluster: MixedCluster, leads: int) -> None:
    """Both replicas leave. The one that stopped cleanly has all committed records, and leads as it comes back."""
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other, config={"min.insync.replicas": "2"})
    cluster.produce(topic, 0, COUNT)
    assert cluster[other].stop() in (0, 143)
    try:
        eventually(partial(eligible, cluster, topic), equal_to=(leads, [leads], [other], []))
        cluster[leads].kill()
        eventually(partial(eligible, cluster, topic), equal_to=(NOBODY, [], [OURS, THEIRS], [leads]))
        cluster[other].start()
        eventually(partial(eligible, cluster, topic), equal_to=(other, [other], [leads], []))
    finally:
        cluster.start_all()
    eventually(partial(eligible, cluster, topic), equal_to=(other, [OURS, THEIRS], [], []))
    for at in (OURS, THEIRS):
        assert eligible(cluster, topic, at) == (other, [OURS, THEIRS], [], [])
    cluster.produce(topic, COUNT, COUNT)
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))


@_LEADS
def test_no_replica_is_eligible_after_a_kill(cluster: MixedCluster, leads: int) -> None:
    """A replica that was killed may have lost committed records: the last known leader alone is elected."""
    other = OURS + THEIRS - leads
    topic = cluster.create(leads, other, config={"min.insync.replicas": "2"})
    cluster.produce(topic, 0, COUNT)
    cluster[other].kill()
    try:
        eventually(partial(eligible, cluster, topic), equal_to=(leads, [leads], [other], []))
        cluster[leads].kill()
        eventually(partial(eligible, cluster, topic), equal_to=(NOBODY, [], [OURS, THEIRS], [leads]))
        cluster[other].start()
        eventually(partial(eligible, cluster, topic), equal_to=(NOBODY, [], [leads], [leads]))
    finally:
        cluster.start_all()
    eventually(lambda: cluster.state(topic, THIRD)[2], equal_to=[OURS, THEIRS])
    assert cluster.state(topic, THIRD)[0] == leads
    cluster.produce(topic, COUNT, COUNT)
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))
    assert cluster.offsets(topic) == (0, 2 * COUNT)
