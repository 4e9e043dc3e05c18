"""Dead-letter queues of share groups whose partitions other brokers lead, and after kill -9 (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from pybroker.testing import Cluster
from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.dead_letters import ENABLED, raise_levels, use_queue
from tests.support.eventually import eventually
from tests.support.share_client import SHARE_PROPERTIES, ShareClient

PROPERTIES = {
    **SHARE_PROPERTIES,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
REJECT = [3]
_PATIENCE_S = 90


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers: one may be away while the others lead records and coordinate."""
    with Cluster(brokers=3, config=PROPERTIES) as started:
        with connect(started, 0) as client:
            raise_levels(client)
        yield started


def connect(cluster: Cluster, broker: int) -> ShareClient:
    return ShareClient(HOST, int(cluster.brokers[broker].bootstrap_servers.rpartition(":")[2]), timeout_s=180)


def topic_at(cluster: Cluster, broker: int, prefix: str, config: dict[str, str] | None = None) -> str:
    """Create topics until this broker leads one; return its name."""
    for number in range(20):
        name = f"{prefix}{number}"
        cluster.create_topic(name, 1, config or {}, replicas=1)
        if cluster.leader_of(name).node_id == broker:
            return name
    raise AssertionError(f"broker {broker} leads none of 20 topics")


def coordinators(cluster: Cluster) -> tuple[int, int]:
    """Return the brokers that coordinate all groups, and their share states: the topics have one partition each."""
    with connect(cluster, 0) as client:
        client.group = "any"
        client.wait_for_group()
        group, share = (
            client.call(FIND_COORDINATOR, 6, key_type=kind, coordinator_keys=[key]).coordinators[0].node_id
            for kind, key in ((0, "any"), (2, f"any:{'A' * 22}:0"))
        )
    return group, share


def group_of(cluster: Cluster, topic: str, queue: str) -> ShareClient:
    """Return a client of the coordinator of a new group that reads a topic from its start, and has this queue."""
    owner = connect(cluster, coordinators(cluster)[0])
    (described,) = owner.call(METADATA, 12, topics=[MetadataRequestTopic(name=topic)]).topics
    owner.group, owner.topic_id = topic, described.topic_id
    owner.configure(share_auto_offset_reset="earliest")
    use_queue(owner, queue)
    return owner


def member_at(cluster: Cluster, broker: int, owner: ShareClient, member: str = "member") -> ShareClient:
    client = connect(cluster, broker)
    client.group, client.topic_id, client.member = owner.group, owner.topic_id, member
    return client


def is_archived(cluster: Cluster, of: ShareClient) -> bool:
    with member_at(cluster, coordinators(cluster)[1], of) as coordinator:
        return ", 3, 1)" not in coordinator.read()


def letters(cluster: Cluster, queue: str) -> list[bytes | None]:
    with connect(cluster, cluster.leader_of(queue).node_id) as client:
        return [each.value for each in client.read_all(queue)]


@pytest.mark.parametrize("is_new", [False, True])
def test_queue_at_another_broker(cluster: Cluster, is_new: bool) -> None:
    """The broker that leads the records writes their letters to the queue's leader. A new queue may be anywhere."""
    name, queue = topic_at(cluster, 0, "source-"), "dlq.new"
    if not is_new:
        queue = topic_at(cluster, 1, "dlq.", ENABLED)
    with group_of(cluster, name, queue) as owner, member_at(cluster, 0, owner) as member:
        member.produce(name, batch(b"a", b"b", b"c"))
        owner.join(name)
        eventually(lambda: member.acquire(wait_ms=1_000) == [(0, 2, 1)], timeout_s=_PATIENCE_S)
        assert member.acknowledge((0, 0, [1]), (1, 2, REJECT)) == "NONE ['0 NONE None']"
        eventually(lambda: is_archived(cluster, owner), timeout_s=_PATIENCE_S)
    assert letters(cluster, queue) == [b"b", b"c"]
    assert "Traceback" not in cluster.log


def test_kill_while_archiving(cluster: Cluster) -> None:
    """State 3 is stored, the letter is not in its log: the next leader writes it, and no member gets the record."""
    of_groups, of_states = coordinators(cluster)
    away = next(each for each in range(3) if each not in (of_groups, of_states))
    name, queue = topic_at(cluster, of_states, "source-"), topic_at(cluster, away, "dlq.", ENABLED)
    with group_of(cluster, name, queue) as owner, member_at(cluster, of_states, owner) as member:
        member.produce(name, batch(b"a"))
        owner.join(name)
        eventually(lambda: member.acquire(wait_ms=1_000) == [(0, 0, 1)], timeout_s=_PATIENCE_S)
        cluster.brokers[away].suspend()
        assert member.acknowledge((0, 0, REJECT)) == "NONE ['0 NONE None']"
        assert member.read().endswith("[(0, 0, 3, 1)]")
    for broker in cluster.brokers:
        broker.kill()
    cluster.start()
    with (
        member_at(cluster, coordinators(cluster)[0], owner, "again") as owner,
        member_at(cluster, of_states, owner, "again") as member,
    ):
        owner.join(name)
        eventually(lambda: member.acquire(wait_ms=500) == [] and is_archived(cluster, owner), timeout_s=_PATIENCE_S)
    assert letters(cluster, queue) == [b"a"]
