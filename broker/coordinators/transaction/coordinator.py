"""The transaction coordinator of this broker, for its handlers and its timers.

It runs the pure decisions of `coordinator.transaction` on `__transaction_state` (broker/coordinators/runtime.py). A
decision is first written and answered. In a later turn of the loop the coordinator writes its markers into the
partitions, and then records that the transaction is complete. The state includes decided transactions that are not
complete. After a restart the coordinator writes all of their markers again: a second marker changes nothing.

Where flush.messages asks for it, each step is on disk before the next one begins: the partitions of the transaction,
their records, the decision, all markers, the completion. So a power loss leaves the same state as a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.expiry_runner import Expiry
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard_log import ShardLog
from broker.coordinators.transaction.ending import Ending
from broker.coordinators.transaction.markers import Marker, MarkerWriter
from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.shard import Producer
from coordinator.transaction.add_partitions import add_partitions, verify_partitions
from coordinator.transaction.end_txn import complete
from coordinator.transaction.id_expiry import expired_records
from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.state import TransactionState
from coordinator.transaction.timeout import abort_timed_out
from coordinator.transaction.transaction import TopicPartition, Transaction
from metadata.features import TRANSACTION_VERSION
from metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.error_codes import ErrorCode
from protocol.records.compression import Codec

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from config import BrokerConfig

log = logging.getLogger(__name__)

TransactionLog = ShardLog[TransactionShard, TransactionRecord]


def read_settings(config: BrokerConfig) -> TransactionSettings:
    """Return the settings of the transaction coordinator from the broker's configuration."""
    return TransactionSettings(
        max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
    )


class TransactionCoordinator(CoordinatorRuntime[TransactionShard, TransactionRecord, str]):
    """The coordinator. `at(transactional_id)` returns the shard to decide on, `run` carries a decision out."""

    def __init__(
        self,
        environment: CoordinatorEnvironment,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
    ) -> None:
        config = environment.config
        super().__init__(
            environment,
            TRANSACTION_STATE,
            noun="transactional id",
            codec=Codec.NONE,
            load_buffer_bytes=config.get_int("transaction.state.log.load.buffer.size"),
            write_timeout_ms=config.get_int("request.timeout.ms"),
        )
        self.settings = read_settings(config)
        self._groups = groups
        self._producer_ids = producer_ids
        self._markers = markers
        #: Decided transactions whose markers are being written, by partition and transactional id.
        self._ending: dict[tuple[int, str], Ending] = {}
        #: Partitions in which this turn of the loop decided a transaction.
        self._decided: set[int] = set()

    def start(self) -> None:
        super().start()
        self._groups.on_load(self._groups_loaded)
        config = self._environment.config
        self.repeat(
            config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"), self._abort_timed_out
        )
        self.repeat(config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"), self._remove_expired)

    def level(self) -> int:
        """Return the transaction.version in force."""
        return self._environment.metadata.image.features.get(TRANSACTION_VERSION, 0)

    # -- callbacks of the runtime -----------------------------------------------------------------------------------

    def new_shard(self, index: int) -> TransactionShard:
        return TransactionShard(index, self.settings, self.level)

    def on_loaded(self, shard: TransactionShard, now: Now, effects: TransactionEffects) -> None:
        if shard.prepared:
            log.info("Ending %d transactions of %s-%d again", len(shard.prepared), self.topic, shard.partition)

    def on_deadline(self, key: str, now: Now) -> None:
        """Do nothing: a periodic scan finds transactions that time out, as in Kafka."""

    def on_unload(self, shard: TransactionShard, now: Now, effects: TransactionEffects) -> None:
        for transactional_id in shard.prepared:
            ending = self._ending.pop((shard.partition, transactional_id), None)
            if ending is not None:
                ending.cancel()

    def run(self, shard: TransactionShard, effects: TransactionEffects) -> ErrorCode:
        code = super().run(shard, effects)
        if shard.prepared and not self._stopped:
            if not self._decided:
                self._environment.loop.call_soon(self._end_decided)
            self._decided.add(shard.partition)
        return code

    # -- adding partitions ------------------------------------------------------------------------------------------

    def join(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], client_version: int
    ) -> ErrorCode:
        """Add partitions to a transaction; errors as for `at`, `add_partitions` and of the log."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self.at(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        effects: TransactionEffects = Effects()
        code = add_partitions(shard, transactional_id, producer, partitions, client_version, self.now(), effects)
        return (self.run(shard, effects) if effects.writes else ErrorCode.NONE) or code

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check that partitions take part in a transaction; errors as for `at` and `verify_partitions`."""
        shard = self.at(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(partitions, shard)
        return verify_partitions(shard, transactional_id, producer, partitions)

    # -- markers ----------------------------------------------------------------------------------------------------

    def _end_decided(self) -> None:
        """Begin to write the markers of transactions that were decided in this turn."""
        decided, self._decided = self._decided, set()
        for index in decided:
            found = self._logs.get(index)
            if found is not None and found.loaded:
                for transactional_id in self._not_begun(found.shard):
                    self._end(found, found.shard.transactions[transactional_id])

    def _not_begun(self, shard: TransactionShard) -> list[str]:
        """Return the ids whose markers are not being written yet: the last ones of `prepared`, oldest first."""
        ids = takewhile(lambda each: (shard.partition, each) not in self._ending, reversed(shard.prepared))
        return list(ids)[::-1]

    def _end(self, found: TransactionLog, transaction: Transaction) -> None:
        marker = Marker(
            Producer(transaction.producer_id, transaction.producer_epoch),
            transaction.state is TransactionState.PREPARE_COMMIT,
            found.partition.leader_epoch,
            transaction.client_version,
        )
        key = found.shard.partition, transaction.transactional_id
        ending = self._ending[key] = Ending(
            self._environment.timers,
            self._markers,
            transaction.transactional_id,
            marker,
            transaction.partitions,
            lambda: self._environment.durability.relied_on(found.partition),
            lambda: self._complete(found, *key),
        )
        ending.begin()

    def _complete(self, found: TransactionLog, partition: int, transactional_id: str) -> None:
        """Record that all markers of a transaction are written."""
        effects: TransactionEffects = Effects()
        complete(found.shard, transactional_id, self.now(), effects)
        ending = self._ending.pop((partition, transactional_id))
        if self.run(found.shard, effects) is not ErrorCode.NONE:
            self._ending[partition, transactional_id] = ending
            ending.again()

    def _groups_loaded(self, partition: int) -> None:
        """Write the markers that wait for a partition of `__consumer_offsets`, which is loaded now."""
        self.retry_markers(lambda place: place == (CONSUMER_OFFSETS, partition))

    def retry_markers(self, is_ready: Callable[[TopicPartition], bool]) -> None:
        """Write the markers that wait for partitions that are ready now."""
        for ending in list(self._ending.values()):
            ending.write_if_waiting(is_ready)

    # -- time -------------------------------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        now = self.now()
        for found in self.loaded_logs():
            effects: TransactionEffects = Effects()
            for transactional_id in abort_timed_out(found.shard, self._new_producer_id, now, effects):
                effects.note("The transaction of %s is aborted: it was open for too long", transactional_id)
            if effects.writes:
                self.run(found.shard, effects)

    def _new_producer_id(self) -> int | None:
        """Return a producer id; None if none is available yet, and then request a block."""
        if self._producer_ids.available:
            return self._producer_ids.next()
        self._producer_ids.replenish()
        return None

    def _remove_expired(self) -> None:
        """Remove the ids that were not used for transactional.id.expiration.ms."""
        now_ms = self._environment.clock.now_ms()
        walks = ((found, expired_records(found.shard, now_ms)) for found in self.loaded_logs())
        Expiry(self._environment.loop, self._remove, walks).go_on()

    def _remove(self, found: TransactionLog, records: Sequence[TransactionRecord]) -> None:
        if found in self.loaded_logs() and self.run_records(found, records) is ErrorCode.NONE:
            log.info("Removed %d expired transactional ids from %s", len(records), found.partition)
