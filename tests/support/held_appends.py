"""Produce requests to a broker whose workers run only when a test releases them."""

from __future__ import annotations

from typing import Any

from broker.replicas.partition import Partition
from protocol.messages.delete_records import DELETE_RECORDS
from protocol.messages.produce import PRODUCE
from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker

GZIP = LogConfig(compression_type="gzip")
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
NOW_MS = 1_700_000_000_000
LARGE = 100
"""So many records make a batch that a worker decompresses."""


def batch(count: int = 1, *, key: bytes | None = b"k", value: bytes = b"v", **fields: Any) -> bytes:
    builder = BatchBuilder(**fields)
    for number in range(count):
        builder.append(NOW_MS, key, value + str(number).encode())
    return builder.build()


def send(broker: DataBroker, records: bytes, *, index: int = 0, acks: int = 1) -> Deferred[Struct] | None:
    data = [{"index": index, "records": records}]
    return broker.send(PRODUCE, 12, acks=acks, timeout_ms=1000, topic_data=[{"name": "t", "partition_data": data}])


def answer(reply: Deferred[Struct] | None) -> Struct:
    """Return the answer for a producer's one partition."""
    assert reply is not None
    told: Struct = reply.result().responses[0].partition_responses[0]
    return told


def answer_is_there(reply: Deferred[Struct] | None) -> bool:
    assert reply is not None
    return reply.done


def delete(broker: DataBroker, before_offset: int) -> Deferred[Struct]:
    partitions = [{"partition_index": 0, "offset": before_offset}]
    reply = broker.send(DELETE_RECORDS, 2, timeout_ms=1000, topics=[{"name": "t", "partitions": partitions}])
    assert reply is not None
    return reply


def stored(partition: Partition) -> list[Any]:
    """Return the headers of the batches in a partition."""
    found, log = [], partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1, log.log_end_offset)
        assert not isinstance(piece, bytes)
        found.append(parse_header(piece.read()))
        offset = found[-1].next_offset
    return found
