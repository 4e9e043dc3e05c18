"""Records of `__cluster_metadata` as bytes, compared with those of a real cluster."""

from __future__ import annotations

import pytest

from metadata.framing import MetadataRecord, UnknownRecord, decode_record, encode_record, new_record
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import NoOpRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from tests.support.metadata_log import CLEAN_SHUTDOWN, as_dumped, dumped_records, stored_values

SEGMENT = CLEAN_SHUTDOWN / "__cluster_metadata-0" / "00000000000000000000.log"
DUMP = CLEAN_SHUTDOWN / "__cluster_metadata-0.decoded.txt"


def test_recorded_records_decode_as_the_dump_tool_prints():
    """Every record of a recorded log decodes to the type, version and fields that kafka-dump-log prints."""
    decoded = {}
    for offset, value in stored_values(SEGMENT):
        record = decode_record(value)
        assert isinstance(record, MetadataRecord)
        decoded[offset] = as_dumped(record)

    assert dumped_records(DUMP) == decoded
    assert len(decoded) > 290


def test_recorded_records_encode_to_the_same_bytes():
    """Decoding and encoding changes nothing."""
    for _, value in stored_values(SEGMENT):
        assert value == encode_record(decode_record(value))


def test_record_of_unknown_type_is_kept_unchanged():
    """A later release's record keeps its type, version and body."""
    data = b"\x01\xc8\x01\x02body"

    assert UnknownRecord(200, 2, b"body") == decode_record(data)
    assert data == encode_record(decode_record(data))


@pytest.mark.parametrize("data", [b"\x00\x14\x00\x00", b"\x02\x14\x00\x00"])
def test_other_frame_version_is_rejected(data: bytes):
    """Frame version 1 is the only one (0 means none)."""
    with pytest.raises(ProtocolError, match="frame version"):
        decode_record(data)


def test_unknown_version_of_a_known_type_is_rejected():
    """Skipping it could change the meaning of all later records."""
    with pytest.raises(ProtocolError):
        decode_record(b"\x01\x02\x09")


def test_extra_bytes_are_rejected():
    """A record fills its value exactly."""
    with pytest.raises(ProtocolError, match="left after"):
        decode_record(encode_record(MetadataRecord(NoOpRecord, 0, NoOpRecord())) + b"\x00")


@pytest.mark.parametrize("cut", range(1, 20))
def test_truncated_record_is_rejected(cut: int):
    """No prefix of a record is a record."""
    data = encode_record(new_record(30, TopicRecord, name="orders", topic_id=bytes(range(16))))

    with pytest.raises(ProtocolError):
        decode_record(data[:-cut])


@pytest.mark.parametrize(
    ("metadata_version", "message", "version"),
    [
        (7, RegisterBrokerRecord, 1),
        (17, RegisterBrokerRecord, 3),
        (30, RegisterBrokerRecord, 4),
        (16, PartitionRecord, 0),
        (22, PartitionRecord, 1),
        (30, PartitionRecord, 2),
        (7, TopicRecord, 0),
    ],
)
def test_record_versions_follow_metadata_version(metadata_version, message, version):
    """A broker of the cluster's release has to be able to read them."""
    assert version == new_record(metadata_version, message).version
