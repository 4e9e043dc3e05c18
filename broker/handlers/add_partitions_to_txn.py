"""AddPartitionsToTxn v0-v5: add partitions to a transaction, or verify that they take part in it.

Versions: v2 PRODUCER_FENCED (KIP-588), before INVALID_PRODUCER_EPOCH; v3 flexible; v4 several transactions, and verify
only, between brokers (KIP-890); v5 TRANSACTION_ABORTABLE (KIP-890). Either all partitions of a transaction join or
none. If one does not exist, or belongs to an internal topic, the others are OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import fenced_code_for
from broker.requests.served_api import Reply, handles
from coordinator.shard import Producer
from coordinator.transaction.transaction import NEWER, OLDER, TopicPartition
from metadata.topic_names import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.replicas.partitions import Partitions

FIRST_VERSION_KNOWING_PRODUCER_FENCED = 2
FIRST_VERSION_OF_BROKERS = 4


@handles(ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(
    ctx: RequestContext, request: Struct, *, partitions: Partitions, transactions: TransactionCoordinator
) -> Reply:
    if ctx.api_version >= FIRST_VERSION_OF_BROKERS:
        return _add_to_each(ctx, request, partitions, transactions)
    codes = decide(
        ctx.api_version,
        partitions,
        transactions,
        request.v3_and_below_transactional_id,
        Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        request.v3_and_below_topics,
        verify_only=False,
    )

    def response(codes: Mapping[TopicPartition, ErrorCode]) -> Struct:
        return ADD_PARTITIONS_TO_TXN.response(results_by_topic_v3_and_below=results(request.v3_and_below_topics, codes))

    return transactions.after_commit(
        (request.v3_and_below_transactional_id,),
        response(codes),
        lambda code: response(dict.fromkeys(codes, code)),
    )


def _add_to_each(
    ctx: RequestContext, request: Struct, partitions: Partitions, transactions: TransactionCoordinator
) -> Reply:
    """Answer v4 and later: one answer for many transactions."""
    decided = [
        decide(
            ctx.api_version,
            partitions,
            transactions,
            each.transactional_id,
            Producer(each.producer_id, each.producer_epoch),
            each.topics,
            verify_only=each.verify_only,
        )
        for each in request.transactions
    ]

    def response(decided: Sequence[Mapping[TopicPartition, ErrorCode]]) -> Struct:
        return ADD_PARTITIONS_TO_TXN.response(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id, topic_results=results(each.topics, codes)
                )
                for each, codes in zip(request.transactions, decided, strict=True)
            ]
        )

    def failed(code: ErrorCode) -> Struct:
        return response([dict.fromkeys(codes, code) for codes in decided])

    transactional_ids = [each.transactional_id for each in request.transactions]
    return transactions.after_commit(transactional_ids, response(decided), failed)


def decide(
    version: int,
    partitions: Partitions,
    transactions: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    topics: Sequence[Struct],
    *,
    verify_only: bool,
) -> Mapping[TopicPartition, ErrorCode]:
    """Return the code of each partition."""
    places = frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)
    refused = {place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for place in places if not partitions.is_known(*place)}
    if version < FIRST_VERSION_OF_BROKERS:  # a producer may not write there: AddOffsetsToTxn adds the groups' topic
        refused |= {place: ErrorCode.TOPIC_AUTHORIZATION_FAILED for place in places if place.topic in INTERNAL_TOPICS}
    if refused:
        return {place: refused.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED) for place in places}
    if verify_only:
        return transactions.verify(transactional_id, producer, places)
    client_version = NEWER if version >= FIRST_VERSION_OF_BROKERS else OLDER
    code = transactions.join(transactional_id, producer, places, client_version)
    return dict.fromkeys(places, fenced_code_for(version, FIRST_VERSION_KNOWING_PRODUCER_FENCED, code))


def results(topics: Sequence[Struct], codes: Mapping[TopicPartition, ErrorCode]) -> list[Struct]:
    """Return the codes in the order of the request; one for a topic or partition that is named twice."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(name, index)]
                )
                for index in partitions
            ],
        )
        for name, partitions in indexes.items()
    ]
