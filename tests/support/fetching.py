"""Fetch requests as a handler gets them, and records to fetch."""

from __future__ import annotations

from typing import Any

from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.builder import BatchBuilder
from protocol.records.entries import iter_records
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.data_broker import TOPIC_ID, DataBroker

BATCH_BYTES = 391  # size of a batch of `append`: three records with values of 100 bytes

_PARTITION_FIELDS = ("topic", "topic_id", "current_leader_epoch", "last_fetched_epoch")


def append(broker: DataBroker, *, topic: str = "t", index: int = 0, count: int = 3, **fields: Any) -> None:
    builder = BatchBuilder(**fields)
    for number in range(count):
        builder.append(broker.clock.now_ms() + number, b"k", b"v" * 100)
    partition = broker.partitions.get(topic, index)
    assert partition is not None
    partition.append(builder.build(), broker.clock.now_ms())


def wanted(
    *of: tuple[int, int],
    version: int = 12,
    topic: str = "t",
    topic_id: bytes = TOPIC_ID,
    max_bytes: int = 1 << 20,
    **more: int,
) -> list[Struct]:
    """Return the topics of a request for (index, offset) pairs of one topic."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **more)
        for index, offset in of
    ]
    if version >= 13:
        return [FetchTopic(topic_id=topic_id, partitions=partitions)]
    return [FetchTopic(topic=topic, partitions=partitions)]


def send(broker: DataBroker, version: int = 12, **fields: Any) -> Deferred[Struct]:
    values = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1}
    reply = broker.send(FETCH, version, **{**values, **fields})
    assert reply is not None
    return reply


def fetch(broker: DataBroker, version: int = 12, **fields: Any) -> Struct:
    """Return the response, at the latest after the request's maximum wait."""
    reply = send(broker, version, **fields)
    if not reply.done:
        broker.advance(fields.get("max_wait_ms", 500))
    return broker.received(FETCH, version, reply)


def fetch_one(broker: DataBroker, offset: int = 0, *, index: int = 0, version: int = 12, **fields: Any) -> Struct:
    """Return the answer for one partition."""
    of = {name: fields.pop(name) for name in list(fields) if name in _PARTITION_FIELDS}
    response = fetch(broker, version, topics=wanted((index, offset), version=version, **of), **fields)
    [topic] = response.responses
    answer: Struct
    [answer] = topic.partitions
    return answer


def read_offsets(answer: Struct) -> list[int]:
    return [record.offset for record in iter_records(answer.records)]
