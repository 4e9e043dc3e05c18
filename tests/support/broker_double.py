"""A broker of one topic, without sockets: it answers from batches in memory, and fails when a test orders it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, AbortedTransaction, FetchableTopicResponse, PartitionData
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.messages.metadata import (
    METADATA,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse
from protocol.records.batch import parse_header
from protocol.records.entries import iter_records
from protocol.records.record import Record
from protocol.schema import Api, Struct
from pybroker.isolated import cluster
from pybroker.isolated.connection import ConnectionFailed

TOPIC = "orders"
PROPERTIES = {"bootstrap.servers": "one:9092", "request.timeout.ms": "1000"}


@dataclass
class Partition:
    """Batches with their offsets, from `start` on."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)
    leader: int = 1

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else self.start


class BrokerDouble:
    """A broker with two addresses, `one` and `two`, and the partitions of `orders`."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = [Partition() for _ in range(partitions)]
        self.internal = ["__consumer_offsets"]
        #: what the next requests get instead of an answer: an error code, or a connection that breaks
        self.failures: dict[Api, deque[ErrorCode | type[ConnectionFailed]]] = {}
        #: (API, address, fields) of all requests.
        self.calls: list[tuple[Api, str, dict[str, Any]]] = []
        #: the largest answer to a Fetch, which may cut off a batch
        self.fetch_bytes = 1 << 20
        #: seconds, which each pause advances
        self.now_s = 0.0
        self.down: set[str] = set()

    @contextmanager
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerDouble]:
        """Replace connections by the double; only pauses advance the time."""

        def connect(host: str, port: int, *, timeout_s: float, access: object) -> ConnectionDouble:
            if host in self.down:
                raise ConnectionFailed(f"{host}:{port}: refused")
            return ConnectionDouble(self, host)

        def pause(seconds: float) -> None:
            self.now_s += seconds

        with monkeypatch.context() as patch:
            patch.setattr(cluster, "Connection", connect)
            patch.setattr(cluster, "Cluster", partial(cluster.Cluster, now_s=lambda: self.now_s))
            patch.setattr(cluster, "time", SimpleNamespace(sleep=pause))
            patch.setattr(cluster, "_kept", {})
            yield self

    def fail(self, api: Api, *failures: ErrorCode | type[ConnectionFailed]) -> None:
        """Answer the next requests of an API with these."""
        self.failures[api] = deque(failures)

    def asked(self, api: Api) -> list[dict[str, Any]]:
        """Return the fields of all requests of an API."""
        return [fields for called, _, fields in self.calls if called is api]

    def records(self, partition: int = 0) -> list[Record]:
        """Return the records that were produced."""
        return [record for batch in self.partitions[partition].batches for record in iter_records(batch)]

    def answer(self, api: Api, fields: dict[str, Any], code: int) -> Struct:
        answers = {
            METADATA: self._metadata,
            LIST_OFFSETS: self._list_offsets,
            FETCH: self._fetch,
            PRODUCE: self._produce,
            INIT_PRODUCER_ID: self._init_producer_id,
        }
        return answers[api](fields, code)

    def _metadata(self, fields: dict[str, Any], code: int) -> Struct:
        names = [each.name for each in fields["topics"]] if fields["topics"] is not None else [TOPIC, *self.internal]
        brokers = [MetadataResponseBroker(node_id=id, host=host, port=9092) for id, host in ((1, "one"), (2, "two"))]
        topics = []
        for name in names:
            known = name == TOPIC or name in self.internal
            led = [
                MetadataResponsePartition(partition_index=index, leader_id=partition.leader)
                for index, partition in enumerate(self.partitions)
            ]
            topics.append(
                MetadataResponseTopic(
                    error_code=code or (ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    name=name,
                    is_internal=name in self.internal,
                    partitions=led if known and not code else [],
                )
            )
        return METADATA.response(brokers=brokers, topics=topics)

    def _list_offsets(self, fields: dict[str, Any], code: int) -> Struct:
        [topic] = fields["topics"]
        [asked] = topic.partitions
        partition = self.partitions[asked.partition_index]
        since = [
            record.offset
            for batch in partition.batches
            for record in iter_records(batch)
            if record.timestamp >= asked.timestamp >= 0
        ]
        places = {-2: partition.start, -1: partition.end}
        offset = places.get(asked.timestamp, since[0] if since else -1)
        found = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code, offset=offset)
        return LIST_OFFSETS.response(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])])

    def _fetch(self, fields: dict[str, Any], code: int) -> Struct:
        [topic] = fields["topics"]
        [asked] = topic.partitions
        partition = self.partitions[asked.partition]
        if not code and not partition.start <= asked.fetch_offset <= partition.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        behind = [batch for batch in partition.batches if parse_header(batch).last_offset >= asked.fetch_offset]
        records = b"".join(behind)[: max(self.fetch_bytes, len(behind[0]))] if behind and not code else b""
        if not records:
            self.now_s += fields["max_wait_ms"] / 1000
        aborted = [AbortedTransaction(producer_id=id, first_offset=first) for id, first in partition.aborted]
        found = PartitionData(
            partition_index=asked.partition, error_code=code, records=memoryview(records), aborted_transactions=aborted
        )
        return FETCH.response(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[found])])

    def _produce(self, fields: dict[str, Any], code: int) -> Struct:
        [topic] = fields["topic_data"]
        [part] = topic.partition_data
        partition = self.partitions[part.index]
        if not code:
            batch = bytearray(part.records)
            batch[:8] = partition.end.to_bytes(8, "big")
            partition.batches.append(bytes(batch))
        told = PartitionProduceResponse(index=part.index, error_code=code, base_offset=0)
        return PRODUCE.response(responses=[TopicProduceResponse(name=topic.name, partition_responses=[told])])

    def _init_producer_id(self, fields: dict[str, Any], code: int) -> Struct:
        return INIT_PRODUCER_ID.response(error_code=code, producer_id=4711, producer_epoch=3)


class ConnectionDouble:
    """A connection to one of the addresses."""

    def __init__(self, broker: BrokerDouble, host: str) -> None:
        self._broker = broker
        self._host = host
        self._asked: deque[tuple[Api, dict[str, Any]]] = deque()
        self.is_broken = False
        self.is_closed = False

    def call(self, api: Api, most: int, **fields: Any) -> tuple[Struct, int]:
        return self.answer(self.ask(api, most, **fields)), most

    def ask(self, api: Api, most: int, **fields: Any) -> tuple[Api, dict[str, Any]]:
        self._broker.calls.append((api, self._host, fields))
        self._asked.append((api, fields))
        return api, fields

    def answer(self, asked: tuple[Api, dict[str, Any]]) -> Struct:
        assert self._asked.popleft() == asked, "answers come in the order of requests"
        api, fields = asked
        failures = self._broker.failures.get(api)
        failure = failures.popleft() if failures else ErrorCode.NONE
        if not isinstance(failure, ErrorCode):
            self.is_broken = True
            raise failure(f"{self._host}: broken")
        return self._broker.answer(api, fields, failure)

    def close(self) -> None:
        self.is_closed = True
