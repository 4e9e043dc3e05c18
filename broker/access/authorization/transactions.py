"""Rules of APIs about transactions that need more than a table row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.access.authorization.rule import (
    Handle,
    each,
    one,
    split,
    then,
    to_named,
    to_topic,
    together,
)
from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from protocol.schema import Struct
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

_ID = ResourceType.TRANSACTIONAL_ID
_write_id = one(Operation.WRITE, _ID, "transactional_id")
_write_id_in_two_phases = together(_write_id, one(Operation.TWO_PHASE_COMMIT, _ID, "transactional_id"))
_describe_each = each("transactional_ids", to_named(Operation.DESCRIBE, _ID))
_FIRST_VERSION_OF_BROKERS = 4


def init_producer_id(access: Access, request: Struct, handle: Handle) -> Reply:
    """WRITE on the transactional id, and TWO_PHASE_COMMIT if requested (KIP-939).

    Without an id: IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679).
    """
    if request.transactional_id is not None:
        return (_write_id_in_two_phases if request.enable2_pc else _write_id)(access, request, handle)
    if access.may_cluster(Operation.IDEMPOTENT_WRITE, log_if_denied=False) or access.may_to_any(
        Operation.WRITE, ResourceType.TOPIC
    ):
        return handle(request)
    return access.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def add_partitions(access: Access, request: Struct, handle: Handle) -> Reply:
    """CLUSTER_ACTION from v4 on, for brokers. Before v4, WRITE on the transactional id and on all topics."""
    if access.version >= _FIRST_VERSION_OF_BROKERS:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return handle(request)
        return access.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not access.may(Operation.WRITE, _ID, request.v3_and_below_transactional_id):
        return _added(topics, lambda *_: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    _, refused = split(access, topics, to_topic(Operation.WRITE))
    if not refused:
        return handle(request)
    codes = {topic.name: code for code, topics in refused.items() for topic in topics}

    def code_of(name: str, index: int) -> ErrorCode:
        there = access.has_partition(name, index)
        return codes.get(name) or (ErrorCode.OPERATION_NOT_ATTEMPTED if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return _added(topics, code_of)


def _added(topics: Iterable[Struct], code_of: Callable[[str, int], ErrorCode]) -> Struct:
    """Return the answer if no partition is added, with the error of each."""
    return ADD_PARTITIONS_TO_TXN.response(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code_of(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def describe_transactions(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each transactional id; the answer has the topics that may be described."""

    def shorten(reply: Struct) -> Struct:
        for state in reply.transaction_states:
            state.topics, _ = split(access, state.topics, to_topic(Operation.DESCRIBE), log_if_denied=False)
        return reply

    return _describe_each(access, request, lambda allowed: then(handle(allowed), shorten))
