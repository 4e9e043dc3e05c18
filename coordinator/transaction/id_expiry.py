"""Expiry of transactional ids that are no longer used."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.state import IDLE


def expired_records(shard: TransactionShard, now_ms: int) -> Iterator[list[TransactionRecord]]:
    """Yield tombstones for ids without a transaction that have not changed for transactional.id.expiration.ms.

    A step is one id, since there may be many. Its tombstones are valid until something else is written. Other requests
    may be served between two steps.
    """
    before_ms = now_ms - shard.settings.id_expiration_ms
    for transactional_id in list(shard.transactions):
        found = shard.transactions.get(transactional_id)
        is_expired = found is not None and found.state in IDLE and found.update_ms <= before_ms
        yield [TransactionRecord(transactional_id, None)] if is_expired else []
