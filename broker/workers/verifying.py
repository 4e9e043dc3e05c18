"""The owner's side of verification: a worker asks whether partitions take part in a transaction (KIP-890).

As for its own Produces (broker/coordinators/transaction/verification.py) the owner waits before it answers: a little
while for the transaction before to be ended, and for the disk, where flush.messages asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.coordinators.transaction.verification import FIRST_VERSION_THAT_JOINS, ask, patience_ms
from broker.workers.messages import Verify
from coordinator.transaction.transaction import TopicPartition
from protocol.errors import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.broker import Broker

Codes = Mapping[TopicPartition, ErrorCode]


def verified(broker: Broker, asked: Verify) -> Deferred[Codes]:
    """What the coordinator says of each partition, once its word stands."""
    answered: Deferred[Codes] = Deferred()
    backoff_ms = broker.config.get_int("add.partitions.to.txn.retry.backoff.ms")
    until_ms = broker.clock.monotonic_ms() + patience_ms(broker)

    def decide() -> Codes:
        return ask(broker, asked.transactional_id, list(asked.batches), asked.api_version)

    def refuse(code: ErrorCode) -> Any:
        return {batch.place: code for batch in asked.batches}

    def again() -> Any:
        return decide()  # somebody may have ended the transaction meanwhile

    def attempt() -> None:
        try:
            codes = decide()
            if _is_too_early(asked, codes) and broker.clock.monotonic_ms() < until_ms:
                broker.timers.call_later(backoff_ms, attempt)
                return
            forced: Deferred[Any] | None = broker.transactions.once_forced(asked.transactional_id, again, refuse)
        except Exception as error:
            answered.fail(error)
            return
        if forced is None:
            answered.resolve(codes)
        else:
            forced.add_done_callback(answered.settle_as)

    attempt()
    return answered


def _is_too_early(asked: Verify, codes: Codes) -> bool:
    return asked.api_version >= FIRST_VERSION_THAT_JOINS and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
