"""A member dies while it moves a log to another directory, and the old directory fails or is missing.

The controller has the new directory already, in which there is only the beginning of a copy. That one, or an empty log,
would lead instead of the records in the old directory.
"""

from __future__ import annotations

from functools import partial

import pytest

from metadata.partition_registration import LOST_DIRECTORY
from protocol.error_codes import ErrorCode
from tests.fault.cluster.moving_members import MovingCluster, moving_cluster
from tests.support.eventually import eventually
from tests.support.scale import COSTLY_BROKERS

MOVED, REMAINING, THIRD = 1, 2, 3
COUNT = 50
NO_LEADER = -1


def check_offline(cluster: MovingCluster, *topics: str) -> None:
    """Check that nobody leads these topics, and that the moved member has begun no log of them."""
    for topic in topics:
        eventually(lambda topic=topic: cluster.leader_and_isr(topic, REMAINING)[0], equal_to=NO_LEADER)  # type: ignore[misc]
        assert cluster.members[MOVED].places(topic) == ["aside"]


@pytest.mark.parametrize("controller", COSTLY_BROKERS)
def test_no_empty_log_takes_the_place_of_one(controller: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The only replica, the last one in sync, and one of two in sync: no acknowledged record is lost."""
    with moving_cluster(tmp_path_factory.mktemp, controller, members=3) as cluster:
        moved, stopped = cluster.members[MOVED], cluster.members[THIRD]
        cluster.create("only", MOVED)
        cluster.create("last", MOVED, THIRD)
        cluster.create("both", MOVED, REMAINING)
        cluster.create("resting", MOVED, THIRD)
        topics = ("only", "last", "both")
        for topic in (*topics, "resting"):
            cluster.produce(topic, 0, COUNT)
        stopped.stop()
        for topic in (*topics, "resting"):
            cluster.produce(topic, COUNT, COUNT)
        cluster.move_until_accepted(MOVED, *topics)
        moved.remove_directory()
        moved.start()
        stopped.start()
        for topic in ("only", "last"):
            eventually(partial(cluster.directory_of, topic, MOVED), equal_to=LOST_DIRECTORY)
        check_offline(cluster, "only", "last", "resting")
        assert moved.stop() == 0  # the next start finds no copies any more
        moved.start()
        check_offline(cluster, "only", "last", "resting")
        eventually(lambda: cluster.leader_and_isr("both", REMAINING)[0], equal_to=REMAINING)
        assert moved.stop() == 0
        moved.break_directory()
        moved.start()
        check_offline(cluster, "only", "last", "resting")
        failed, (code, described) = moved.described()["more"], moved.described()["logs"]
        assert failed == (ErrorCode.KAFKA_STORAGE_ERROR, set())
        assert code == 0
        assert not described & {"only", "last", "resting"}
        cluster.produce("both", 2 * COUNT, COUNT)
        assert moved.stop() == 0
        moved.repair_directory()
        moved.start()
        eventually(partial(cluster.leader_and_isr, "only", REMAINING), equal_to=(MOVED, [MOVED]))
        for topic in ("last", "resting"):
            eventually(partial(cluster.leader_and_isr, topic, REMAINING), equal_to=(MOVED, [MOVED, THIRD]))
            assert cluster.values(topic) == list(range(2 * COUNT))
        eventually(lambda: cluster.leader_and_isr("both", REMAINING)[1], equal_to=[MOVED, REMAINING])
        assert cluster.values("only") == list(range(2 * COUNT))
        assert cluster.values("both") == list(range(3 * COUNT))
