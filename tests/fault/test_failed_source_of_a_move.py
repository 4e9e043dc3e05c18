"""A member dies while it moves a log to another directory, and the old directory fails.

The controller has the new directory already, in which there is no log. An empty one in it would lead instead of the
records in the failed directory.
"""

from __future__ import annotations

from functools import partial

import pytest

from metadata.partition_registration import LOST_DIRECTORY
from protocol.error_codes import ErrorCode
from tests.fault.cluster.moving_members import moving_cluster
from tests.support.eventually import eventually
from tests.support.scale import COSTLY_BROKERS

MOVED, REMAINING, THIRD = 1, 2, 3
COUNT = 50
NO_LEADER = -1


@pytest.mark.parametrize("controller", COSTLY_BROKERS)
def test_no_empty_log_takes_the_place_of_one(controller: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The only replica, the last one in sync, and one of two in sync: no acknowledged record is lost."""
    with moving_cluster(tmp_path_factory.mktemp, controller, members=3) as cluster:
        moved, stopped = cluster.members[MOVED], cluster.members[THIRD]
        cluster.create("only", MOVED)
        cluster.create("last", MOVED, THIRD)
        cluster.create("both", MOVED, REMAINING)
        topics = ("only", "last", "both")
        for topic in topics:
            cluster.produce(topic, 0, COUNT)
        stopped.stop()
        for topic in topics:
            cluster.produce(topic, COUNT, COUNT)
        cluster.move_until_accepted(MOVED, *topics)
        moved.break_directory()
        moved.start()
        stopped.start()
        for topic in ("only", "last"):
            eventually(partial(cluster.directory_of, topic, MOVED), equal_to=LOST_DIRECTORY)
            eventually(lambda topic=topic: cluster.leader_and_isr(topic, REMAINING)[0], equal_to=NO_LEADER)  # type: ignore[misc]
            assert moved.places(topic) == ["aside"]
        failed, (code, described) = moved.described()["more"], moved.described()["logs"]
        assert failed == (ErrorCode.KAFKA_STORAGE_ERROR, set())
        assert code == 0
        assert not described & {"only", "last"}
        eventually(lambda: cluster.leader_and_isr("both", REMAINING)[0], equal_to=REMAINING)
        cluster.produce("both", 2 * COUNT, COUNT)
        moved.stop()
        moved.repair_directory()
        moved.start()
        eventually(partial(cluster.leader_and_isr, "only", REMAINING), equal_to=(MOVED, [MOVED]))
        eventually(partial(cluster.leader_and_isr, "last", REMAINING), equal_to=(MOVED, [MOVED, THIRD]))
        eventually(lambda: cluster.leader_and_isr("both", REMAINING)[1], equal_to=[MOVED, REMAINING])
        assert cluster.values("only") == cluster.values("last") == list(range(2 * COUNT))
        assert cluster.values("both") == list(range(3 * COUNT))
