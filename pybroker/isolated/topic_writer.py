"""Write rows into topics, in batches of an idempotent producer, acknowledged by all replicas.

A batch that is resent after a lost connection is written once. A task that Spark reruns is a new producer: its rows are
written again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from random import randrange
from typing import Any

import pyarrow as pa

from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.murmur2 import partition_of
from protocol.records.compression import Codec
from protocol.records.record import Headers
from protocol.schema import Struct
from pybroker.isolated.batches import BATCH_BYTES, TOO_LARGE, Unsent, UnsentRecord, build_batch, size_of
from pybroker.isolated.cluster import Cluster, TopicPartition, check, kept_cluster
from pybroker.isolated.connection import Connection
from pybroker.isolated.serving import Exchange
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import SourceError, UnknownPartition, UnusableOption

#: The newest version with topic names before KIP-890; and one of every broker with idempotence.
_PRODUCE_VERSION, _INIT_VERSION = 9, 1
_TIMEOUT_MS = 30_000
_ALL_REPLICAS = -1
#: Range of the random start for rows without keys, so that small tasks do not all use one partition.
_TURNS = 1 << 31

Row = tuple[str, int | None, bytes | None, bytes | None, Headers]
"""topic, partition, key, value, headers"""


def write(exchange: Exchange) -> dict[str, int]:
    """Send the rows of the request's batches. Return their number, once all are acknowledged.

    Request: `properties`, also compression.type; `columns` of the batches; `topic` if they have none. Errors:
    UnknownPartition, UnusableOption, BrokerFailed.
    """
    wanted = exchange.wanted
    with kept_cluster(wanted["properties"]) as cluster:
        codec = codec_of(wanted["properties"].get("compression.type", "none"))
        sender = Sender(cluster, codec, first_turn=randrange(_TURNS))
        written = 0
        for payload in exchange.received():
            batch = pa.ipc.read_record_batch(pa.py_buffer(payload), arrow_schema(wanted["columns"]))
            for row in rows_of(batch, wanted["columns"], wanted["topic"]):
                sender.send(row)
                written += 1
        sender.flush()
    return {"count": written}


def rows_of(batch: pa.RecordBatch, columns: Sequence[str], topic: str | None) -> Iterator[Row]:
    """Yield the rows of a batch. `topic` overrides a row's own, as with Spark's sink.

    Errors: SourceError for a row without any, and for a header without a name.
    """
    nothing = [None] * batch.num_rows
    of = {name: column.to_pylist() for name, column in zip(columns, batch.columns, strict=True)}
    for named, partition, key, value, headers in zip(
        *(of.get(name, nothing) for name in ("topic", "partition", "key", "value", "headers")), strict=True
    ):
        where = named if topic is None else topic
        if where is None:
            raise SourceError("a row has no topic, and there is no option topic")
        yield where, partition, key, value, header_pairs(headers)


def header_pairs(given: Sequence[Mapping[str, Any] | None] | None) -> Headers:
    """Return a row's headers as a record's. Errors: SourceError for one without a name."""
    headers = []
    for each in given or ():
        if each is None or each["key"] is None:
            raise SourceError("a row has a header without a name")
        headers.append((each["key"], each["value"]))
    return tuple(headers)


class Sender:
    """An idempotent producer: fills a batch for each partition, and sends it when it is full."""

    def __init__(
        self, cluster: Cluster, codec: Codec, *, first_turn: int, now_s: Callable[[], float] = time.time
    ) -> None:
        """`first_turn` is at least 0: its remainder is the partition of the first rows without keys."""
        self._cluster = cluster
        self._codec = codec
        self._now_s = now_s
        self._producer: tuple[int, int] | None = None
        self._unsent: dict[TopicPartition, Unsent] = {}
        self._batch_bytes = BATCH_BYTES
        self._sequences: dict[TopicPartition, int] = {}
        self._partitions: dict[str, int] = {}
        self._turns = count(first_turn)

    def send(self, row: Row) -> None:
        """Add a row."""
        topic, partition, key, value, headers = row
        place = topic, self._partition(topic, partition, key)
        record = UnsentRecord(int(self._now_s() * 1000), key, value, headers)
        while (unsent := self._unsent.get(place)) and unsent.size_bytes + record.size_bytes > self._batch_bytes:
            self._deliver(place)
            place = topic, self._partition(topic, partition, key)  # the next rows without keys go to another partition
        if unsent is None:
            unsent = self._unsent[place] = Unsent()
        unsent.append(record)

    def flush(self) -> None:
        """Send the buffered rows, and wait until all are acknowledged."""
        for place in list(self._unsent):
            self._deliver(place)

    def _partition(self, topic: str, partition: int | None, key: bytes | None) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = len(self._cluster.partitions([topic]))
        there = self._partitions[topic]
        if partition is not None:
            if not 0 <= partition < there:
                raise UnknownPartition(f"there is no partition {topic}-{partition}")
            return partition
        if key is not None:
            return partition_of(key, there)
        filling = [place[1] for place in self._unsent if place[0] == topic]
        return filling[0] if filling else next(self._turns) % there

    def _deliver(self, place: TopicPartition) -> None:
        """Send the buffered rows of a partition; in halves if the batch is too large for the topic."""
        records = self._unsent.pop(place).records
        limit = len(records)
        while records:
            batch = records[:limit]
            data = build_batch(batch, self._codec, self._producer_id(), self._sequences.get(place, 0))
            allowed = TOO_LARGE if len(batch) > 1 else ()
            answer = self._cluster.at_leader(place, partial(produce, place=place, data=data, allowed=allowed))
            if answer.error_code:
                limit = len(batch) // 2
                self._batch_bytes = size_of(batch[:limit])
            else:
                self._sequences[place] = self._sequences.get(place, 0) + len(batch)
                del records[:limit]

    def _producer_id(self) -> tuple[int, int]:
        if self._producer is None:
            self._producer = self._cluster.at_any(request_producer)
        return self._producer


def request_producer(connection: Connection) -> tuple[int, int]:
    """Return the id and epoch of a new idempotent producer."""
    answer, _ = connection.call(
        INIT_PRODUCER_ID, _INIT_VERSION, transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS
    )
    check(answer.error_code, "InitProducerId")
    return answer.producer_id, answer.producer_epoch


def produce(connection: Connection, place: TopicPartition, data: bytes, allowed: Collection[ErrorCode] = ()) -> Struct:
    """Send a batch to a partition, and return the response. Errors: those of the response that are not `allowed`."""
    topic, partition = place
    part = PartitionProduceData(index=partition, records=data)
    answer, _ = connection.call(
        PRODUCE,
        _PRODUCE_VERSION,
        transactional_id=None,
        acks=_ALL_REPLICAS,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[part])],
    )
    part_answer: Struct = answer.responses[0].partition_responses[0]
    if part_answer.error_code not in allowed:
        check(part_answer.error_code, f"{topic}-{partition}")
    return part_answer


def codec_of(name: str) -> Codec:
    """Return the codec of compression.type. Errors: UnusableOption."""
    if name.upper() not in Codec.__members__:
        raise UnusableOption(f"kafka.compression.type: {name!r} is none of none, gzip, snappy, lz4 and zstd")
    return Codec[name.upper()]
