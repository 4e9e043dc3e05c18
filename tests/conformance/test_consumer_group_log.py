"""Consumer groups in `__consumer_offsets` have Kafka's format: one broker continues with the other's records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.consumer_session import ConsumerSession
from tests.support.brokers import BROKERS, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.mark.parametrize(("writer", "reader"), [("ours", "kafka"), ("kafka", "ours")])
def test_groups_move_between_brokers(tmp_path: Path, java: JavaRunner, writer: str, reader: str) -> None:
    """During a rebalance, with static, classic and absent members, expressions, and a deleted group."""
    running: list[RunningBroker] = [BROKERS[writer](tmp_path, PROPERTIES)]
    try:
        live = ConsumerSession(running[0], "live", {"t": 4})
        live.join("a", ["t"], instance_id="one", rack_id="r", server_assignor="range")
        live.join("b", ["t"])
        live.classic_join("x", ["t"])
        live.beat("a", 2, {"t": [0, 1, 2, 3]}, instance_id="one")
        assert live.commit("t", {0: 5}, "a", 2) == {0: "NONE"}
        regex = ConsumerSession(running[0], "regex", {"t": 4})
        regex.join("c", regex="[t]")
        eventually(lambda: regex.describe()["epochs"] == (2, 1))
        regex.beat("c", 1, {})
        regex.join("d", regex="[t]", instance_id="two")
        regex.beat("d", -2, instance_id="two")
        gone = ConsumerSession(running[0], "gone", {"t": 4})
        gone.join("e", ["t"])
        gone.beat("e", -1)
        assert gone.delete() == "NONE"
        before = [live.describe(), regex.describe()]
        assert running[0].stop() in (0, 143)

        running.append(BROKERS[reader](tmp_path, PROPERTIES))
        again = [ConsumerSession(running[1], name, {"t": 4}, new=False) for name in ("live", "regex", "gone")]
        again[0].ids = live.ids
        assert [each.describe() for each in again[:2]] == before
        assert again[2].describe()["code"] == "GROUP_ID_NOT_FOUND"
        live, regex, _ = again
        assert live.committed("t") == ("NONE", {0: 5})
        given = live.beat("a", 2, {"t": [0, 1]}, instance_id="one")
        assert (given["code"], given["epoch"]) == ("NONE", 4)
        assert live.beat("b", 3, {})["code"] == "NONE"
        assert regex.join("f", regex="[t]", instance_id="two")["epoch"] == 3
        assert live.heartbeat("x", 4) == "REBALANCE_IN_PROGRESS"
    finally:
        for broker in running:
            broker.stop()
    segment = tmp_path / "logs" / "__consumer_offsets-0" / "00000000000000000000.log"
    dump = java.run(MAIN_CLASSES["kafka-dump-log"], "--offsets-decoder", "--deep-iteration", "--files", str(segment))
    assert dump.exit_code == 0
    assert "invalid" not in dump.stdout.lower()
    for record_type in (3, 5, 6, 7, 8, 16):
        assert f'key: {{"type":"{record_type}","data":{{"groupId":"' in dump.stdout
    assert '"subscribedTopicRegex":"[t]"' in dump.stdout
