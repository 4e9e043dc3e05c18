"""The bytes of the records of `__consumer_offsets`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.kinds import parse_record
from coordinator.group.records import CommittedOffset, GroupMetadata, GroupRecord, MemberMetadata, OffsetRecord
from coordinator.shard import UnknownRecord
from protocol.error_codes import ProtocolError
from protocol.messages.coordinator import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

TOPIC_ID = bytes(range(16))
text = st.text(max_size=12).filter(lambda value: value.isprintable())
offsets = st.builds(
    CommittedOffset,
    st.integers(0, 2**62),
    st.integers(-1, 2**31 - 1),
    text,
    st.integers(0, 2**50),
    st.just(-1),
    st.sampled_from([bytes(16), TOPIC_ID]),
)
members = st.builds(
    MemberMetadata,
    text,
    st.none() | text,
    text,
    text,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=8),
    st.binary(max_size=8),
)
groups = st.builds(
    GroupMetadata,
    text,
    st.integers(0, 2**31 - 1),
    st.none() | text,
    st.none() | text,
    st.integers(-1, 2**50),
    st.lists(members, max_size=3).map(tuple),
)


@given(text, text, st.integers(0, 2**31 - 1), st.none() | offsets)
def test_offset_records_round_trip(group_id, topic, partition, committed):
    record = OffsetRecord(group_id, topic, partition, committed)
    assert parse_record(record.key, record.value) == record


@given(text, text, st.integers(0, 2**31 - 1), offsets)
def test_offset_records_equal_the_schemas(group_id, topic, partition, committed):
    """Records of the common shape are encoded and decoded by hand."""
    record = OffsetRecord(group_id, topic, partition, committed)
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        topic_id=committed.topic_id,
    )
    assert record.key == b"\0\x01" + OffsetCommitKey.encode(0, key)
    assert record.value == b"\0\x04" + OffsetCommitValue.encode(4, value)


@given(st.binary(max_size=48), st.integers(0, 3), st.integers(0, 41), st.integers(0, 255))
def test_any_offset_value_is_read_as_by_the_schema(tail, version, at, byte):
    """A value with a wrong byte is read, or rejected, as by the schema."""
    key = OffsetRecord("g", "t", 3, None).key
    usual = bytearray(OffsetRecord("g", "t", 3, CommittedOffset(7, 0, "", 9, -1, TOPIC_ID)).value)
    usual[at] = byte
    for value in (bytes([0, version]) + tail, bytes(usual)):
        try:
            expected, _ = OffsetCommitValue.decode(int.from_bytes(value[:2], "big"), value, 2)
        except ProtocolError:
            with pytest.raises(UnknownRecord):
                parse_record(key, value)
            continue
        found = parse_record(key, value).committed
        assert (found.offset, found.leader_epoch, found.metadata) == (
            expected.offset,
            expected.leader_epoch,
            expected.metadata,
        )
        assert (found.commit_timestamp_ms, found.topic_id) == (expected.commit_timestamp, expected.topic_id)


@given(text, st.none() | groups)
def test_group_records_round_trip(group_id, metadata):
    record = GroupRecord(group_id, metadata)
    assert parse_record(record.key, record.value) == record


def test_offset_value_is_version_4_with_the_topic_id():
    record = OffsetRecord("g", "t", 3, CommittedOffset(7, 0, "m", 9, -1, TOPIC_ID))
    assert record.key == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    assert (
        record.value == b"\0\x04" + bytes(7) + b"\x07" + bytes(4) + b"\x02m" + bytes(7) + b"\x09\x01\0\x10" + TOPIC_ID
    )


def test_offset_value_with_a_retention_time_is_version_1():
    """Only version 1 has an expire timestamp; as in Kafka it has neither leader epoch nor topic id."""
    record = OffsetRecord("g", "t", 3, CommittedOffset(7, 5, "m", 9, 10, TOPIC_ID))
    assert record.value[:2] == b"\0\x01"
    assert parse_record(record.key, record.value) == OffsetRecord("g", "t", 3, CommittedOffset(7, -1, "m", 9, 10))


def test_group_value_is_version_3():
    record = GroupRecord("g", GroupMetadata("", 0, None, None, 5))
    assert record.key == b"\0\x02\0\x01g"
    assert record.value == b"\0\x03" + b"\0\0" + bytes(4) + b"\xff\xff\xff\xff" + bytes(7) + b"\x05" + bytes(4)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_group_metadata_is_read(version):
    stored = MemberMetadata("m", None, "c", "/h", 30 if version else 20, 20, b"s", b"a")
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    record = GroupRecord("g", GroupMetadata("consumer", 3, "range", "m", -1, (stored,)))
    from coordinator.group.records import _member_struct

    value.members = [_member_struct(stored)]
    body = version.to_bytes(2, "big") + GroupMetadataValue.encode(version, value)
    assert parse_record(record.key, body) == record


def test_offset_commits_of_the_oldest_type_are_read():
    key = OffsetRecord("g", "t", 3, None).key
    value = b"\0\0" + bytes(7) + b"\x07" + b"\0\x01m" + bytes(7) + b"\x09"
    assert parse_record(b"\0\0" + key[2:], value) == OffsetRecord("g", "t", 3, CommittedOffset(7, -1, "m", 9))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\0", b""),
        (b"\0\x63\0\x01g", b""),
        (b"\0\x01\0\x09g", b""),
        (b"\0\x01\0\x01g\xff\xff\0\0\0\x03", None),
        (b"\0\x01\xff\xfe\0\0\0\x03", None),
        (b"\0\x01\0\x01g\0\x01t\0\0\0", None),
        (b"\0\x01\0\x01g\0\x01t\0\0\0\x03", b"\0\x05"),
        (b"\0\x02\0\x09g", b""),
        (b"\0\x02\0\x01g", b"\0\x63"),
        (b"\0\x02\0\x01g", b"\0"),
        (b"\0\x05\0", b""),
        (b"\0\x05\0\x01\xff", b""),
    ],
)
def test_unsupported_bytes_are_an_unknown_record(key, value):
    with pytest.raises(UnknownRecord) as caught:
        parse_record(key, value)
    assert caught.value.reason
