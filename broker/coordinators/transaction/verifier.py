"""Verify with the transaction coordinator that partitions take part in a transaction (KIP-890).

A producer may begin its next transaction as soon as EndTxn is answered, while the markers of the last one may still
be missing. So from Produce v12 on CONCURRENT_TRANSACTIONS is not answered at once: the verifier retries for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator.transaction.transaction import NEWER
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from config import BrokerConfig
    from coordinator.shard import Producer
    from coordinator.transaction.transaction import TopicPartition
    from runtime.clock import Clock
    from runtime.timers import Timers

    Codes = Mapping[TopicPartition, ErrorCode]

FIRST_VERSION_THAT_JOINS = 12


class Verdict(NamedTuple):
    """Why a partition rejects a batch."""

    code: ErrorCode
    message: str | None = None


class FirstBatch(NamedTuple):
    """The first batch of a transaction in its partition."""

    place: TopicPartition
    producer: Producer
    sequence: int
    is_known: bool  # whether the log knows the producer
    refused: Verdict | None = None  # the partition's own verdict


class TransactionVerifier(Protocol):
    """The transaction coordinator, as the leader of partitions calls it."""

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Codes | Deferred[Codes]:
        """Return the code of each partition, for batches of one producer.

        With Produce v12 the partitions join the transaction. Earlier versions must have added them before.
        The codes may come later: when the previous transaction has ended and, where flush.messages asks for it,
        when the partitions' membership is on disk.
        """


class CoordinatorVerifier:
    """Asks the transaction coordinator of this process.

    While the previous transaction is being ended it retries every add.partitions.to.txn.retry.backoff.ms. After
    add.partitions.to.txn.retry.backoff.max.ms, or request.timeout.ms, it returns the coordinator's last code.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock, timers: Timers, transactions: TransactionCoordinator
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        self._transactions = transactions

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Codes | Deferred[Codes]:
        """Return the codes, as `TransactionVerifier.verify`."""
        codes = self._ask(transactional_id, batches, api_version)
        patience_ms = self._patience_ms() if _is_too_early(api_version, codes) else 0
        if patience_ms <= 0:
            return self._after_commit(transactional_id, batches, api_version, codes)
        answered: Deferred[Codes] = Deferred()
        self._ask_later(transactional_id, batches, api_version, answered, self._clock.monotonic_ms() + patience_ms)
        return answered

    def _patience_ms(self) -> int:
        get_int = self._config.get_int
        return min(get_int("add.partitions.to.txn.retry.backoff.max.ms"), get_int("request.timeout.ms"))

    def _ask_later(
        self,
        transactional_id: str,
        batches: Sequence[FirstBatch],
        api_version: int,
        answered: Deferred[Codes],
        until_ms: int,
    ) -> None:
        def attempt() -> None:
            try:
                codes = self._ask(transactional_id, batches, api_version)
                if _is_too_early(api_version, codes) and self._clock.monotonic_ms() < until_ms:
                    self._timers.call_later(backoff_ms, attempt)
                    return
                standing = self._after_commit(transactional_id, batches, api_version, codes)
            except Exception as error:
                answered.fail(error)
                return
            if isinstance(standing, Deferred):
                standing.add_done_callback(answered.settle_as)
            else:
                answered.resolve(standing)

        backoff_ms = self._config.get_int("add.partitions.to.txn.retry.backoff.ms")
        self._timers.call_later(backoff_ms, attempt)

    def _after_commit(
        self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int, codes: Codes
    ) -> Codes | Deferred[Codes]:
        """Return the codes, once the state behind them is on disk where that is required."""

        def ask_again() -> Codes:  # another request may have ended the transaction meanwhile
            return self._ask(transactional_id, batches, api_version)

        def refuse(code: ErrorCode) -> Codes:
            return {batch.place: code for batch in batches}

        waiting = self._transactions.once_committed(transactional_id, ask_again, refuse)
        return codes if waiting is None else waiting

    def _ask(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Codes:
        places = frozenset(batch.place for batch in batches)
        producer = batches[0].producer
        if api_version >= FIRST_VERSION_THAT_JOINS:
            return dict.fromkeys(places, self._transactions.join(transactional_id, producer, places, NEWER))
        if not self._config.get_bool("transaction.partition.verification.enable"):
            return {}
        return self._transactions.verify(transactional_id, producer, places)


def _is_too_early(api_version: int, codes: Codes) -> bool:
    """Return whether the previous transaction is still being ended, so that a retry may succeed."""
    return api_version >= FIRST_VERSION_THAT_JOINS and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
