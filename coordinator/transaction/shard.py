"""The state of one partition of `__transaction_state`: transactional ids.

Only `replay` changes stored state, both for records just written and for records that are loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from coordinator.effects import Effects
from coordinator.shard import no_skim, pack_none
from coordinator.transaction.records import TransactionRecord, parse_record
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.state import PREPARED, TransactionState
from coordinator.transaction.transaction import Transaction
from protocol.records.batch import NO_PRODUCER_ID

TransactionEffects: TypeAlias = Effects[TransactionRecord]


class TransactionShard:
    """The transactional ids that hash to one partition.

    `ongoing` and `prepared` are the ids of `transactions` that need attention: they may time out, or wait for their
    markers. `level` returns the transaction.version in force.
    """

    __slots__ = ("level", "ongoing", "partition", "prepared", "settings", "transactions", "unknown_records")

    def __init__(self, partition: int, settings: TransactionSettings, level: Callable[[], int]) -> None:
        self.partition = partition
        self.settings = settings
        self.level = level
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        self.prepared: dict[str, None] = {}
        self.unknown_records: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.transactions)

    skim = staticmethod(no_skim)
    pack = staticmethod(pack_none)

    def parse(self, key: bytes | None, value: bytes | None) -> TransactionRecord:
        """Parse a record. Raises UnknownRecord."""
        return parse_record(key, value)

    def replay_all(self, records: Sequence[TransactionRecord], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply records with consecutive offsets, from `offset` on."""
        for place, record in enumerate(records, offset):
            self.replay(record, place, producer_id)

    def replay(self, record: TransactionRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log."""
        transactional_id, transaction = record.transactional_id, record.transaction
        self.ongoing.pop(transactional_id, None)
        self.prepared.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None
        elif transaction.state in PREPARED:
            self.prepared[transactional_id] = None

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Do nothing: no record here is part of a transaction."""

    def write(self, transaction: Transaction, effects: TransactionEffects) -> None:
        """Write a state, in the record version in force."""
        effects.write([TransactionRecord(transaction.transactional_id, transaction, min(self.level(), 1))])
