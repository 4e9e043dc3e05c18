"""Produce requests as a handler gets them, and their batches."""

from __future__ import annotations

from struct import pack_into
from typing import Any

from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.records.crc32c import crc32c
from protocol.records.entries import iter_records
from protocol.schema import Struct
from tests.support.data_broker import TOPIC_ID, DataBroker

NOW_MS = 1_700_000_000_000


def batch(
    count: int = 1, *, timestamp: int = NOW_MS, key: bytes | None = b"k", value: bytes = b"v", **fields: Any
) -> bytes:
    builder = BatchBuilder(**fields)
    for number in range(count):
        builder.append(timestamp + number, key, value)
    return builder.build()


OK = batch(2)


def patched(data: bytes, position: int, layout: str, value: int) -> bytes:
    """Return the batch with a changed header field and a valid checksum."""
    changed = bytearray(data)
    pack_into(layout, changed, position, value)
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    return bytes(changed)


def request(records: bytes | None, *, topic: str = "t", index: int = 0, topic_id: bytes = TOPIC_ID) -> list[Struct]:
    return [
        TopicProduceData(
            name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=records)]
        )
    ]


def produce(
    broker: DataBroker, records: bytes | None, *, version: int = 12, acks: int = -1, client_id: str = "client",
    transactional_id: str | None = None, **of: Any,
) -> Struct:  # fmt: skip
    """Produce to the one partition, and return its answer."""
    response = broker.call(
        PRODUCE, version, client_id, acks=acks, timeout_ms=1000, transactional_id=transactional_id,
        topic_data=request(records, **of),
    )  # fmt: skip
    [topic] = response.responses
    answer: Struct
    [answer] = topic.partition_responses
    return answer


def offsets(broker: DataBroker, topic: str = "t", index: int = 0) -> list[int]:
    """Return the offsets of all records of a partition, read from its log."""
    partition = broker.partitions.get(topic, index)
    assert partition is not None
    records = partition.log.read(0, 1 << 30, partition.high_watermark)
    return [record.offset for record in iter_records(records if isinstance(records, bytes) else records.read())]
