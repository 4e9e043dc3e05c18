"""Records of `__remote_log_metadata`, as Apache Kafka 4.3.1 and 4.4.0 wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ProtocolError
from tests.support.dump_log import LOGS as RECORDED
from tests.support.metadata_log import stored_values
from tiered.metadata_records import PartitionDeletion, TopicIdPartition, decode, encode, metadata_partition
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

LOGS = sorted((RECORDED.parent / "remote").glob("*/log.dirs/__remote_log_metadata-*"))
#: The recorded brokers had so many partitions of the topic.
PARTITIONS = 5


def recorded(log: Path) -> list[bytes]:
    return [value for _, value in stored_values(log / f"{0:020}.log")]


def test_every_recorded_record_is_written_as_kafka_wrote_it() -> None:
    count = 0
    for log in LOGS:
        for value in recorded(log):
            partition, event = decode(value)
            assert not isinstance(event, PartitionDeletion)
            assert encode(partition, event) == value
            assert metadata_partition(partition, PARTITIONS) == int(log.name.rpartition("-")[2])
            count += 1
    assert count == 92


def test_a_recorded_segment_is_copied_step_by_step() -> None:
    states: dict[bytes, list[SegmentState]] = {}
    for log in LOGS:
        for value in recorded(log):
            _, event = decode(value)
            assert isinstance(event, RemoteSegment | SegmentUpdate)
            states.setdefault(event.id, []).append(event.state)
    assert {tuple(each[:2]) for each in states.values()} == {(SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED)}


PARTITION = TopicIdPartition(bytes(range(16)), "orders", 3)
UPDATE = encode(PARTITION, SegmentUpdate(b"i" * 16, SegmentState.COPY_FINISHED, 5, 1, b"key"))


def test_an_update_keeps_its_custom_metadata() -> None:
    _, event = decode(UPDATE)
    assert event == SegmentUpdate(b"i" * 16, SegmentState.COPY_FINISHED, 5, 1, b"key")


@pytest.mark.parametrize(
    "value",
    [b"", b"\x01", b"\x02" + UPDATE[1:], b"\x01\x09\x00", UPDATE[:-3], UPDATE + b"\x00", UPDATE[:-2] + b"\x07\x00"],
    ids=["empty", "cut off", "frame version", "type", "short", "long", "state"],
)
def test_a_malformed_record_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(value)


def test_a_segment_without_epochs_is_refused() -> None:
    segment = RemoteSegment(b"i" * 16, 0, 9, -1, 5, 1, 100, ((0, 0),))
    value = encode(PARTITION, segment._replace(epochs=()))
    with pytest.raises(ProtocolError, match="epochs"):
        decode(value)
