"""Abort transactions that time out: their producers neither commit nor abort them (transaction.timeout.ms)."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.clock import Now
from coordinator.transaction.end_txn import abort_by_coordinator
from coordinator.transaction.shard import TransactionEffects, TransactionShard


def abort_timed_out(
    shard: TransactionShard, new_producer_id: Callable[[], int | None], now: Now, effects: TransactionEffects
) -> list[str]:
    """Abort transactions that are open for longer than their timeouts; return their ids."""
    aborted = []
    for transactional_id in shard.ongoing:
        found = shard.transactions[transactional_id]
        if found.is_timed_out(now) and abort_by_coordinator(shard, found, new_producer_id, now, effects):
            aborted.append(transactional_id)
    return aborted
