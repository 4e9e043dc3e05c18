"""The content of small files in a log directory, and of records in internal topics."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress

from coordinator.group.consumer.embedded import read_assignment, read_subscription
from coordinator.group.kinds import parse_record as parse_group_record
from coordinator.shard import UnknownRecord
from coordinator.share.records import parse_record as parse_share_record
from coordinator.transaction.records import parse_record as parse_transaction_record
from metadata.framing import decode_record, encode_record
from protocol.error_codes import EncodeError, ProtocolError
from protocol.records.crc32c import crc32c
from storage.checkpoints import read_clean_shutdown, read_meta_properties, read_offsets, read_topic_id
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.log.leader_epoch import LeaderEpochs
from storage.producers.snapshot import decode_snapshot, encode_snapshot

_SNAPSHOT_VERSION = (1).to_bytes(2, "big")


class OneFile(FileSystem):
    """Every file that is read has these bytes; nothing is written."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_file(self, path: str, most_bytes: int = 1 << 20) -> bytes:
        """Return at most `most_bytes` of the bytes."""
        return self._data[:most_bytes]


def checkpoints(data: bytes) -> None:
    """The text files of a log directory and of a partition directory."""
    fs = OneFile(data)
    remarks: list[str] = []
    read_offsets(fs, "checkpoint", remarks)
    read_clean_shutdown(fs, "logs")
    topic_id = read_topic_id(fs, "logs/orders-0")
    assert topic_id is None or len(topic_id) == 16
    with suppress(CorruptFile):
        read_meta_properties(fs, "logs")
    LeaderEpochs(fs, "logs/orders-0")


def producer_snapshot(data: bytes) -> None:
    """A .snapshot file with a right checksum. A decoded snapshot must be encodable."""
    with suppress(CorruptFile):
        found = decode_snapshot(_SNAPSHOT_VERSION + crc32c(data).to_bytes(4, "big") + data, "0.snapshot")
        written = encode_snapshot(found)
        assert encode_snapshot(decode_snapshot(written, "0.snapshot")) == written


def coordinator_records(data: bytes) -> None:
    """A record of __consumer_offsets, __transaction_state or __share_group_state: size of the key, key, value."""
    size = data[0] if data else 0
    key, value = data[1 : 1 + size], data[1 + size :] or None
    parsers: tuple[tuple[Callable[..., object], type[Exception]], ...] = (
        (parse_group_record, UnknownRecord),
        (parse_share_record, UnknownRecord),
        (parse_transaction_record, UnknownRecord),
        (lambda *_: read_subscription(data), ProtocolError),
        (lambda *_: read_assignment(data), ProtocolError),
    )
    for parse, error in parsers:
        with suppress(error):
            parse(key, value)


def metadata_record(data: bytes) -> None:
    """A record of __cluster_metadata. A decoded record must round-trip."""
    try:
        record = decode_record(data)
        written = encode_record(record)
    except (ProtocolError, EncodeError):
        return
    assert encode_record(decode_record(written)) == written, base64.b64encode(data)
