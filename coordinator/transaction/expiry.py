"""Transactional ids that nobody uses any more."""

from __future__ import annotations

from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.state import IDLE


def expired_records(shard: TransactionShard, now_ms: int) -> list[TransactionRecord]:
    """Tombstones for the ids without a transaction that have not changed for transactional.id.expiration.ms."""
    before_ms = now_ms - shard.settings.id_expiration_ms
    return [
        TransactionRecord(each.transactional_id, None)
        for each in shard.transactions.values()
        if each.state in IDLE and each.update_ms <= before_ms
    ]
