"""The broker says why each segment of a tiered log is still on its disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.observability.metrics.tiered_logs import Asked, asked_logs, tiered_logs_json
from broker.replicas.partition import Partition
from broker.tiering import local_reasons
from broker.tiering.local_reasons import ExplainedLog, explained_log, tiered_logs
from remote.store import Health
from tests.support.copying_broker import CopyingBroker


@pytest.fixture
def broker(tmp_path: Path) -> CopyingBroker:
    return CopyingBroker(tmp_path)


def explained(broker: CopyingBroker, partition: Partition) -> ExplainedLog:
    [log] = tiered_logs(broker.tier, partition.topic, partition.index)
    found = explained_log(broker.tier, log)
    assert found is not None
    assert [segment.start_offset for segment, _ in found.segments] == [
        each.base_offset for each in log.segments[: len(found.segments)]
    ]
    return found


def reasons(broker: CopyingBroker, partition: Partition) -> list[str]:
    return [why.reason.value for _, why in explained(broker, partition).segments]


def test_segments_are_due_then_copied_then_kept(broker: CopyingBroker) -> None:
    partition = broker.tiered()
    broker.append(partition, 10)
    found = reasons(broker, partition)
    assert found[-1] == "active"
    assert found[0] == "not-synced"
    assert set(found[1:-1]) == {"earlier-segment"}
    broker.round()
    found = reasons(broker, partition)
    assert set(found[:-1]) == {"local-retention"}
    log = explained(broker, partition)
    assert log.copied_offset == partition.log.copied_offset == log.segments[-2][0].end_offset
    assert log.segments[0][1].at_ms == log.segments[0][0].max_timestamp_ms + 604_800_000 + 1


def test_failed_copy_has_its_error_and_next_try(broker: CopyingBroker) -> None:
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.layout.fails.add("copy")
    broker.round(3)
    why = explained(broker, partition).segments[0][1]
    assert why.reason.value == "copy-failed"
    assert why.text.startswith("the copy failed ")
    assert why.text.endswith("key: no answer")
    assert why.at_ms is not None
    assert why.at_ms >= broker.clock.now_ms()
    broker.layout.state = Health("key: no answer", 1, 0)
    why = explained(broker, partition).segments[0][1]
    assert (why.reason.value, why.text) == ("storage-fails", "remote storage fails: key: no answer")
    broker.layout.state = Health()
    broker.layout.fails.clear()
    broker.round(60)
    assert "copy-failed" not in reasons(broker, partition)


def test_quota_has_a_time(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path, {"remote.log.manager.copy.max.bytes.per.second": "100"})
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.round()
    waiting = [why for _, why in explained(broker, partition).segments if why.reason.value == "quota"]
    assert len(waiting) == 1
    assert waiting[0].at_ms is not None
    assert waiting[0].at_ms > broker.clock.now_ms()


def test_disabled_copies_are_named(broker: CopyingBroker) -> None:
    partition = broker.tiered(remote_log_copy_disable="true", local_retention_ms="-2", local_retention_bytes="-2")
    broker.append(partition, 10)
    broker.round()
    assert set(reasons(broker, partition)[:-1]) == {"copy-disabled"}


def test_removal_is_due_at_the_next_check(broker: CopyingBroker) -> None:
    partition = broker.tiered(local_retention_bytes="1")
    broker.append(partition, 10)
    broker.advance(1000)  # copies, and no retention
    assert set(reasons(broker, partition)[:-1]) == {"removal-due"}
    broker.round()
    assert reasons(broker, partition) == ["active"]


def test_newer_segments_beyond_the_limit_are_counted(broker: CopyingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = broker.tiered(local_retention_bytes="1100")
    broker.append(partition, 20)
    broker.advance(1000)
    all_reasons = reasons(broker, partition)
    assert {"removal-due", "local-retention"} <= set(all_reasons)
    monkeypatch.setattr(local_reasons, "MOST_SEGMENTS", 2)
    found = explained(broker, partition)
    assert reasons(broker, partition) == all_reasons[:2]
    assert found.left_out == len(all_reasons) - 2


def test_only_tiered_logs_that_were_asked_for(broker: CopyingBroker) -> None:
    broker.tiered("a")
    broker.tiered("b")
    broker.create("plain", 1)
    assert [log.topic for log in tiered_logs(broker.tier)] == ["a", "b"]
    assert [log.topic for log in tiered_logs(broker.tier, "b")] == ["b"]
    assert tiered_logs(broker.tier, "b", 1) == tiered_logs(broker.tier, "plain") == []


def test_json_has_all_fields(broker: CopyingBroker) -> None:
    partition = broker.tiered()
    broker.append(partition, 10)
    [log] = json.loads(tiered_logs_json([explained(broker, partition)]))["logs"]
    assert (log["topic"], log["partition"], log["copied_offset"], log["left_out"]) == ("t", 0, -1, 0)
    first = log["segments"][0]
    assert first["start_offset"] == 0
    assert first["end_offset"] == log["segments"][1]["start_offset"] - 1
    assert first["size_bytes"] == partition.log.segments[0].size_bytes
    assert first["reason"] == "not-synced"
    assert first["text"]
    assert first["at_ms"] is not None


def test_query_names_logs() -> None:
    assert asked_logs("") == Asked()
    assert asked_logs("topic=a%20b") == Asked("a b")
    assert asked_logs("topic=t&partition=7") == Asked("t", 7)
    for wrong in ("partition=-1", "partition=x", "partition=%C2%B2", "partition=12345678901"):
        with pytest.raises(ValueError, match="partition= is a number"):
            asked_logs(wrong)
