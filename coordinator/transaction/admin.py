"""Requests of administrators: DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from coordinator.transaction.records import by_topic
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import Transaction
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import TopicData
from protocol.messages.describe_transactions import TransactionState as Described
from protocol.messages.list_transactions import TransactionState as Listed
from protocol.schema import Struct


class Filters(msgspec.Struct, frozen=True):
    """The filters of ListTransactions. An empty collection, a negative duration and None match all ids.

    Attributes:
        states: None matches all ids, too. Unknown names alone match none.
        duration_ms: matches transactions that began longer ago; an id without a transaction matches any duration.
        matches: returns whether a transactional id matches.
    """

    states: Collection[TransactionState] | None = None
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    matches: Callable[[str], object] | None = None

    def selects(self, found: Transaction, now_ms: int) -> bool:
        return (
            (not self.producer_ids or found.producer_id in self.producer_ids)
            and (self.states is None or found.state in self.states)
            and (self.duration_ms < 0 or now_ms - found.start_ms > self.duration_ms)
            and (self.matches is None or bool(self.matches(found.transactional_id)))
        )


def list_transactions(shard: TransactionShard, filters: Filters, now_ms: int) -> list[Struct]:
    """Return the shard's ids that match."""
    return [
        Listed(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state.text,
        )
        for each in shard.transactions.values()
        if filters.selects(each, now_ms)
    ]


def describe_transaction(shard: TransactionShard, transactional_id: str) -> Struct:
    """Describe one id with its partitions. Errors: TRANSACTIONAL_ID_NOT_FOUND."""
    found = shard.transactions.get(transactional_id)
    if found is None:
        return Described(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return Described(
        transactional_id=transactional_id,
        transaction_state=found.state.text,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic(found.partitions).items()],
    )
