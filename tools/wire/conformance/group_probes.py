"""Probes of groups and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from protocol.schema import Struct
from tools.wire.conformance.probe import Destination, Probe, one_of
from tools.wire.conformance.stage import Stage

_STRANGER = "AAAAAAAAQACAAAAAAAAAAQ"
_UNKNOWN = one_of(ErrorCode.UNKNOWN_MEMBER_ID)
_NO_GROUP = one_of(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE)
#: Kinds of groups that a feature level of the cluster may disable.
_OPTIONAL = one_of(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_COMMITTED = 0
_OLD_ADD = 3


def _commit(stage: Stage, version: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": _COMMITTED,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    topic = {**stage.topic(version, 10), "partitions": [partition]}
    return {"group_id": stage.name, "generation_id_or_member_epoch": -1, "retention_time_ms": -1, "topics": [topic]}


def _offsets(stage: Stage, version: int) -> dict[str, Any]:
    if version < 8:
        return {"group_id": stage.name, "topics": [{"name": stage.name, "partition_indexes": [0]}]}
    topic = {**stage.topic(version, 10), "partition_indexes": [0]}
    return {"groups": [{"group_id": stage.name, "member_id": None, "member_epoch": -1, "topics": [topic]}]}


def _committed(stage: Stage, version: int, answer: Struct) -> str | None:
    topics = answer.topics if version < 8 else answer.groups[0].topics
    found = topics[0].partitions[0].committed_offset
    return None if found == _COMMITTED else f"the committed offset is {found}, not {_COMMITTED}"


def _coordinator(stage: Stage, version: int) -> dict[str, Any]:
    return {"key": stage.name, "key_type": 0, "coordinator_keys": [stage.name]}


def _found(stage: Stage, version: int, answer: Struct) -> str | None:
    node = answer.coordinators[0] if version >= 4 else answer
    return None if node.node_id >= 0 and node.port > 0 else f"the coordinator is {node.node_id} at port {node.port}"


def _member(stage: Stage, version: int) -> dict[str, Any]:
    return {"group_id": f"{stage.name}-none", "generation_id": 1, "member_id": _STRANGER}


def _sync(stage: Stage, version: int) -> dict[str, Any]:
    return {**_member(stage, version), "protocol_type": "consumer", "protocol_name": "range"}


def _join(stage: Stage, version: int) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b""}]
    times = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
    member = {"group_id": f"{stage.name}-none", "member_id": _STRANGER}
    return {**member, **times, "protocol_type": "consumer", "protocols": protocols}


def _leave(stage: Stage, version: int) -> dict[str, Any]:
    member = {"member_id": _STRANGER, "group_instance_id": None}
    return {"group_id": f"{stage.name}-none", "member_id": _STRANGER, "members": [member]}


def _beat(stage: Stage, version: int) -> dict[str, Any]:
    return {"group_id": f"{stage.name}-none", "member_id": _STRANGER, "member_epoch": 5, "rebalance_timeout_ms": -1}


def _share_beat(stage: Stage, version: int) -> dict[str, Any]:
    return {"group_id": f"{stage.name}-none", "member_id": _STRANGER, "member_epoch": 5}


def _described(field: str) -> Any:
    return lambda stage, version: {field: [f"{stage.name}-none"]}


def _delete_offset(stage: Stage, version: int) -> dict[str, Any]:
    topic = {"name": stage.name, "partitions": [{"partition_index": 0}]}
    return {"group_id": stage.name, "topics": [topic]}


# -- transactions ------------------------------------------------------------------------------------------------------


def _producer(stage: Stage) -> dict[str, Any]:
    producer_id, epoch = stage.producer()
    return {"transactional_id": stage.name, "producer_id": producer_id, "producer_epoch": epoch}


def _add_fields(stage: Stage, producer: Mapping[str, Any]) -> dict[str, Any]:
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return {**old, "v3_and_below_topics": [{"name": stage.name, "partitions": [0]}]}


def _add(stage: Stage, version: int) -> dict[str, Any]:
    return _add_fields(stage, _producer(stage))


def _begun(stage: Stage) -> dict[str, Any]:
    """Begin a transaction that includes the topic; return its producer."""
    producer = _producer(stage)
    version = min(stage.newest(ADD_PARTITIONS_TO_TXN), _OLD_ADD)
    stage.ask(ADD_PARTITIONS_TO_TXN, version, _add_fields(stage, producer), Destination.TRANSACTION)
    return producer


def _end(stage: Stage, version: int) -> dict[str, Any]:
    stage.next_offset += 1  # its marker
    return {**_begun(stage), "committed": False}


def _add_offsets(stage: Stage, version: int) -> dict[str, Any]:
    return {**_producer(stage), "group_id": stage.name}


def _txn_commit(stage: Stage, version: int) -> dict[str, Any]:
    producer = _producer(stage)
    fields = {**producer, "group_id": stage.name}
    stage.ask(ADD_OFFSETS_TO_TXN, stage.newest(ADD_OFFSETS_TO_TXN), fields, Destination.TRANSACTION)
    partition = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    topic = {**stage.topic(version, 6), "partitions": [partition]}
    return {**fields, "generation_id_or_member_epoch": -1, "topics": [topic]}


def _begin(stage: Stage, version: int) -> dict[str, Any]:
    times = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    return {"transactional_id": None, **times}


def _has_id(stage: Stage, version: int, answer: Struct) -> str | None:
    return None if answer.producer_id >= 0 else f"the producer's id is {answer.producer_id}"


PROBES = (
    Probe(ApiKey.FIND_COORDINATOR, _coordinator, check=_found),
    Probe(ApiKey.OFFSET_COMMIT, _commit, destination=Destination.GROUP),
    Probe(ApiKey.OFFSET_FETCH, _offsets, destination=Destination.GROUP, check=_committed),
    Probe(ApiKey.OFFSET_DELETE, _delete_offset, destination=Destination.GROUP),
    Probe(ApiKey.JOIN_GROUP, _join, _UNKNOWN, Destination.GROUP),
    Probe(ApiKey.SYNC_GROUP, _sync, _UNKNOWN, Destination.GROUP),
    Probe(ApiKey.HEARTBEAT, _member, _UNKNOWN, Destination.GROUP),
    Probe(ApiKey.LEAVE_GROUP, _leave, _UNKNOWN, Destination.GROUP),
    Probe(ApiKey.DESCRIBE_GROUPS, _described("groups"), _NO_GROUP, Destination.GROUP),
    Probe(ApiKey.LIST_GROUPS, lambda stage, version: {}),
    Probe(ApiKey.DELETE_GROUPS, _described("groups_names"), _NO_GROUP, Destination.GROUP),
    Probe(ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat, _OPTIONAL, Destination.GROUP),
    Probe(ApiKey.CONSUMER_GROUP_DESCRIBE, _described("group_ids"), _OPTIONAL, Destination.GROUP),
    Probe(ApiKey.SHARE_GROUP_HEARTBEAT, _share_beat, _OPTIONAL, Destination.GROUP),
    Probe(ApiKey.SHARE_GROUP_DESCRIBE, _described("group_ids"), _OPTIONAL, Destination.GROUP),
    Probe(ApiKey.STREAMS_GROUP_DESCRIBE, _described("group_ids"), _OPTIONAL, Destination.GROUP),
    Probe(ApiKey.INIT_PRODUCER_ID, _begin, check=_has_id),
    Probe(ApiKey.ADD_PARTITIONS_TO_TXN, _add, destination=Destination.TRANSACTION, newest=_OLD_ADD),
    Probe(ApiKey.ADD_OFFSETS_TO_TXN, _add_offsets, destination=Destination.TRANSACTION),
    Probe(ApiKey.TXN_OFFSET_COMMIT, _txn_commit, destination=Destination.GROUP),
    Probe(ApiKey.END_TXN, _end, destination=Destination.TRANSACTION),
    Probe(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda stage, version: {"transactional_ids": [f"{stage.name}-none"]},
        one_of(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        Destination.TRANSACTION,
    ),
    Probe(ApiKey.LIST_TRANSACTIONS, lambda stage, version: {"duration_filter": -1}),
)
