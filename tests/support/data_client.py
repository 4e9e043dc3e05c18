"""A client of the data plane for tests: topics, appends, whole logs, group offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.delete_records import DELETE_RECORDS
from protocol.messages.delete_topics import DELETE_TOPICS
from protocol.messages.describe_configs import DESCRIBE_CONFIGS
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS
from protocol.messages.fetch import FETCH
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
)
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.metadata import METADATA
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.entries import iter_records
from protocol.records.record import Record
from protocol.schema import Struct
from tests.support.wire import WireClient

_TOPIC_RESOURCE, _BROKER_RESOURCE, _GROUP_RESOURCE = 2, 4, 32
_EARLIEST, _LATEST = -2, -1


class Refused(Exception):
    """An answer with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(f"{ErrorCode(code).name}: {message}")
        self.code = ErrorCode(code)


def _check(answer: Struct) -> Struct:
    if answer.error_code:
        raise Refused(answer.error_code, getattr(answer, "error_message", None))
    return answer


def batch(
    *values: bytes, codec: int = 0, timestamp: int | None = None, key: bytes | None = None, **header: Any
) -> bytes:
    """Return a batch with one record a value, each a millisecond after the last, as a client sends it.

    `timestamp`: of the first record, by default now, because the state of producers with old batches expires soon.
    """
    builder = BatchBuilder(codec=codec, **header)
    first = int(time.time() * 1000) if timestamp is None else timestamp
    for number, value in enumerate(values):
        builder.append(first + number, key, value)
    return builder.build()


class DataClient(WireClient):
    """One connection; an answer with an error code raises Refused."""

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None, *, replicas: int = 1
    ) -> bytes:
        """Create a topic; return its id."""
        settings = [{"name": key, "value": str(value)} for key, value in (configs or {}).items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": settings}
        return bytes(_check(self.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000).topics[0]).topic_id)

    def delete_topic(self, name: str) -> None:
        _check(self.call(DELETE_TOPICS, 5, topic_names=[name], timeout_ms=30_000).responses[0])

    def topics(self) -> dict[str, int]:
        """Return the partition counts of all topics by name."""
        return {topic.name: len(topic.partitions) for topic in self.call(METADATA, 12, topics=None).topics}

    def set_topic_config(self, topic: str, key: str, value: str) -> None:
        self._set_configs(_TOPIC_RESOURCE, topic, {key: value})

    def set_cluster_config(self, key: str, value: str) -> None:
        """Set a value for all brokers."""
        self._set_configs(_BROKER_RESOURCE, "", {key: value})

    def set_group_configs(self, group: str, **settings: str) -> None:
        """Set configurations of a group: share_isolation_level for share.isolation.level."""
        self._set_configs(_GROUP_RESOURCE, group, {key.replace("_", "."): value for key, value in settings.items()})

    def _set_configs(self, kind: int, name: str, settings: Mapping[str, str]) -> None:
        configs = [{"name": key, "config_operation": 0, "value": value} for key, value in settings.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        _check(self.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses[0])

    def topic_config(self, topic: str, key: str) -> str:
        resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": [key]}
        return str(_check(self.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]).configs[0].value)

    def new_producer_id(self) -> int:
        answer = self.call(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=60_000)
        return int(_check(answer).producer_id)

    def produce_request(self, topic: str, partition: int, records: bytes, acks: int = -1) -> dict[str, object]:
        """Return the fields of a Produce of one batch."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
        return {"acks": acks, "timeout_ms": 30_000, "topic_data": [data]}

    def produce(self, topic: str, records: bytes, partition: int = 0, *, acks: int = -1) -> int:
        """Append a batch; return the offset of its first record."""
        answer = self.call(PRODUCE, 9, self.produce_request(topic, partition, records, acks))
        return int(_check(answer.responses[0].partition_responses[0]).base_offset)

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return log start offset and high watermark."""
        return self._offset(topic, partition, _EARLIEST), self._offset(topic, partition, _LATEST)

    def offset_for_timestamp(self, topic: str, timestamp: int, partition: int = 0) -> int:
        return self._offset(topic, partition, timestamp)

    def _offset(self, topic: str, partition: int, timestamp: int, **fields: Any) -> int:
        wanted = {"partition_index": partition, "timestamp": timestamp}
        answer = self.call(LIST_OFFSETS, 7, fields, replica_id=-1, topics=[{"name": topic, "partitions": [wanted]}])
        return int(_check(answer.topics[0].partitions[0]).offset)

    def fetch(
        self, topic: str, offset: int, partition: int = 0, *, max_bytes: int = 1 << 20, isolation_level: int = 0
    ) -> Struct:
        """Send one Fetch that does not wait; return the partition's answer."""
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        topics = [{"topic": topic, "partitions": [wanted]}]
        answer = self.call(FETCH, 12, max_wait_ms=0, min_bytes=0, isolation_level=isolation_level, topics=topics)
        return _check(answer.responses[0].partitions[0])

    def producers(self, topic: str, partition: int = 0) -> list[Struct]:
        """Return the state of a partition's producers."""
        asked = {"name": topic, "partition_indexes": [partition]}
        [answer] = self.call(DESCRIBE_PRODUCERS, 0, topics=[asked]).topics
        return list(_check(answer.partitions[0]).active_producers)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Raise the log start offset; return the new one."""
        wanted = {"partition_index": partition, "offset": before_offset}
        topics = [{"name": topic, "partitions": [wanted]}]
        [answer] = self.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=30_000).topics
        return int(_check(answer.partitions[0]).low_watermark)

    def read_all(self, topic: str, partition: int = 0) -> list[Record]:
        """Return all records from the log start offset to the high watermark."""
        offset, end = self.bounds(topic, partition)
        found: list[Record] = []
        while offset < end:
            data = bytes(self.fetch(topic, offset, partition).records)
            ends = [header.next_offset for _, header in iter_batches(data)]
            assert ends, f"nothing at {offset} of {topic}-{partition}, which ends at {end}"
            assert ends[-1] > offset
            found += [record for record in iter_records(data) if record.offset >= offset]
            offset = ends[-1]  # a cleaner may have left a batch without its last records
        return found

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """Return the values of `read_all`, whose offsets must have no gap."""
        records = self.read_all(topic, partition)
        if records:
            assert [record.offset for record in records] == list(
                range(records[0].offset, records[0].offset + len(records))
            )
        return [bytes(record.value or b"") for record in records]

    def find_coordinator(self, group: str) -> None:
        """Ask for a group's coordinator, which creates the topic of the groups."""
        _check(self.call(FIND_COORDINATOR, 3, key=group, key_type=0))

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets as a client outside the group."""
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": partition, "committed_offset": offset}],
            }
            for (topic, partition), offset in offsets.items()
        ]
        answer = self.call(OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, topics=topics)
        for topic in answer.topics:
            for partition in topic.partitions:
                _check(partition)

    def committed(self, group: str, topic: str, partitions: Sequence[int] = (0,)) -> list[int]:
        """Return the committed offsets of a group, -1 where there is none."""
        wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": list(partitions)}]}
        [found] = self.call(OFFSET_FETCH, 8, groups=[wanted], require_stable=False).groups
        _check(found)
        return [_check(partition).committed_offset for partition in found.topics[0].partitions]
