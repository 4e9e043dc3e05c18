"""Replay recorded sessions of stock clients, and compare error codes.

A file has only the first three exchanges of each API and version. So partitions are filled up to the fetched offset,
and MISSING lists what cannot work without the missing requests. The sweeps cover transactions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.fetch import FETCH
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from tests.support.answers import Names, Rules
from tests.support.eventually import eventually
from tests.support.replay import Replay
from tests.support.wire import WireClient, served_versions
from tests.support.wire_frames import Exchange, recorded_exchanges, recorded_files

CLIENTS = ("java-4.3.1", "java-3.9.1", "confluent-kafka", "aiokafka", "kafka-python")

# In the order of their recording: later ones use objects of earlier ones
SCENARIOS = (
    r"admin",
    r"produce-\w+",
    r"idempotent",
    r"autocreate",
    r"consume-(un)?committed",
    r"group|group-classic|group-static",
    r"offsets",
    r"groups-admin",
    r"api-.*",
)

_REBALANCE = "a second member's JoinGroup is not among the exchanges that were kept, so that there is no rebalance"
MISSING = {
    f"{client}-group-classic.tsv:{line}": _REBALANCE
    for client in ("java-4.3.1", "java-3.9.1")
    for line in (38, 40, 42, 54)
}


class ClientSessions:
    """All sessions against one broker; `client` is a connection of its own for requests that the files lack."""

    def __init__(self, replay: Replay, rules: Rules, names: Names, client: WireClient) -> None:
        self._replay = replay
        self._rules = rules
        self._names = names
        self._client = client
        self._served = served_versions(client)

    def differences(self, client: str) -> list[str]:
        """Replay a client's requests; return the error codes that differ from the recorded ones."""
        found: list[str] = []
        for scenario in SCENARIOS:
            pattern = re.compile(rf"{re.escape(client)}-({scenario})\.tsv")
            for file_name in filter(pattern.fullmatch, recorded_files()):
                for exchange in recorded_exchanges(file_name):
                    if exchange.version in self._served.get(exchange.api.key, ()):
                        found += self._differences(exchange)
        return found

    def _differences(self, exchange: Exchange) -> Iterator[str]:
        request = self._replay.translated(exchange)
        assert request is not None, exchange.source
        if exchange.api is FETCH:
            request.max_wait_ms = 10
            self._fill(request)
        elif exchange.api is METADATA:
            self._wait_for_topics(exchange.decode_answer().topics, request.topics or [])
        answer = self._replay.answer(exchange, request)
        if answer is None:
            return
        if exchange.api is CREATE_TOPICS:
            self._wait_for_topics(answer.topics, request.topics)
        recorded = exchange.decode_answer()
        for _ in self._rules.differences(exchange.api.name, recorded, answer, self._names):
            pass  # the translation learns the ids
        expected, given = (sorted(set(error_codes(each))) for each in (recorded, answer))
        if given != expected and exchange.source not in MISSING:
            yield f"{exchange.source} {exchange.api.name} v{exchange.version}: {given}, recorded {expected}"

    def _wait_for_topics(self, answered: list[Struct], requested: list[Struct]) -> None:
        """Wait until topics that an answer promises exist: clients would retry until they do."""
        names = {topic.name for topic in answered if topic.error_code == ErrorCode.NONE}
        wanted = [MetadataRequestTopic(name=topic.name) for topic in requested if topic.name in names]
        eventually(lambda: not wanted or self._all_led(wanted), lambda: f"{names} are not there")

    def _all_led(self, wanted: list[Struct]) -> bool:
        """Return whether the topics are known, and their leader serves them: it answers for their offsets."""
        found = self._client.call(METADATA, 4, topics=wanted)
        if any(error_codes(found)):
            return False
        topics = [
            ListOffsetsTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsPartition(partition_index=p.partition_index, timestamp=-1) for p in topic.partitions
                ],
            )
            for topic in found.topics
        ]
        return not any(error_codes(self._client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics)))

    def _fill(self, fetch: Struct) -> None:
        """Append until each fetched partition reaches the requested offset."""
        for topic in fetch.topics:
            name = topic.topic or self._topic_name(topic.topic_id)
            for partition in topic.partitions:
                missing = partition.fetch_offset - self._end(name, partition.partition)
                if missing > 0:
                    self._append(name, partition.partition, missing)

    def _topic_name(self, topic_id: bytes) -> str:
        topics = self._client.call(METADATA, 12, topics=None).topics
        return next(str(topic.name) for topic in topics if topic.topic_id == topic_id)

    def _end(self, name: str, index: int) -> int:
        latest = ListOffsetsPartition(partition_index=index, timestamp=-1)
        topics = [ListOffsetsTopic(name=name, partitions=[latest])]
        return int(self._client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics).topics[0].partitions[0].offset)

    def _append(self, name: str, index: int, count: int) -> None:
        batch = BatchBuilder()
        for _ in range(count):
            batch.append(int(time.time() * 1000), None, b"between", ())
        data = PartitionProduceData(index=index, records=batch.build())
        topics = [TopicProduceData(name=name, partition_data=[data])]
        assert not any(error_codes(self._client.call(PRODUCE, 9, acks=-1, timeout_ms=5_000, topic_data=topics)))


def error_codes(value: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield the error codes in an answer, except NONE, each with the path of its field."""
    if isinstance(value, Struct):
        for field in value.struct_type.fields:
            content = getattr(value, field.name)
            if not field.name.endswith("error_code"):
                yield from error_codes(content, f"{path}.{field.name}")
            elif content != ErrorCode.NONE:
                yield f"{path}.{field.name}", content
    elif isinstance(value, list):
        for element in value:
            yield from error_codes(element, f"{path}[]")
