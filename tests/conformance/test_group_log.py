"""`__consumer_offsets` has Kafka's format: one broker continues with the other's records."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from tests.conformance.classic_group import Group
from tests.support.brokers import BROKERS, RunningBroker
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

PROPERTIES = {"offsets.topic.num.partitions": "1"}


def members(group: Group) -> dict[str, tuple[str | None, str, bytes, bytes]]:
    """Return the fields of each member in a group's description."""
    return {
        each.member_id: (each.group_instance_id, each.client_id, each.member_metadata, each.member_assignment)
        for each in group.describe().members
    }


@pytest.mark.parametrize(("writer", "reader"), [("ours", "kafka"), ("kafka", "ours")])
def test_groups_and_offsets_move_between_brokers(tmp_path: Path, java: JavaRunner, writer: str, reader: str) -> None:
    """A stable group keeps its members, generation and assignments; an empty group and a deleted one stay so."""
    running: list[RunningBroker] = [BROKERS[writer](tmp_path, PROPERTIES)]
    try:
        live, gone, left = (Group(running[0], name, "t") for name in ("live", "gone", "left"))
        first = live.connect()
        live.send_join(first, instance="one")
        member_id = first.receive().member_id
        live.send_sync(first, member_id, 1, {member_id: b"mine"})
        first.receive()
        assert live.commit(7, member_id, 1, metadata="note é") is ErrorCode.NONE
        assert live.commit(8, member_id, 1, partition=1) is ErrorCode.NONE
        before = members(live)
        assert len(before) == 1
        gone.commit(1)
        gone.admin.call(DELETE_GROUPS, 2, groups_names=["gone"])
        (other,) = left.stable(left.connect())
        left.leave((other, None))
        assert running[0].stop() in (0, 143)

        running.append(BROKERS[reader](tmp_path, PROPERTIES))
        live, gone, left = (Group(running[1], name, "t") for name in ("live", "gone", "left"))
        assert live.describe().group_state == "Stable"
        assert members(live) == before
        assert live.heartbeat(member_id, 1, "one") is ErrorCode.NONE
        assert live.committed() == (7, "note é")
        assert live.committed(1) == (8, "")
        assert gone.describe(5).group_state == "Dead"
        assert left.describe().group_state == "Empty"
        again = live.connect()
        live.send_join(again, instance="one")
        answer = again.receive()
        assert (answer.generation_id, answer.skip_assignment) == (1, True)
        assert live.commit(9, answer.member_id, 1) is ErrorCode.NONE
        assert live.committed() == (9, "")
    finally:
        for broker in running:
            broker.stop()
    segment = tmp_path / "logs" / "__consumer_offsets-0" / "00000000000000000000.log"
    dump = java.run(MAIN_CLASSES["kafka-dump-log"], "--offsets-decoder", "--deep-iteration", "--files", str(segment))
    assert dump.exit_code == 0
    assert "invalid" not in dump.stdout.lower()
    assert '"group":"live","topic":"t","partition":0}} payload: {"version":"4","data":{"offset":9,' in dump.stdout
    assert '"group":"left"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":2,' in dump.stdout
