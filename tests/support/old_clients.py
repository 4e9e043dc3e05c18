"""Produce and fetch messages of the formats that Kafka 4 has dropped, with clients of their time."""

from __future__ import annotations

from protocol.messages.fetch import FETCH
from protocol.messages.produce import PRODUCE
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import Record
from protocol.schema import Struct
from tests.support.data_broker import DataBroker
from tests.support.logs import T0

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def messages(magic: int, count: int = 3, codec: int = Codec.NONE, size: int = 10) -> bytes:
    builder = MessageSetBuilder(magic, 0, codec)
    for number in range(count):
        builder.append(T0 + number, b"k", b"v" * size)
    return builder.build()


def produce(broker: DataBroker, records: bytes, version: int = 2, acks: int = 1) -> Struct:
    data = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    answer = broker.call(PRODUCE, version, acks=acks, timeout_ms=1000, topic_data=[data])
    told: Struct = answer.responses[0].partition_responses[0]
    return told


def fetch(broker: DataBroker, version: int, offset: int = 0, *, max_bytes: int = 1 << 20, wait_ms: int = 0) -> Struct:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    topics = [{"topic": "t", "partitions": [wanted]}]
    answer = broker.call(FETCH, version, max_wait_ms=wait_ms, min_bytes=1, topics=topics)
    data: Struct = answer.responses[0].partitions[0]
    return data


def read(broker: DataBroker, version: int = 4, offset: int = 0) -> list[Record]:
    return list(iter_records(bytes(fetch(broker, version, offset).records)))
