"""The transaction coordinator of this broker, as its handlers and its timers see it.

It runs the pure decisions of `coordinator.transaction` on `__transaction_state` (broker/coordinators/runtime.py). Once
a decision is written, and answered, its markers are written into the partitions in a later turn of the loop, and then
that it is complete. What is decided but not complete is part of the state: so a restart goes on with it, and writes
all of its markers again, which changes nothing where they are there already.

Where flush.messages asks for it each step is on the disk before the next one is taken: that partitions take part,
their records, the decision, all markers, that it is complete. So a power loss finds what a crash would find.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.expiry import Expiry
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard_log import ShardLog
from broker.coordinators.transaction.ending import Ending
from broker.coordinators.transaction.markers import Marker, MarkerWriter
from broker.process.placement import worker_of
from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.shard import Producer
from coordinator.transaction.add_partitions import add_partitions, verify_partitions
from coordinator.transaction.end_txn import abort_timed_out, complete
from coordinator.transaction.expiry import expired_records
from coordinator.transaction.records import TransactionRecord
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import TopicPartition, Transaction
from metadata.features import TRANSACTION_VERSION
from metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.errors import ErrorCode
from protocol.records.compression import Codec

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from config import BrokerConfig

log = logging.getLogger(__name__)

TransactionLog = ShardLog[TransactionShard, TransactionRecord]


def read_settings(config: BrokerConfig) -> TransactionSettings:
    """The settings of the transaction coordinator out of the broker's."""
    return TransactionSettings(
        max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
    )


class TransactionCoordinator(CoordinatorRuntime[TransactionShard, TransactionRecord, str]):
    """The coordinator. `at(transactional_id)` gives the shard to decide on, `run` carries a decision out."""

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
        #: Decided transactions whose markers are on the way, by partition and transactional id.
        self._ending: dict[tuple[int, str], Ending] = {}
        #: Partitions in which something was decided in this turn.
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
        """The transaction.version in force."""
        return self._environment.metadata.image.features.get(TRANSACTION_VERSION, 0)

    # -- what the runtime asks for ----------------------------------------------------------------------------------

    def new_shard(self, index: int) -> TransactionShard:
        return TransactionShard(index, self.settings, self.level)

    def on_loaded(self, shard: TransactionShard, now: Now, effects: TransactionEffects) -> None:
        if shard.prepared:
            log.info("Ending %d transactions of %s-%d again", len(shard.prepared), self.topic, shard.partition)

    def on_deadline(self, key: str, now: Now) -> None:
        """None are set: transactions time out by a look at all of them, as in Kafka."""

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

    # -- partitions that join ---------------------------------------------------------------------------------------

    def join(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], client_version: int
    ) -> ErrorCode:
        """Have partitions take part in a transaction; errors as of `at` and `add_partitions`, and of the log."""
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
        """Whether partitions take part; errors as of `at` and `verify_partitions`."""
        shard = self.at(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(partitions, shard)
        return verify_partitions(shard, transactional_id, producer, partitions)

    # -- markers ----------------------------------------------------------------------------------------------------

    def _end_decided(self) -> None:
        """Begin to write the markers of what was decided."""
        decided, self._decided = self._decided, set()
        for index in decided:
            found = self._logs.get(index)
            if found is not None and found.loaded:
                for transactional_id in self._not_begun(found.shard):
                    self._end(found, found.shard.transactions[transactional_id])

    def _not_begun(self, shard: TransactionShard) -> list[str]:
        """Ids whose markers nobody writes yet: the last ones of `prepared`, oldest first."""
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
            lambda: self._environment.background.forced(found.partition.log),
            lambda: self._complete(found, *key),
        )
        ending.begin()

    def _complete(self, found: TransactionLog, partition: int, transactional_id: str) -> None:
        """All markers are written."""
        effects: TransactionEffects = Effects()
        complete(found.shard, transactional_id, self.now(), effects)
        ending = self._ending.pop((partition, transactional_id))
        if self.run(found.shard, effects) is not ErrorCode.NONE:
            self._ending[partition, transactional_id] = ending
            ending.again()

    def _groups_loaded(self, partition: int) -> None:
        """A partition of groups can take the markers that wait for it."""
        self._hurry(lambda place: place == (CONSUMER_OFFSETS, partition))

    def worker_is_back(self, worker: int) -> None:
        """Its partitions can take the markers that wait for it."""
        count = self._environment.config.num_workers
        self._hurry(lambda place: worker_of(*place, count) == worker)

    def _hurry(self, is_ready: Callable[[TopicPartition], bool]) -> None:
        for ending in list(self._ending.values()):
            ending.hurry(is_ready)

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
        """An id, if there is one; else there will be the next time."""
        if self._producer_ids.available:
            return self._producer_ids.next()
        self._producer_ids.replenish()
        return None

    def _remove_expired(self) -> None:
        """Remove the ids that nobody has used for transactional.id.expiration.ms."""
        now_ms = self._environment.clock.now_ms()
        walks = ((found, expired_records(found.shard, now_ms)) for found in self.loaded_logs())
        Expiry(self._environment.loop, self._remove, walks).go_on()

    def _remove(self, found: TransactionLog, records: Sequence[TransactionRecord]) -> None:
        if found in self.loaded_logs() and self.run_records(found, records) is ErrorCode.NONE:
            log.info("Removed %d expired transactional ids from %s", len(records), found.partition)
