"""A transaction coordinator without a broker: its log is a list, and a test writes the markers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.shard import Producer
from coordinator.transaction.add_partitions import add_partitions, verify_partitions
from coordinator.transaction.end_txn import EndTxnResult, complete, end_transaction
from coordinator.transaction.id_expiry import expired_records
from coordinator.transaction.init_producer_id import InitProducerIdResult, init_producer
from coordinator.transaction.records import TransactionRecord, parse_record
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.timeout import abort_timed_out
from coordinator.transaction.transaction import NEWER, TopicPartition, Transaction
from protocol.error_codes import ErrorCode
from protocol.records.batch import NO_PRODUCER_EPOCH

ID = "tx"


def places(*names: str) -> frozenset[TopicPartition]:
    """Return partitions from names like "t-0"."""
    return frozenset(TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names)


def as_stored(transaction: Transaction) -> Transaction:
    """Return a transaction without the fields that records lack."""
    return replace(transaction, last_producer_epoch=NO_PRODUCER_EPOCH)


@dataclass
class TransactionHarness:
    """A shard with its log and clock. `level`: the transaction.version in force."""

    level: int = 2
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    wall_ms: int = 1_700_000_000_000
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    failure: ErrorCode = ErrorCode.NONE
    """The error of the next writes."""
    first_producer_id: int = 1_000

    def __post_init__(self) -> None:
        self.shard = self.empty_shard()
        ids = count(self.first_producer_id)
        self.new_producer_id = lambda: next(ids)

    def empty_shard(self) -> TransactionShard:
        return TransactionShard(0, self.settings, lambda: self.level)

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, 0.0)

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self.shard.transactions[transactional_id]

    def write(self, records: Sequence[TransactionRecord], producer: Producer | None = None) -> ErrorCode:
        """Append and replay, or fail as ordered."""
        assert producer is None
        if self.failure is not ErrorCode.NONE:
            return self.failure
        for record in records:
            self.log.append((record.key, record.value))
            self.shard.replay(record, len(self.log) - 1)
        return ErrorCode.NONE

    def run(self, decide: Callable[[TransactionEffects], None]) -> ErrorCode:
        effects: TransactionEffects = Effects()
        decide(effects)
        return carry_out(effects, self.write)

    def loaded(self) -> TransactionShard:
        """Return the shard that a restart loads."""
        shard = self.empty_shard()
        for offset, (key, value) in enumerate(self.log):
            shard.replay(parse_record(key, value), offset)
        return shard

    # -- requests ---------------------------------------------------------------------------------------------------

    def init(
        self, transactional_id: str = ID, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000
    ) -> InitProducerIdResult:
        """Send an InitProducerId; `expected` is the producer's id and epoch."""
        effects: TransactionEffects = Effects()
        producer = None if expected is None else Producer(*expected)
        given = init_producer(
            self.shard, transactional_id, timeout_ms, producer, self.new_producer_id, self.now, effects
        )
        code = carry_out(effects, self.write)
        return given if code is ErrorCode.NONE else InitProducerIdResult(code)

    def add(
        self,
        producer: tuple[int, int],
        *names: str,
        transactional_id: str = ID,
        client_version: int = NEWER,
    ) -> ErrorCode:
        """Send an AddPartitionsToTxn, or do the same as Produce v12."""
        effects: TransactionEffects = Effects()
        code = add_partitions(
            self.shard, transactional_id, Producer(*producer), places(*names), client_version, self.now, effects
        )
        return carry_out(effects, self.write) or code

    def verify(self, producer: tuple[int, int], *names: str, transactional_id: str = ID) -> list[ErrorCode]:
        """Send an AddPartitionsToTxn that only verifies; return the codes in the order of the names."""
        found = verify_partitions(self.shard, transactional_id, Producer(*producer), places(*names))
        return [found[place] for name in names for place in places(name)]

    def end(
        self,
        producer: tuple[int, int],
        commit: bool,
        *,
        transactional_id: str = ID,
        client_version: int = NEWER,
    ) -> EndTxnResult:
        """Send an EndTxn; this does not write the markers."""
        effects: TransactionEffects = Effects()
        ended = end_transaction(
            self.shard,
            transactional_id,
            Producer(*producer),
            commit,
            client_version,
            self.new_producer_id,
            self.now,
            effects,
        )
        code = carry_out(effects, self.write)
        return ended if code is ErrorCode.NONE else EndTxnResult(code)

    def write_markers(self) -> None:
        """Write all decided markers to all partitions."""
        for transactional_id in list(self.shard.prepared):
            self.run(lambda effects, each=transactional_id: complete(self.shard, each, self.now, effects))  # type: ignore[misc]

    # -- time -------------------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> list[str]:
        effects: TransactionEffects = Effects()
        aborted = abort_timed_out(self.shard, self.new_producer_id, self.now, effects)
        carry_out(effects, self.write)
        return aborted

    def remove_expired(self) -> list[str]:
        records = [*chain.from_iterable(expired_records(self.shard, self.wall_ms))]
        self.write(records)
        return [record.transactional_id for record in records]
