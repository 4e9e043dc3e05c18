"""Loading the logs of Apache Kafka, and writing the same bytes."""

import json
import re
from pathlib import Path

import pytest

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.group.kinds import GROUP_KINDS, parse_record
from coordinator.group.records import CommittedOffset, GroupMetadata, GroupRecord, OffsetRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.group.share.group import ShareGroup
from coordinator.load import replay_batches
from coordinator.timers import Timers
from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.entries import iter_records
from tests.support.groups import GroupHarness, subscription

DIRECTORY = Path("tests/data/logs/v4.3.1-clean-shutdown")
LOG = (DIRECTORY / "__consumer_offsets-0" / "00000000000000000000.log").read_bytes()
DECODED = (DIRECTORY / "__consumer_offsets-0.decoded.txt").read_text().splitlines()


def new_shard() -> GroupShard:
    return GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers())


def loaded(data=LOG, from_offset=0) -> GroupShard:
    shard = new_shard()
    *_, (end, _) = replay_batches(shard, data, from_offset)
    assert end == 62
    return shard


def decoded_records():
    """Return (offset, key, value or None) as kafka-dump-log prints them, without control records."""
    for line in DECODED:
        match = re.match(r"\| offset: (\d+) .* key: ({.*}) payload: (.*)$", line)
        if match:
            offset, key, payload = match.groups()
            yield int(offset), json.loads(key), None if payload == "<DELETE>" else json.loads(payload)


def test_offsets_are_those_that_kafka_decodes():
    """The last plain commit counts; one transaction was committed and one aborted."""
    expected: dict[tuple[str, str, int], int] = {}
    for offset, key, value in decoded_records():
        if key["type"] != "1":
            continue
        place = (key["data"]["group"], key["data"]["topic"], key["data"]["partition"])
        if value is None:
            expected.pop(place, None)
        elif offset != 2:  # the aborted one
            expected[place] = value["data"]["offset"]
    shard = loaded()
    stored = {
        (group_id, topic, partition): committed.offset
        for group_id in shard.offsets.group_ids()
        for topic, partitions in shard.offsets.of_group(group_id).items()
        for partition, committed in partitions.items()
    }
    assert stored == expected
    assert stored["g-txn", "plain", 0] == 17
    assert shard.offsets.get("g-txn", "plain", 0).metadata == "from-txn"
    assert shard.offsets.get("g-assign", "plain", 0).topic_id == bytes.fromhex("5b060ea4a67a426eabd522294463a1f5")
    assert not shard.unknown_records


def test_groups_are_those_that_kafka_has():
    shard = loaded()
    classic = {group_id: group for group_id, group in shard.groups.items() if isinstance(group, ClassicGroup)}
    assert {group_id: (group.state, group.generation, group.is_simple) for group_id, group in classic.items()} == {
        "g-txn": (GroupState.EMPTY, 0, True),
        "g-assign": (GroupState.EMPTY, 0, True),
        "g-classic": (GroupState.EMPTY, 2, False),
        "g-static": (GroupState.EMPTY, 2, False),
    }
    assert classic["g-static"].state_timestamp_ms == 1795261513727
    sharing = {group_id: group for group_id, group in shard.groups.items() if isinstance(group, ShareGroup)}
    assert {group_id: (group.group_type, group.is_empty) for group_id, group in sharing.items()} == {
        "g-share": ("share", True),
    }
    consumers = {group_id: group for group_id, group in shard.groups.items() if isinstance(group, ConsumerGroup)}
    assert {group_id: (group.state, group.epoch, group.target_epoch) for group_id, group in consumers.items()} == {
        "g-new": (ConsumerGroupState.EMPTY, 3, 2),
        "g-new-regex": (ConsumerGroupState.EMPTY, 3, 2),
    }


def test_stable_generation_in_the_log_is_loaded():
    batches = [position for position, header in iter_batches(LOG) if header.base_offset == 6]
    shard = new_shard()
    assert list(replay_batches(shard, LOG[: batches[0]], 0))[-1] == (6, batches[0])
    group = shard.classic("g-classic")
    assert (group.state, group.generation, group.protocol_name) == (GroupState.STABLE, 1, "range")
    assert group.subscribed_topics == {"headers", "plain"}
    assert group.leader_id in group.members


@pytest.mark.parametrize(
    "later",
    [
        {"protocols": [("roundrobin", subscription("t"))]},
        {"protocols": [("range", subscription("t", "u"))]},
        {"session_ms": 20_000},
        {"rebalance_ms": 30_000},
    ],
    ids=["protocol", "subscription", "session timeout", "rebalance timeout"],
)
def test_last_generation_of_a_member_counts(later):
    """The log has the records of both generations; the metadata of the first is replaced."""
    h = GroupHarness()
    (member,) = h.stable_group(protocols=[("range", subscription("t")), ("roundrobin", subscription("t"))])
    h.join(member_id=member, **later)
    h.sync(member, 2, {member: b"a"})
    live, again = h.shard.classic("g"), h.reloaded().shard.classic("g")
    assert (again.metadata(), again.subscribed_topics) == (live.metadata(), live.subscribed_topics)
    assert again.supports("consumer", [live.protocol_name])


def test_live_member_keeps_the_protocols_that_are_not_stored():
    """The record of a generation has one protocol; the next generation chooses among all."""
    h = GroupHarness()
    offered = [("range", subscription("t")), ("roundrobin", subscription("t"))]
    (member,) = h.stable_group(protocols=offered)
    assert list(h.shard.classic("g").members[member].protocols) == offered


def test_loading_can_continue_within_a_batch():
    """A record is applied once, wherever the reader paused."""
    position = next(position for position, header in iter_batches(LOG) if header.base_offset == 39)
    shard = new_shard()
    assert next(iter(replay_batches(shard, LOG[position:], 40)))[0] == 41
    assert "g-deleted" not in shard.groups


def test_our_records_are_the_bytes_that_kafka_wrote():
    for record in iter_records(LOG):
        if record.key[:2] not in (b"\0\x01", b"\0\x02"):
            continue
        if len(record.key) == 4:
            continue  # a marker
        ours = parse_record(record.key, record.value)
        assert isinstance(ours, OffsetRecord | GroupRecord)
        assert (ours.key, ours.value) == (record.key, record.value)


@pytest.mark.parametrize("magic", [0, 1])
def test_logs_from_before_record_batches_are_read(magic):
    from protocol.records.legacy_builder import MessageSetBuilder

    builder = MessageSetBuilder(magic=magic)
    offset = OffsetRecord("g", "t", 0, CommittedOffset(5, -1, "", 7))
    builder.append(1, offset.key, b"\0\x01" + bytes(7) + b"\x05\0\0" + bytes(7) + b"\x07" + b"\xff" * 8)
    shard, data = new_shard(), builder.build()
    assert list(replay_batches(shard, data, 0)) == [(1, len(data))]
    assert shard.offsets.get("g", "t", 0).offset == 5


def test_records_of_newer_kafkas_are_ignored():
    builder = BatchBuilder()
    builder.append(1, b"\0\x63\0\x01g", b"")
    builder.append(1, b"\0\x02\0\x01g", b"\0\x63")
    builder.append(1, GroupRecord("h", None).key, GroupRecord("h", GroupMetadata("", 0, None, None, 1)).value)
    shard, data = new_shard(), builder.build()
    assert list(replay_batches(shard, data, 0)) == [(3, len(data))]
    assert set(shard.groups) == {"h"}
    assert shard.unknown_records.total() == 2


def test_other_control_records_are_ignored():
    from protocol.records.control import ControlType, build_control_batch

    shard = new_shard()
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"")], 1)
    assert list(replay_batches(shard, batch, 0)) == [(1, len(batch))]


@pytest.mark.parametrize("last", [False, True])
def test_damaged_batch_is_skipped_and_reported(last: bool):
    """One commit is lost and reported; all others are loaded."""
    builders = [BatchBuilder(number) for number in range(3)]
    for number, builder in enumerate(builders):
        commit = OffsetRecord("g", "t", number, CommittedOffset(5, -1, "", 7))
        builder.append(1, commit.key, commit.value)
    batches = [bytearray(builder.build()) for builder in builders]
    hit = 2 if last else 1
    batches[hit][-3] ^= 1
    calls = []
    shard = new_shard()
    ends = [end for end, _ in replay_batches(shard, b"".join(batches), 0, lambda *args: calls.append(args))]
    assert ends == [1, 2, 3]
    [(offset, position, error)] = calls
    assert (offset, position, str(error)) == (hit, sum(map(len, batches[:hit])), "its checksum is wrong")
    assert [number for number in range(3) if shard.offsets.get("g", "t", number) is None] == [hit]
