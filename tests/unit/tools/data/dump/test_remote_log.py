"""Records of remote log metadata, as Apache Kafka 4.3.1 wrote and printed them."""

from __future__ import annotations

import pytest

from protocol.records.record import Record
from tools.data.dump.remote_log import remote_log_decoder

PARTITION = "AAAAAAAAQACAAAAAAAAAAQ:orders-3"
SEGMENT = f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={PARTITION}, id=BAAAAAAAQACAAAAAAAAAAQ}}"
_ID = "00076f726465727300000000000040008000000000000001000000030004000000000040008000000000000001"

RECORDED = {
    f"010000{_ID[2:]}00000000000000000a0000000000000014000000010000018bcfe568000000018bcfe568050300000000000000000000000a"
    "0000000004000000000000000f00000004000401020301"
    "01000101": f"RemoteLogSegmentMetadata{{{SEGMENT}, startOffset=10, endOffset=20, brokerId=1,"
    " maxTimestampMs=1700000000000, eventTimestampMs=1700000000005, segmentLeaderEpochs={0=10, 4=15},"
    " segmentSizeInBytes=1024, customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_FINISHED,"
    " txnIdxEmpty=true}",
    f"010100{_ID[2:]}00000000020000018bcfe56809000300": f"RemoteLogSegmentMetadataUpdate{{{SEGMENT},"
    " customMetadata=Optional.empty, state=DELETE_SEGMENT_FINISHED, eventTimestampMs=1700000000009, brokerId=2}",
    "010200076f7264657273000000000000400080000000000000010000000300000000050000018bcfe5680b0000": (
        f"RemotePartitionDeleteMetadata{{topicPartition={PARTITION}, state=DELETE_PARTITION_MARKED,"
        " eventTimestampMs=1700000000011, brokerId=5}"
    ),
}


@pytest.mark.parametrize("value", RECORDED, ids=["segment", "update", "deletion"])
def test_recorded_values_are_printed_as_by_kafka(value: str) -> None:
    found = remote_log_decoder(Record(7, 0, None, bytes.fromhex(value)))
    assert found == (None, RECORDED[value])


@pytest.mark.parametrize("value", [None, b"", b"\x00\x09\x00", b"\x01\x09\x00", b"\x01\x02\x00\x07"])
def test_malformed_values_are_reported(value: bytes | None) -> None:
    """In place of the payload."""
    key, payload = remote_log_decoder(Record(7, 0, None, value))
    assert key is None
    assert str(payload).startswith("Error at offset 7, skipping. ")
