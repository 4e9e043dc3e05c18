"""Records of consumer groups: bytes that Kafka wrote are read, and written again unchanged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from coordinator.group.classic.member import MemberProtocol
from coordinator.group.consumer import records as stored
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState
from coordinator.group.consumer.records import (
    ConsumerRecord,
    Current,
    ResolvedRegex,
    current_record,
    member_record,
    regex_record,
)
from coordinator.group.kinds import parse_record
from coordinator.shard import UnknownRecord
from protocol.messages.coordinator import consumer_group as messages
from protocol.records.entries import iter_records
from protocol.records.record import Record

LOG = Path("tests/data/logs/v4.3.1-clean-shutdown/__consumer_offsets-0/00000000000000000000.log")
T = bytes(15) + b"\1"


def recorded() -> list[Record]:
    """Return all records of consumer groups in Kafka's log."""
    records = iter_records(LOG.read_bytes())
    return [r for r in records if r.key and int.from_bytes(r.key[:2], "big") in ConsumerRecord.kinds]


def test_recorded_bytes_are_written_again() -> None:
    """A member's partitions are in ascending order here; the log has one each."""
    kinds = Counter[int]()
    for record in recorded():
        parsed = parse_record(record.key, record.value)
        assert isinstance(parsed, ConsumerRecord)
        assert (parsed.key, parsed.value) == (record.key, record.value)
        kinds[parsed.record_type] += parsed.content is not None
    assert set(+kinds) == ConsumerRecord.kinds.keys() - {stored.PARTITION_METADATA}


def test_recorded_groups_load_as_kafkas_tool_prints() -> None:
    """Before its member leaves, `g-new` has the member, both topics and their hash."""
    group = ConsumerGroup("g-new")
    for record in recorded():
        parsed = parse_record(record.key, record.value)
        assert isinstance(parsed, ConsumerRecord)
        if parsed.content is None:
            break
        group.replay(parsed)
    (member,) = group.members.values()
    assert (member.epoch, member.previous_epoch, member.state) == (2, 0, MemberState.STABLE)
    assert (member.client_id, member.client_host, member.rebalance_timeout_ms) == ("c3", "/127.0.0.1", 300_000)
    assert member.topic_names == {"codec-gzip", "plain"}
    assert (group.epoch, group.metadata_hash, group.target_epoch) == (2, -3331782113340436174, 2)
    assert {topic: set(parts) for topic, parts in member.assigned.items()} == group.target_of(member.member_id)
    assert group.state.value == "Stable"


def test_member_with_all_fields_round_trips() -> None:
    member = ConsumerMember(
        "m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5,
        topic_names=frozenset({"b", "a"}),
        topic_regex=None,
        server_assignor="range",
        classic=ClassicMetadata(30_000, (MemberProtocol("range", b"x"),)),
    )
    group = ConsumerGroup("g", [again(member_record("g", member))])
    assert group.members == {"m": member}
    current = ConsumerMember(
        "m", 4, 3, MemberState.UNRELEASED_PARTITIONS, assigned={T: {2: 1, 0: 4}}, revoking={T: {1: 1}}
    )
    group.replay(again(current_record("g", current)))
    assert (group.members["m"].assigned, group.members["m"].revoking) == (current.assigned, current.revoking)
    assert group.members["m"].classic == member.classic
    assert group.owner_epoch(T, 1) == 4
    resolved = ResolvedRegex(frozenset({"x"}), 7, 8)
    group.replay(again(regex_record("g", "x.*", resolved)))
    assert group.regexes == {"x.*": resolved}
    assert group.is_subscribed_to("x")
    assert group.is_subscribed_to("a")


def again(record: ConsumerRecord) -> ConsumerRecord:
    """Encode and decode the record."""
    parsed = parse_record(record.key, record.value)
    assert isinstance(parsed, ConsumerRecord)
    return parsed


@pytest.mark.parametrize("epochs", [None, [1]])
def test_partitions_without_epochs_of_their_own_have_the_members(epochs: list[int] | None) -> None:
    """As brokers before 4.3 wrote them."""
    value = messages.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=6,
        previous_member_epoch=5,
        state=42,
        assigned_partitions=[messages.TopicPartitions(topic_id=T, partitions=[0, 3], assignment_epochs=epochs)],
        partitions_pending_revocation=[],
    )
    body = b"\0\0" + messages.ConsumerGroupCurrentMemberAssignmentValue.encode(0, value)
    parsed = parse_record(current_record("g", ConsumerMember("m")).key, body)
    assert isinstance(parsed, ConsumerRecord)
    assert parsed.content == Current(6, 5, MemberState.UNKNOWN, {T: {0: 6, 3: 6}}, {})


def test_topics_as_older_brokers_kept_them_are_read() -> None:
    value = messages.ConsumerGroupPartitionMetadataValue(topics=[])
    record = ConsumerRecord("g", stored.PARTITION_METADATA, "", value)
    group = ConsumerGroup("g", [again(record)])
    assert group.has_partition_metadata
    group.replay(again(stored.tombstone("g", stored.PARTITION_METADATA)))
    assert not group.has_partition_metadata


def test_invalid_bytes_are_an_unknown_record() -> None:
    key = current_record("g", ConsumerMember("m")).key
    for value in (b"", b"\0", b"\0\1abc", b"\0\0\1"):
        with pytest.raises(UnknownRecord):
            parse_record(key, value)


def test_tombstones_delete_all_records_of_a_group() -> None:
    member = ConsumerMember("m", 2, 1, assigned={T: {0: 2}}, topic_regex="x", instance_id="i")
    records = [
        member_record("g", member),
        current_record("g", member),
        stored.target_record("g", "m", {T: frozenset({0})}),
        stored.target_epoch_record("g", 2, 9),
        stored.group_record("g", 2, 77),
        regex_record("g", "x", ResolvedRegex(frozenset({"x"}), 1, 2)),
    ]
    group = ConsumerGroup("g", [again(record) for record in records])
    for record in group.tombstones():
        group.replay(again(record))
    assert (group.members, group.targets, group.regexes, group.static_members) == ({}, {}, {}, {})
    assert group.owner_epoch(T, 0) == -1
    assert not group.subscription().topics
