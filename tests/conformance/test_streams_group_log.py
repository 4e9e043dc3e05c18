"""Streams groups in `__consumer_offsets` have Kafka's format: one broker continues with the other's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT, Endpoint
from protocol.schema import Struct
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.settled import await_coordinator, wait_for_topic
from tests.support.streams_groups import PLAIN, WORD_COUNT, request, task_map
from tests.support.streams_session import PROPERTIES, has_topics
from tests.support.tools import MAIN_CLASSES
from tests.support.wire import WireClient


class Group:
    """A streams group at one broker."""

    def __init__(self, broker: RunningBroker, group_id: str) -> None:
        self._client = WireClient(HOST, broker.port)
        self._group_id = group_id
        await_coordinator(self._client, group_id)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Struct:
        """Retry a heartbeat until it is accepted and finds all topics: Apache Kafka's coordinator may still load."""
        sent = request(member_id, epoch, group_id=self._group_id, **fields)
        waits = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
        return eventually(
            lambda: self._client.call(STREAMS_GROUP_HEARTBEAT, 0, **sent),
            until=lambda answer: answer.error_code not in waits and (has_topics(answer) or epoch == 0),
        )

    def describe(self) -> tuple[Any, ...]:
        """Return the stored state, members by id, without the configured topology, which depends on the cluster."""
        (group,) = self._client.call(
            STREAMS_GROUP_DESCRIBE, 0, group_ids=[self._group_id], include_authorized_operations=False
        ).groups
        members = sorted(group.members, key=lambda member: str(member.member_id))
        return ErrorCode(group.error_code).name, group.group_state, group.group_epoch, group.assignment_epoch, members

    def delete(self) -> None:
        (result,) = self._client.call(DELETE_GROUPS, 2, groups_names=[self._group_id]).results
        assert result.error_code == ErrorCode.NONE


@pytest.mark.parametrize(("writer", "reader"), [("ours", "kafka"), ("kafka", "ours")])
def test_groups_move_between_brokers(tmp_path: Path, java: JavaRunner, writer: str, reader: str) -> None:
    """During a rebalance, with standbys and an endpoint, and with a deleted group."""
    properties = {**PROPERTIES, "group.streams.num.standby.replicas": "1"}
    running: list[RunningBroker] = [BROKERS[writer](tmp_path, properties)]
    try:
        with DataClient(HOST, running[0].port) as client:
            for name, count in (("t", 3), ("u", 2)):
                client.create_topic(name, count)
                wait_for_topic(running[0], name, count)
        live, gone = Group(running[0], "live"), Group(running[0], "gone")
        joined = live.beat("a", 0, told=WORD_COUNT, user_endpoint=Endpoint(host="h", port=9), rack_id="r")
        everything = task_map(live.beat("a", joined.member_epoch, active={}).active_tasks)
        assert everything == {"0": [0, 1, 2], "1": [0, 1, 2]}
        live.beat("b", 0, told=WORD_COUNT)
        member = live.describe()[-1][0]
        live.beat("a", member.member_epoch, active=everything)
        gone.beat("c", 0, told=PLAIN)
        gone.beat("c", -1)
        gone.delete()
        before = live.describe()
        assert before[:2] == ("NONE", "Reconciling")
        assert running[0].stop() in (0, 143)

        running.append(BROKERS[reader](tmp_path, properties))
        live, gone = Group(running[1], "live"), Group(running[1], "gone")
        kept = task_map(before[-1][0].assignment.active_tasks)
        standby = task_map(before[-1][0].assignment.standby_tasks)
        given = live.beat("a", before[-1][0].member_epoch, active=kept, standby=standby)
        assert given.error_code == ErrorCode.NONE
        after = live.describe()
        assert after[2:4] == before[2:4]
        assert [each.target_assignment for each in after[-1]] == [each.target_assignment for each in before[-1]]
        assert (after[-1][0].user_endpoint.port, after[-1][0].rack_id) == (9, "r")
        assert live.beat("b", before[-1][1].member_epoch, active={}).error_code == ErrorCode.NONE
        assert gone.describe()[0] == "GROUP_ID_NOT_FOUND"
    finally:
        for broker in running:
            broker.stop()
    segment = tmp_path / "logs" / "__consumer_offsets-0" / "00000000000000000000.log"
    dump = java.run(MAIN_CLASSES["kafka-dump-log"], "--offsets-decoder", "--deep-iteration", "--files", str(segment))
    assert dump.exit_code == 0
    assert "invalid" not in dump.stdout.lower()
    for record_type in (17, 19, 20, 21, 22, 23):
        assert f'key: {{"type":"{record_type}","data":{{"groupId":"' in dump.stdout
    assert '"lastAssignmentConfigs":[{"key":"num.standby.replicas","value":"1"}]' in dump.stdout
