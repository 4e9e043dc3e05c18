"""The effect of a topic's settings on batches: both brokers get the same hand-made batches under each setting.

Compared are the answers (error code, offsets, failed records) and the stored batches: attributes with codec and
timestamp type, timestamps, producers, records, and each byte of batches that are not re-encoded. Workers handle large
batches here. test_bad_frames.py covers wrong headers and records.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE
from protocol.records.batch import TIMESTAMP_TYPE_BIT, iter_batches, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.record import iter_batch_records
from tests.conformance.bad_frames.batches import changed
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, Refused
from tests.support.eventually import eventually

HOUR_MS = 3_600_000
_RANDOM = random.Random(1)
_NOISE = _RANDOM.randbytes(2_000)

SETTINGS: dict[str, dict[str, object]] = {
    "defaults": {},
    "compacted": {"cleanup.policy": "compact"},
    "compacted and deleted, lz4": {"cleanup.policy": "compact,delete", "compression.type": "lz4"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "gzip at its best": {"compression.type": "gzip", "compression.gzip.level": 9},
    "snappy": {"compression.type": "snappy"},
    "lz4": {"compression.type": "lz4"},
    "lz4 at its best": {"compression.type": "lz4", "compression.lz4.level": 17},
    "zstd": {"compression.type": "zstd"},
    "zstd at its fastest": {"compression.type": "zstd", "compression.zstd.level": -131072},
    "zstd, with care": {"compression.type": "zstd", "compression.zstd.level": 7},
    "time of the broker": {"message.timestamp.type": "LogAppendTime"},
    "time of the broker, gzip": {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"},
    "time of the broker, compacted": {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"},
    "not an hour late": {"message.timestamp.before.max.ms": HOUR_MS},
    "not an hour late, uncompressed": {
        "message.timestamp.before.max.ms": HOUR_MS,
        "compression.type": "uncompressed",
    },
    "early as you like": {"message.timestamp.after.max.ms": 2**63 - 1},
    "late and early, of the broker": {
        "message.timestamp.before.max.ms": HOUR_MS,
        "message.timestamp.after.max.ms": HOUR_MS,
        "message.timestamp.type": "LogAppendTime",
    },
    "small": {"max.message.bytes": 500},
    "small, gzip": {"max.message.bytes": 500, "compression.type": "gzip"},
    "small, uncompressed": {"max.message.bytes": 500, "compression.type": "uncompressed"},
}


def batch(
    *keys: bytes | None, value: bytes | None = b"value", times: tuple[int, ...] = (), codec: int = 0, **of: int
) -> bytes:
    """Return a batch of records with these keys, and with values and headers; a millisecond apart, or at the given
    times.
    """
    builder = BatchBuilder(codec=codec, **of)  # type: ignore[arg-type]
    now_ms = int(time.time() * 1000)
    for number, key in enumerate(keys):
        headers = [("h", b"1"), ("none", None)] if number == 1 else []
        builder.append(times[number] if times else now_ms + number, key, value, headers)
    return builder.build()


def batches() -> Iterator[tuple[str, bytes]]:
    """Yield (name, records) of each batch, in order."""
    now_ms = int(time.time() * 1000)
    for codec in Codec:
        text = codec.name.lower()
        yield f"{text}: three", batch(b"a", b"b", b"c", codec=codec)
        yield f"{text}: no key", batch(None, codec=codec)
        yield f"{text}: the second without key", batch(b"a", None, b"c", codec=codec)
        yield f"{text}: empty keys", batch(b"", b"", codec=codec)
        yield f"{text}: tombstones", batch(b"a", b"b", value=None, codec=codec)
        yield f"{text}: many", batch(*(b"%d" % number for number in range(150)), codec=codec)
        yield f"{text}: many, the last without key", batch(*[b"k"] * 149, None, codec=codec)
        yield f"{text}: late", batch(b"a", b"b", times=(now_ms - 2 * HOUR_MS, now_ms), codec=codec)
        yield f"{text}: many, all late", batch(*[b"k"] * 100, times=(now_ms - 2 * HOUR_MS,) * 100, codec=codec)
        yield f"{text}: early", batch(b"a", b"b", times=(now_ms, now_ms + 2 * HOUR_MS), codec=codec)
        yield f"{text}: late, and without key", batch(b"a", None, times=(now_ms - 2 * HOUR_MS,) * 2, codec=codec)
        yield f"{text}: times that go back", batch(b"a", b"b", times=(now_ms, now_ms - 500), codec=codec)
        yield f"{text}: no time", batch(b"a", b"b", times=(-1, -1), codec=codec)
        yield f"{text}: long, and easy to compress", batch(b"a", b"b", value=bytes(2_000), codec=codec)
        yield f"{text}: long, and hard to compress", batch(b"a", b"b", value=_NOISE, codec=codec)
        sound = bytearray(batch(b"a", b"b", codec=codec))
        yield f"{text}: time of the broker by the client", changed(sound, attributes=codec | TIMESTAMP_TYPE_BIT)
        yield f"{text}: leader epoch of the client", changed(sound, leader_epoch=7)
        first = int(codec) * 10
        for name, sequence, epoch in [
            ("first", 0, 1), ("second", 2, 1), ("first again", 0, 1), ("a gap", 9, 1), ("third", 4, 1),
            ("of an older epoch", 6, 0), ("of a newer epoch", 0, 2), ("of a newer epoch, not from 0", 2, 3),
        ]:  # fmt: skip
            producer = {"producer_id": 1000 + first, "producer_epoch": epoch, "base_sequence": sequence}
            yield f"{text}: sequence, {name}", batch(b"a", b"b", codec=codec, **producer)
        yield f"{text}: producer without epoch", batch(b"a", codec=codec, producer_id=2000 + first, base_sequence=0)
        yield f"{text}: sequence of -1", batch(b"a", codec=codec, producer_id=2000 + first, producer_epoch=0)
        yield (
            f"{text}: wraps around",
            batch(b"a", b"b", b"c", codec=codec, producer_id=3000 + first, producer_epoch=0, base_sequence=2**31 - 2),
        )


@dataclass(frozen=True)
class Told:
    """The answer to a batch, without messages and the time of day."""

    error: str
    base_offset: int
    log_start_offset: int
    has_append_time: bool
    records_at_fault: tuple[int, ...]


def new_topic(client: DataClient, topic: str, settings: dict[str, object] | None = None) -> None:
    """Create a topic, and wait until Kafka's broker knows it."""
    client.create_topic(topic, configs=settings)
    eventually(lambda: client.bounds(topic), retried=Refused)


def send_all(broker: RunningBroker, topic: str, settings: dict[str, object], sent: dict[str, bytes]) -> dict[str, Told]:
    """Send all batches to a new topic; return the answers by name of the batch."""
    found = {}
    with DataClient(HOST, broker.port) as client:
        new_topic(client, topic, settings)
        for name, records in sent.items():
            answer = client.call(PRODUCE, 9, client.produce_request(topic, 0, records))
            partition = answer.responses[0].partition_responses[0]
            found[name] = Told(
                ErrorCode(partition.error_code).name,
                partition.base_offset,
                partition.log_start_offset,
                partition.log_append_time_ms > 0,
                tuple(each.batch_index for each in partition.record_errors),
            )
    return found


def stored(broker: RunningBroker, topic: str, *, exactly: bool) -> list[tuple[object, ...]]:
    """Return the stored batches as comparable values; `exactly`: with the bytes of their records."""
    found = []
    with DataClient(HOST, broker.port) as client:
        offset, end = client.bounds(topic)
        while offset < end:
            records = bytes(client.fetch(topic, offset, max_bytes=1 << 22).records)
            for position, header in iter_batches(records):
                data = records[position : position + header.size_bytes]
                assert verify_crc(data, 0, len(data))
                by_broker = bool(header.attributes & TIMESTAMP_TYPE_BIT)
                assert not by_broker or abs(header.max_timestamp - time.time() * 1000) < HOUR_MS / 4
                found.append(
                    (
                        header.base_offset,
                        header.last_offset,
                        header.leader_epoch,
                        header.attributes,
                        header.base_timestamp,
                        "the broker's" if by_broker else header.max_timestamp,
                        (header.producer_id, header.producer_epoch, header.base_sequence),
                        [
                            (each.offset, "the broker's" if by_broker else each.timestamp, *each[2:])
                            for each in iter_batch_records(data, header)
                        ],
                        data[61:] if exactly or not header.codec else b"",
                    )
                )
                offset = header.next_offset
    return found


@pytest.mark.parametrize("setting", SETTINGS)
def test_both_brokers_store_each_batch_alike(
    shared_broker: Callable[[str], RunningBroker], name: str, setting: str
) -> None:
    """S9.3 and KIP-467 among others: codecs, timestamps, sizes, keys, sequences; small batches and large ones."""
    ours, kafka = shared_broker("ours"), shared_broker("kafka")
    settings = SETTINGS[setting]
    sent = dict(batches())
    expected = send_all(kafka, name, settings, sent)

    assert send_all(ours, name, settings, sent) == expected
    kept = settings.get("compression.type", "producer") == "producer"
    assert stored(ours, name, exactly=kept) == stored(kafka, name, exactly=kept)
    assert {told.error for told in expected.values()} > {"NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"}


@pytest.mark.parametrize(
    ("key", "values"),
    {
        "compression.type": {"producer": 1, "uncompressed": 1, "GZIP": 0, "brotli": 0, "": 0},
        "compression.gzip.level": {"-1": 1, "0": 0, "1": 1, "9": 1, "10": 0, "fast": 0},
        "compression.lz4.level": {"0": 0, "1": 1, "17": 1, "18": 0, "-1": 0},
        "compression.zstd.level": {"-131072": 1, "-131073": 0, "0": 1, "22": 1, "23": 0},
        "message.timestamp.type": {"CreateTime": 1, "LogAppendTime": 1, "logappendtime": 0, "NoTimestampType": 0},
        "message.timestamp.before.max.ms": {"0": 1, "-1": 0, "9223372036854775807": 1},
        "message.timestamp.after.max.ms": {"0": 1, "-1": 0},
        "max.message.bytes": {"0": 1, "-1": 0, "2147483647": 1, "2147483648": 0},
        "flush.messages": {"1": 1, "0": 0, "9223372036854775807": 1},
        "flush.ms": {"0": 1, "-1": 0},
    }.items(),
)
def test_settings_out_of_bounds_are_rejected(
    reference: RunningBroker, name: str, key: str, values: dict[str, int]
) -> None:
    """INVALID_CONFIG for values out of bounds, on an existing topic and on a new one."""
    with DataClient(HOST, reference.port) as client:
        new_topic(client, name)
        taken = {}
        for number, value in enumerate(values):
            refusals = [
                refused_code(lambda value=value: client.set_topic_config(name, key, value)),
                refused_code(
                    lambda value=value, number=number: client.create_topic(f"{name}-{number}", 1, {key: value})
                ),
            ]
            assert refusals[0] == refusals[1]
            taken[value] = refusals[0]
    assert taken == {value: None if fine else ErrorCode.INVALID_CONFIG for value, fine in values.items()}


def refused_code(call: Callable[[], object]) -> ErrorCode | None:
    """Return the error code of a rejected call."""
    try:
        call()
    except Refused as refused:
        return refused.code
    return None


def test_a_changed_setting_applies_to_the_next_batch(reference: RunningBroker, name: str) -> None:
    """Codec, timestamps, sizes and keys change without a restart; stored batches stay as they are."""
    with DataClient(HOST, reference.port) as client:
        new_topic(client, name)
        client.produce(name, batch(b"a"))
        attributes = [Codec.NONE]
        for key, value, expected in [
            ("compression.type", "zstd", Codec.ZSTD),
            ("compression.type", "lz4", Codec.LZ4),
            ("message.timestamp.type", "LogAppendTime", Codec.LZ4 | TIMESTAMP_TYPE_BIT),
            ("compression.type", "producer", TIMESTAMP_TYPE_BIT),
        ]:
            client.set_topic_config(name, key, value)
            deadline = time.monotonic() + 60
            while attributes[-1] != expected and time.monotonic() < deadline:  # Kafka's logs apply it a moment later
                offset = client.produce(name, batch(b"a"))
                found = [header.attributes for _, header in iter_batches(bytes(client.fetch(name, offset).records))]
                attributes.append(found[-1])
            assert attributes[-1] == expected
    assert os.path.isdir(reference.log_dir / f"{name}-0")
