"""Replicas in the log directories of a member: they move between directories, and leave a directory that fails."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from metadata.image import ResourceType
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from tests.conformance.cluster.mixed_cluster import OURS, PREFERRED, THEIRS, THIRD, MixedCluster
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.wire import WireClient

COUNT = 200
RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"


def move(cluster: MixedCluster, topic: str, to: Path, at: int) -> int:
    """Ask a broker to move its replica to a directory. Return the error code."""
    moved = AlterReplicaLogDir(path=str(to), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
    with WireClient(HOST, cluster[at].port) as client:
        answer = client.call(ALTER_REPLICA_LOG_DIRS, 2, dirs=[moved])
    code: int = answer.results[0].partitions[0].error_code
    return code


def other_directory(cluster: MixedCluster, topic: str, at: int) -> Path:
    """Return the log directory of a broker that does not have the replica."""
    (found,) = cluster.directories_of(topic, at)
    return found.parent.parent / ({"logs": "more", "more": "logs"}[found.parent.name])


@pytest.mark.parametrize(("leads", "at"), [(OURS, OURS), (THEIRS, OURS), (OURS, THEIRS)])
def test_a_replica_moves_between_directories(cluster: MixedCluster, leads: int, at: int) -> None:
    """A led or a followed one, while records are written. The replicas are equal afterwards, and both in sync."""
    topic = cluster.create(leads, OURS + THEIRS - leads)
    cluster.produce(topic, 0, COUNT, size=1000)
    to = other_directory(cluster, topic, at)
    assert move(cluster, topic, to, at) == 0
    cluster.produce(topic, COUNT, COUNT)
    eventually(partial(cluster.directories_of, topic, at), equal_to=[to / f"{topic}-0"])
    cluster.produce(topic, 2 * COUNT, COUNT)
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))
    assert cluster.state(topic)[2] == [OURS, THEIRS]
    assert cluster.offsets(topic) == (0, 3 * COUNT)


def test_a_move_goes_on_when_the_leader_changes(cluster: MixedCluster) -> None:
    """The copy is slow. Meanwhile the member stops to lead, and its log may be truncated."""
    topic = cluster.create(OURS, THEIRS, config={"min.insync.replicas": "1"})
    cluster.produce(topic, 0, COUNT, size=2000)
    to = other_directory(cluster, topic, OURS)
    cluster.configure(ResourceType.BROKER, str(OURS), {RATE_KEY: "100000"})
    try:
        assert move(cluster, topic, to, OURS) == 0
        assert cluster.reassign(topic, [THEIRS, OURS]) == 0
        eventually(lambda: cluster.state(topic)[1], equal_to=[THEIRS, OURS])
        assert cluster.elect(topic, PREFERRED) == 0
        eventually(lambda: cluster.state(topic)[0], equal_to=THEIRS)
        cluster.produce(topic, COUNT, COUNT)
    finally:
        cluster.configure(ResourceType.BROKER, str(OURS), {RATE_KEY: None})
    eventually(partial(cluster.directories_of, topic, OURS), equal_to=[to / f"{topic}-0"])
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS))


@pytest.mark.parametrize("leads", [THIRD, THEIRS])
def test_replicas_leave_a_directory_that_fails(cluster: MixedCluster, leads: int) -> None:
    """The directory goes away. Its replicas leave the ISR at once; those in the other directory stay.

    That one has the metadata log, without which no broker continues.
    """
    other = THIRD + THEIRS - leads
    topics = [cluster.create(leads, other, config={"min.insync.replicas": "1"}) for _ in range(4)]
    for topic in topics:
        cluster.produce(topic, 0, COUNT)
    homes = {topic: cluster.directories_of(topic, THIRD)[0].parent for topic in topics}
    lost = cluster[THIRD].directory / "more"
    gone, kept = ([each for each in topics if (homes[each] == lost) is is_lost] for is_lost in (True, False))
    assert gone
    assert kept
    aside = lost.with_name("aside")
    lost.rename(aside)
    lost.write_text("no directory any more")
    try:
        said = cluster[THIRD].output.count(f"{lost} is offline")
        for _ in range(30):  # a new log in that directory finds out
            if cluster[THIRD].output.count(f"{lost} is offline") > said:
                break
            cluster.create(THIRD)
        for topic in gone:
            eventually(partial(cluster.state, topic), equal_to=(THEIRS, [leads, other], [THEIRS]))
            cluster.produce(topic, COUNT, COUNT)
        for topic in kept:
            assert cluster.state(topic) == (leads, [leads, other], [THEIRS, THIRD])
            cluster.produce(topic, COUNT, COUNT)
    finally:
        cluster[THIRD].stop()
        lost.unlink()
        aside.rename(lost)
        cluster.start_all()
    for topic in topics:
        eventually(lambda topic=topic: cluster.state(topic)[2], equal_to=[THEIRS, THIRD])  # type: ignore[misc]
        eventually(partial(cluster.are_equal, topic, THEIRS, THIRD))


def test_the_leader_of_the_metadata_is_written_down(cluster: MixedCluster) -> None:
    """A member writes the same file as an observer of Apache Kafka, which may start on its directory.

    Its layout is that of kraft.version 0 until Apache Kafka has read the log for the first time.
    """
    leaders = []
    for at in (OURS, THEIRS, THIRD):
        (path,) = cluster[at].directory.glob("*/__cluster_metadata-0/quorum-state")
        state = json.loads(path.read_bytes())
        leaders.append([state[each] for each in ("leaderId", "leaderEpoch", "votedId")])
    assert leaders[0] == leaders[1] == leaders[2]


@pytest.mark.full_size
def test_the_log_of_a_topic_that_was_deleted_meanwhile_is_stray(cluster: MixedCluster) -> None:
    """Both kinds of brokers keep it aside after a start, as they do not know why it has no topic."""
    topic = cluster.create(OURS, THEIRS)
    cluster.produce(topic, 0, COUNT)
    for at in (OURS, THEIRS):
        cluster[at].kill()
    cluster.admin.delete_topics([topic])[topic].result(30)
    cluster.start_all()

    def suffixes(at: int) -> list[str]:
        return [each.name.rpartition("-")[2] for each in cluster[at].directory.glob(f"*/{topic}-0*")]

    assert [suffixes(at) for at in (OURS, THEIRS)] == [["stray"], ["stray"]]
