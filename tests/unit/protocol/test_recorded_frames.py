"""Frames between standard clients and Apache Kafka: decoded as Kafka does, and encoded to the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.error_codes import ProtocolError
from tests.support.wire_frames import RecordedFrame, as_kafka_json, recorded_files, recorded_frames

RENAMED = {
    "TxnOffsetCommitRequest": {"generationId": "generationIdOrMemberEpoch"},
    "StreamsGroupHeartbeatResponse": {"acceptableRecoveryLag": "acceptableRecoveryLagLegacy"},
}
"""Fields that Apache Kafka 4.4 renamed in a version that older releases have, by message: the old name and today's."""


def with_names_of_today(frame: RecordedFrame, read: dict[str, Any]) -> dict[str, Any]:
    """Return what the recorded release read from a frame, with the names that the release followed gives the fields."""
    names = {} if frame.version == frame.message.versions.max else RENAMED.get(frame.message.name, {})
    return {names.get(name, name): value for name, value in read.items()}


@pytest.mark.parametrize("file_name", recorded_files())
def test_recorded_frames_round_trip_and_equal_kafka(file_name: str):
    """Every frame of a client and scenario."""
    for frame in recorded_frames(file_name):
        value, end = frame.message.decode(frame.version, frame.data, frame.position)
        text, _, remaining = frame.json.partition("!remaining=")

        assert len(frame.data) - end == int(remaining or 0), frame.source
        assert frame.message.encode(frame.version, value) == frame.data[frame.position : end], frame.source
        if text and "omitted" not in (read := json.loads(text)):
            assert as_kafka_json(value, frame.version) == with_names_of_today(frame, read), frame.source


def shortest_frames() -> dict[tuple[str, int], RecordedFrame]:
    """Return the shortest frame of at least some length for each (message, version)."""
    found: dict[tuple[str, int], RecordedFrame] = {}
    for file_name in recorded_files():
        for frame in recorded_frames(file_name):
            key = (frame.message.name, frame.version)
            if key not in found or len(frame.data) < len(found[key].data):
                found[key] = frame
    return found


def test_truncated_frames_and_extra_bytes():
    """Truncated after any byte: ProtocolError (rule 1). With extra bytes: the same value, and its end (rule 3)."""
    for frame in shortest_frames().values():
        value, end = frame.message.decode(frame.version, frame.data, frame.position)
        for cut in range(frame.position, min(end, frame.position + 600)):
            with pytest.raises(ProtocolError):
                frame.message.decode(frame.version, memoryview(frame.data)[:cut], frame.position)
        tailed, tailed_end = frame.message.decode(frame.version, frame.data[:end] + b"\xff\x01tail", frame.position)

        assert (tailed, tailed_end) == (value, end), frame.source
