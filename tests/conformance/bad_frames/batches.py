"""Produce requests with batches whose headers are visibly wrong."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.batch import CRC_START
from protocol.records.builder import BatchBuilder
from protocol.records.crc32c import crc32c

TOPIC = "bad-frames"
_NOW = int(time.time() * 1000)

# positions of the fields in a batch's header, and their formats
_FIELDS = {
    "base offset": (0, ">q"),
    "length": (8, ">i"),
    "leader epoch": (12, ">i"),
    "magic": (16, ">b"),
    "checksum": (17, ">I"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "base timestamp": (27, ">q"),
    "max timestamp": (35, ">q"),
    "producer id": (43, ">q"),
    "producer epoch": (51, ">h"),
    "base sequence": (53, ">i"),
    "count": (57, ">i"),
}

_VALUES: dict[str, tuple[int, ...]] = {
    "base offset": (1, -1, 2**63 - 1, -(2**63)),
    "length": (0, -1, -(2**31), 1, 13, 14, 40, 48, 49, 50, 1000, 2**31 - 1),
    "leader epoch": (0, 5, -2, 2**31 - 1),
    "magic": (0, 1, 3, 127, -1, -128),
    "checksum": (0, 1, 2**32 - 1),
    "attributes": (5, 6, 7, 8, 16, 32, 48, 64, 128, 1 << 8, 1 << 14, -(2**15)),
    "last offset delta": (0, 1, 3, -1, 2**31 - 1, -(2**31)),
    "base timestamp": (-1, -2, 0, -(2**63)),
    "max timestamp": (-1, -2, 0),
    "producer id": (0, 5, -2, -(2**63)),
    "producer epoch": (0, 5, -2),
    "base sequence": (0, 5, -2, 2**31 - 1),
    "count": (0, 1, 2, 4, 1000, -1, 2**31 - 1, -(2**31)),
}


def batch(codec: int = 0, **options: int) -> bytearray:
    """Return a batch of three valid records."""
    builder = BatchBuilder(codec=codec, **options)  # type: ignore[arg-type]
    for number in range(3):
        builder.append(_NOW + number, b"key", b"value-%d" % number, ())
    return bytearray(builder.build())


def changed(records: bytearray, *, summed: bool = True, **values: int) -> bytes:
    """Return `records` with other values in header fields, by default with a matching checksum."""
    records = bytearray(records)
    for name, value in values.items():
        position, layout = _FIELDS[name.replace("_", " ")]
        struct.pack_into(layout, records, position, value)
    if summed:
        struct.pack_into(">I", records, _FIELDS["checksum"][0], crc32c(bytes(records[CRC_START:])))
    return bytes(records)


def without_checksum(records: bytes) -> bytes:
    """Return `records` with 0 as their checksum."""
    return records[:17] + bytes(4) + records[21:]


def produce(records: bytes | None, *, version: int = 9, acks: int = -1, transactional_id: str | None = None) -> bytes:
    """Return a whole request with these records for partition 0."""
    topics = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = PRODUCE.request(transactional_id=transactional_id, acks=acks, timeout_ms=5000, topic_data=topics)
    return frame(encode_request_header(PRODUCE, version, 7, "bad-frames"), PRODUCE.request.encode(version, request))


def bad_batches() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send) of each case."""
    yield from _header_fields()
    yield from _combinations()
    yield from _shapes()
    yield from _requests()


def _header_fields() -> Iterator[tuple[str, bytes]]:
    sound = batch()
    for field, values in _VALUES.items():
        for value in values:
            records = changed(sound, summed=field != "checksum", **{field.replace(" ", "_"): value})
            yield f"batch: {field} {value}", produce(records)


def _combinations() -> Iterator[tuple[str, bytes]]:
    """Yield several wrong fields at a time: consistent with each other, but with nothing else."""
    sound = batch()
    for name, records in {
        "count and last offset delta of none": changed(sound, count=0, last_offset_delta=-1),
        "count and last offset delta of a million": changed(sound, count=1_000_000, last_offset_delta=999_999),
        "a producer without a sequence": changed(sound, producer_id=5, producer_epoch=0, base_sequence=-1),
        "a producer without an epoch": changed(sound, producer_id=5, producer_epoch=-1, base_sequence=0),
        "a sequence without a producer": changed(sound, producer_id=-1, producer_epoch=0, base_sequence=0),
        "a producer that begins at sequence 7": changed(sound, producer_id=6, producer_epoch=0, base_sequence=7),
        "a producer at the end of its sequences": changed(
            sound, producer_id=7, producer_epoch=0, base_sequence=2**31 - 2
        ),
        "transactional without an id": changed(sound, attributes=16, producer_id=8, producer_epoch=0, base_sequence=0),
        "control and transactional": changed(sound, attributes=48, producer_id=8, producer_epoch=0, base_sequence=0),
        "no records, length 49": changed(bytearray(sound[:61]), length=49, count=0, last_offset_delta=-1),
        "no records, but three by the header": changed(bytearray(sound[:61]), length=49),
    }.items():
        yield f"batch: {name}", produce(records)


def _shapes() -> Iterator[tuple[str, bytes]]:
    """Yield more or less than one batch."""
    sound = bytes(batch())
    broken = without_checksum(sound)
    for name, records in {
        "empty": b"",
        "one byte": b"\0",
        "sixteen bytes": sound[:16],
        "seventeen bytes": sound[:17],
        "sixty bytes": sound[:60],
        "a header alone": sound[:61],
        "a batch cut by one byte": sound[:-1],
        "a byte too many": sound + b"\0",
        "eleven bytes too many": sound + bytes(11),
        "twelve zeros too many": sound + bytes(12),
        "sixteen zeros too many": sound + bytes(16),
        "sixteen bytes too many that say that more follows": sound + bytes(8) + b"\0\0\1\0" + bytes(4),
        "half of a batch of magic 9 too many": sound + bytes(8) + b"\0\0\1\0" + bytes(4) + b"\x09" + bytes(40),
        "0xff seventeen times too many": sound + b"\xff" * 17,
        "seventeen zeros too many": sound + bytes(17),
        "sixty-one zeros too many": sound + bytes(61),
        "two batches": sound * 2,
        "three batches": sound * 3,
        "a batch and half of one": sound + sound[:50],
        "a batch and one with a wrong checksum": sound + broken,
        "zeros": bytes(100),
        "0xff": b"\xff" * 100,
    }.items():
        yield f"records: {name}", produce(records)


def _requests() -> Iterator[tuple[str, bytes]]:
    """Yield variants of the request around the records."""
    sound = bytes(batch())
    for acks in (-2, 2, 100, -32768, 32767):
        yield f"Produce: acks {acks}", produce(sound, acks=acks)
    for version in (3, 5, 7, 8, 9, 11, 12):
        yield f"Produce v{version}: wrong checksum", produce(without_checksum(sound), version=version)
    yield "Produce: acks 0 and a wrong checksum", produce(without_checksum(sound), acks=0)
    yield "Produce: acks 0 and no records", produce(b"", acks=0)
    yield "Produce: a transactional id, and records of none", produce(sound, transactional_id="t")
    yield "Produce: an empty transactional id", produce(sound, transactional_id="")
