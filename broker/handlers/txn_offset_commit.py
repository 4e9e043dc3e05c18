"""TxnOffsetCommit v0-v6: store offsets of a group as part of a transaction (KIP-98).

Versions: v2 leader epochs (KIP-320); v3 flexible, the member and its generation (KIP-447); v4 TRANSACTION_ABORTABLE,
before INVALID_TXN_STATE; v5 adds the group's partition to the transaction (KIP-890); v6 topic ids, and the
error codes of OffsetCommit (KIP-1319).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.coordinators.transaction.verification import is_open
from broker.replicas.partition import Partition
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.shard import GroupEffects
from coordinator.group.txn_offset_commit import check_transactional_commit, commit_in_transaction
from coordinator.shard import Producer
from coordinator.transaction.transaction import NEWER, TopicPartition
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig

FIRST_VERSION_SURE_OF_LOADING = 2
FIRST_VERSION_KNOWING_ABORTABLE = 4
FIRST_VERSION_THAT_JOINS = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6


class Needs(NamedTuple):
    """The services of a commit."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    config: BrokerConfig


@handles(TXN_OFFSET_COMMIT)
def txn_offset_commit(
    ctx: RequestContext,
    request: Struct,
    *,
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    config: BrokerConfig,
    metadata: MetadataCache,
) -> Reply:
    refused = refuse_unknown(metadata.image, request, ctx.api_version >= FIRST_VERSION_WITH_TOPIC_IDS)
    if not request.topics:
        return response(refused)
    return groups.with_topic(lambda: commit(ctx, request, Needs(groups, transactions, config), refused))


def commit(ctx: RequestContext, request: Struct, needs: Needs, refused: list[Struct], *, forced: bool = False) -> Reply:
    """Answer for the topics that exist. `forced`: the join of the group's partition is on disk."""
    groups, transactions, _ = needs

    def refusal(code: ErrorCode) -> Struct:
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < FIRST_VERSION_SURE_OF_LOADING:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # old clients do not know the other code
        return response(refused + [failed(topic, code) for topic in request.topics])

    if not request.group_id:
        return refusal(ErrorCode.INVALID_GROUP_ID)
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return refusal(shard)
    found = groups.log_at(shard.partition)
    if isinstance(found, ErrorCode):
        return refusal(found)
    producer = Producer(request.producer_id, request.producer_epoch)
    if not is_open(found.partition, producer):
        code = verify(ctx.api_version, request, needs, found.partition, producer)
        if code is not ErrorCode.NONE:
            return refusal(code)

        def go_on() -> Reply:
            return commit(ctx, request, needs, refused, forced=True)

        if (
            not forced
            and (waiting := transactions.once_committed(request.transactional_id, go_on, refusal)) is not None
        ):
            return waiting
    code = check_transactional_commit(shard, request, ctx.api_version)
    if code is not ErrorCode.NONE:
        return refusal(code)
    effects: GroupEffects = Effects()
    topics = commit_in_transaction(shard, request, groups.now(), effects)
    code = groups.run(shard, effects)
    if code is not ErrorCode.NONE:
        return refusal(code)
    return groups.after_commit((request.group_id,), response(refused + topics), refusal)


def verify(version: int, request: Struct, needs: Needs, partition: Partition, producer: Producer) -> ErrorCode:
    """Return why the group's partition does not take part in the transaction. From v5 on it joins."""
    transactions, place = needs.transactions, TopicPartition(partition.topic, partition.index)
    if version >= FIRST_VERSION_THAT_JOINS:
        code = transactions.join(request.transactional_id, producer, frozenset({place}), NEWER)
    elif needs.config.get_bool("transaction.partition.verification.enable"):
        code = transactions.verify(request.transactional_id, producer, frozenset({place}))[place]
    else:
        code = ErrorCode.NONE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_KNOWING_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def refuse_unknown(image: MetadataImage, request: Struct, by_id: bool) -> list[Struct]:
    """Remove missing topics and partitions from the request, and return their answers. Completes name and id."""
    refused, known = [], []
    for topic in request.topics:
        found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
        if found is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(failed(topic, code))
            continue
        topic.name, topic.topic_id = found.name, found.topic_id
        strange = [each for each in topic.partitions if each.partition_index not in found.partitions]
        rest = [each for each in topic.partitions if each.partition_index in found.partitions]
        if strange:
            refused.append(failed(new_topic(topic, strange), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if rest:
            known.append(new_topic(topic, rest))
    request.topics = known
    return refused


def new_topic(topic: Struct, partitions: list[Struct]) -> Struct:
    """Return the topic with other partitions."""
    return TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def failed(topic: Struct, code: ErrorCode) -> Struct:
    """Return a topic whose partitions all have the same error."""
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def response(topics: list[Struct]) -> Struct:
    """Return the answer. A topic that was refused in part appears once."""
    merged: dict[tuple[str, bytes], Struct] = {}
    for topic in topics:
        key = topic.name, topic.topic_id
        if key in merged:
            merged[key].partitions += topic.partitions
        else:
            merged[key] = topic
    return TXN_OFFSET_COMMIT.response(topics=list(merged.values()))
