"""Probes of records, topics and metadata."""

from __future__ import annotations

from typing import Any

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.records.batch import entry_at
from protocol.records.entries import iter_records
from protocol.schema import Struct
from tools.wire.conformance.probe import Destination, Probe, one_of
from tools.wire.conformance.stage import Stage

TOPIC = 2  # a type of resource
_LATEST = -1


def _produce(stage: Stage, version: int) -> dict[str, Any]:
    data = [{"index": 0, "records": stage.batch()}]
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": [{**stage.topic(version, 13), "partition_data": data}]}


def _produced(stage: Stage, version: int, answer: Struct) -> str | None:
    offset, due = answer.responses[0].partition_responses[0].base_offset, stage.next_offset
    stage.next_offset = offset + 1
    return None if offset == due else f"the record has offset {offset}, not {due}"


def _fetch(stage: Stage, version: int) -> dict[str, Any]:
    if not stage.next_offset:
        stage.write()
    partition = {
        "partition": 0,
        "fetch_offset": stage.next_offset - 1,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    topic = {**stage.topic(version, 13, "topic"), "partitions": [partition]}
    sizes = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20}
    return {**sizes, "replica_id": -1, "session_epoch": -1, "topics": [topic]}


def _fetched(stage: Stage, version: int, answer: Struct) -> str | None:
    (partition,) = answer.responses[0].partitions
    due = stage.next_offset - 1
    if partition.high_watermark != stage.next_offset:
        return f"the high watermark is {partition.high_watermark}, not {stage.next_offset}"
    view = memoryview(partition.records or b"")
    entry = entry_at(view, 0)
    found = [(each.offset, each.value) for each in iter_records(view[: entry[1]])] if entry is not None else []
    return None if found == [(due, str(due).encode())] else f"the record at {due} comes back as {found}"


def _offsets(stage: Stage, version: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": _LATEST}
    return {"replica_id": -1, "topics": [{"name": stage.name, "partitions": [partition]}], "timeout_ms": 30_000}


def _latest(stage: Stage, version: int, answer: Struct) -> str | None:
    found = answer.topics[0].partitions[0].offset
    return None if found == stage.next_offset else f"the latest offset is {found}, not {stage.next_offset}"


def _metadata(stage: Stage, version: int) -> dict[str, Any]:
    return {"topics": [{"name": stage.name}], "allow_auto_topic_creation": False}


def _described(stage: Stage, version: int, answer: Struct) -> str | None:
    (topic,) = answer.topics
    if topic.name != stage.name or len(topic.partitions) != 1:
        return f"the topic is {topic.name} with {len(topic.partitions)} partitions"
    return None if answer.brokers else "there are no brokers"


def _epoch(stage: Stage, version: int) -> dict[str, Any]:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -2, "topics": [{"topic": stage.name, "partitions": [partition]}]}


def _delete_records(stage: Stage, version: int) -> dict[str, Any]:
    topic = {"name": stage.name, "partitions": [{"partition_index": 0, "offset": 0}]}
    return {"topics": [topic], "timeout_ms": 30_000}


def _create(stage: Stage, version: int) -> dict[str, Any]:
    topic = {"name": f"{stage.name}-{version}", "num_partitions": 1, "replication_factor": 1}
    return {"topics": [topic], "timeout_ms": 30_000, "validate_only": True}


def _delete_nothing(stage: Stage, version: int) -> dict[str, Any]:
    name = f"{stage.name}-none"
    return {"topics": [{"name": name}], "topic_names": [name], "timeout_ms": 30_000}


def _grow(stage: Stage, version: int) -> dict[str, Any]:
    topic = {"name": stage.name, "count": 2, "assignments": None}
    return {"topics": [topic], "timeout_ms": 30_000, "validate_only": True}


def _describe_topic(stage: Stage, version: int) -> dict[str, Any]:
    return {"topics": [{"name": stage.name}], "response_partition_limit": 100, "cursor": None}


PROBES = (
    Probe(ApiKey.PRODUCE, _produce, destination=Destination.LEADER, check=_produced),
    Probe(ApiKey.FETCH, _fetch, destination=Destination.LEADER, check=_fetched),
    Probe(ApiKey.LIST_OFFSETS, _offsets, destination=Destination.LEADER, check=_latest),
    Probe(ApiKey.METADATA, _metadata, check=_described),
    Probe(ApiKey.OFFSET_FOR_LEADER_EPOCH, _epoch, destination=Destination.LEADER),
    Probe(ApiKey.DELETE_RECORDS, _delete_records, destination=Destination.LEADER),
    Probe(ApiKey.CREATE_TOPICS, _create),
    Probe(ApiKey.DELETE_TOPICS, _delete_nothing, one_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    Probe(ApiKey.CREATE_PARTITIONS, _grow),
    Probe(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _describe_topic),
    Probe(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda stage, version: {"topics": [{"name": stage.name, "partition_indexes": [0]}]},
        destination=Destination.LEADER,
    ),
)
