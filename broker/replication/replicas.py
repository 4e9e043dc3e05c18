"""The replicas of this broker in partitions that have others: led, followed, or gone. Kafka's ReplicaManager.

`replication/roles.py` says what a change of the metadata asks for. A led partition is in the registry of partitions; a
followed one has a log and a fetcher, and clients of it get NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.replicas.partition import OfflineLog
from broker.replicas.partitions import INTERNAL_TOPICS, Partitions
from broker.replication.commits import Commits
from broker.replication.counts import ReplicationCounts
from broker.replication.followed_log import LocalFollowedLog
from broker.replication.followed_partition import FollowedPartition
from broker.replication.leader_fetchers import LeaderFetchers
from broker.replication.leadership_moves import LeadershipMoves
from broker.replication.replicated_partition import ReplicatedPartition
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from protocol.error_codes import ErrorCode
from replication.isr_changes import Answer
from replication.leading import Brokers, Proposal
from replication.partition_key import PartitionKey
from replication.roles import Action, change_of
from runtime.clock import Clock
from runtime.timers import Timers
from storage.errors import LogOffline
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

log = logging.getLogger(__name__)


class Replicas:
    """All partitions with several replicas of which this broker has one.

    Args:
        brokers: the registered brokers, by the metadata.
        wake: called with a partition whose records or role changed (`Purgatory.check_soon`).
        propose: asks the controller for an ISR.
        max_lag_ms: replica.lag.time.max.ms.
        on_led: called with a partition that this broker leads from now on.
        on_resigned: called with a partition that this broker no longer leads.
    """

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        partitions: Partitions,
        fetchers: LeaderFetchers,
        brokers: Brokers,
        clock: Clock,
        timers: Timers,
        *,
        wake: Callable[[Partition], None],
        propose: Callable[[PartitionKey, Proposal], None],
        max_lag_ms: int,
        on_led: Callable[[Partition], None] = lambda partition: None,
        on_resigned: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._partitions = partitions
        self._fetchers = fetchers
        self._brokers = brokers
        self._clock = clock
        self._timers = timers
        self._wake = wake
        self._propose = propose
        self._max_lag_ms = max_lag_ms
        self._on_led = on_led
        self._on_resigned = on_resigned
        self.counts = ReplicationCounts()
        self.moves = LeadershipMoves(node_id)
        self._known: dict[PartitionKey, PartitionRegistration] = {}
        self._names: dict[PartitionKey, str] = {}
        self.led: dict[PartitionKey, ReplicatedPartition] = {}
        self.followed: dict[PartitionKey, FollowedPartition] = {}
        logs.on_start_raised = self._log_start_raised

    # -- changes of the metadata -------------------------------------------------------------------------------------

    def apply(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        registration: PartitionRegistration,
        config: LogConfig,
        *,
        is_new: bool = True,
    ) -> LogDirectory | None:
        """Do what the registration asks of this broker. Return the directory of its log, None if it has none.

        `is_new`: a log that is missing may be created in any directory that works.
        """
        key = topic_id, index
        known = self._known.get(key)
        change = change_of(known, registration, self._node_id)
        if change.action is not Action.NOTHING:
            self.moves.note(topic, index, known, registration)
        if self._node_id not in registration.replicas:
            if change.action is Action.REMOVE or self._partitions.get_by_id(topic_id, index) is not None:
                self._names[key] = topic
                self._remove(key)
            self._partitions.note_remote(topic, topic_id, index)
            return None
        if change.action in (Action.LEAD, Action.FOLLOW, Action.UPDATE):
            self._known[key], self._names[key] = registration, topic
        try:
            if change.action is Action.LEAD:
                self._lead(key, registration, config, is_new)
            elif change.action is Action.FOLLOW:
                self._follow(key, registration, config, is_new)
            elif key in self.led:
                self.led[key].change(registration)
            elif key in self.followed:
                self.followed[key].follow(registration)
        except LogOffline as error:
            log.error("The replica of %s-%d is offline: %s", topic, index, error)
            self._stop(key)
            offline = self._logs.logs.get((topic, index))
            return None if offline is None else offline.directory
        found = self._log_of(key)
        return None if found is None else found.directory

    def knows(self, key: PartitionKey) -> bool:
        """Return whether this broker has a replica of a partition that has, or once had, others."""
        return key in self._known

    def unavailable(self) -> list[PartitionKey]:
        """Return the replicas of this broker that are neither led nor followed: their logs are offline."""
        return [key for key in self._known if key not in self.led and key not in self.followed]

    def delete(self, topic_id: bytes) -> None:
        """Remove the replicas of a deleted topic, which the registry of partitions has no longer."""
        for key in [each for each in self._known if each[0] == topic_id]:
            self._fetchers.stop(key)
            if (led := self.led.pop(key, None)) is not None:
                self._on_resigned(led)
            self._end_following(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._delete_log(key)

    def configure(self, topic_id: bytes, config: LogConfig) -> None:
        """Apply a topic's configuration to the replicas that are followed; the registry has those that are led."""
        for key, followed in self.followed.items():
            if key[0] == topic_id:
                followed.log_config = config

    def take_offline(self, directory: LogDirectory) -> None:
        """Follow the partitions of a failed directory no longer: they leave the ISR, and readers get an error."""
        for key, followed in self.followed.items():
            found = followed.open_log
            if found is not None and found.directory is directory:
                self._fetchers.stop(key)
                reason = LogOffline(found.path, directory.failure or "")
                followed.set_offline(OfflineLog(followed.topic, key[1], key[0], found.config, reason))

    # -- roles -------------------------------------------------------------------------------------------------------

    def _lead(self, key: PartitionKey, registration: PartitionRegistration, config: LogConfig, is_new: bool) -> None:
        self._fetchers.stop(key)
        self._end_following(key)
        led = self.led.get(key)
        if led is not None:
            led.lead_again(registration)
            return
        topic = self._names[key]
        before = self._partitions.get(topic, key[1])
        found = self._open(key, config, is_new)
        partition = self.led[key] = ReplicatedPartition(
            found,
            registration,
            node_id=self._node_id,
            brokers=self._brokers,
            commits=Commits(self._timers),
            clock=self._clock,
            max_lag_ms=self._max_lag_ms,
            internal=topic in INTERNAL_TOPICS,
            wake=self._wake,
            propose=self._propose,
            counts=self.counts,
        )
        self._partitions.add(partition)
        if before is not None:  # it was the only replica
            before.leave(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._on_resigned(before)
        self._on_led(partition)

    def _follow(self, key: PartitionKey, registration: PartitionRegistration, config: LogConfig, is_new: bool) -> None:
        self._resign(key)
        partition = self.followed.get(key)
        if partition is None:
            found = self._open(key, config, is_new)
            followed = LocalFollowedLog(found, self._logs.checkpoints, self._logs.removals, self._clock, self.counts)
            internal = self._names[key] in INTERNAL_TOPICS
            partition = FollowedPartition(followed, registration, internal=internal, wake=self._wake)
            self.followed[key] = partition
        else:
            partition.follow(registration)
        partition.followed.is_added = self._node_id in registration.adding_replicas
        if partition.open_log is None:
            return  # its directory has failed, and a fetch would say that the records are here
        self._fetchers.follow(key, partition.followed, registration.leader, registration.leader_epoch)

    def _end_following(self, key: PartitionKey, absence: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        followed = self.followed.pop(key, None)
        if followed is not None:
            followed.leave(absence)

    def _open(self, key: PartitionKey, config: LogConfig, is_new: bool) -> PartitionLog:
        """Return the log, with its replication begun. Raises LogOffline."""
        topic_id, index = key
        registration = self._known[key]
        if registration.leader in (NO_LEADER, self._node_id) and registration.relies_on(self._node_id):
            self._partitions.check_missing(self._names[key], topic_id, index)  # else the leader has the records
        found = self._logs.create(self._names[key], index, topic_id, config, self._clock.now_ms(), is_new=is_new)
        if not found.replicated:
            found.begin_replication(found.high_watermark)  # it is new, or this was the only replica
        return found

    def _resign(self, key: PartitionKey) -> None:
        topic_id, index = key
        led = self.led.pop(key, None) or self._partitions.get(self._names[key], index)
        if led is not None:
            self._partitions.give_up(led)
            self._on_resigned(led)
        self._partitions.note_remote(self._names[key], topic_id, index)

    def _stop(self, key: PartitionKey) -> None:
        self._fetchers.stop(key)
        self._resign(key)
        self._end_following(key)

    def _remove(self, key: PartitionKey) -> None:
        """Stop, and remove the log as a deleted topic's: the replica has moved to another broker."""
        self._stop(key)
        self._delete_log(key)

    def _delete_log(self, key: PartitionKey) -> None:
        topic = self._names.pop(key)
        self._known.pop(key, None)
        self._logs.delete(topic, key[1], uuid.uuid4().hex, self._clock.now_ms())

    def _log_of(self, key: PartitionKey) -> PartitionLog | None:
        if (led := self.led.get(key)) is not None:
            return led.find_log()
        followed = self.followed.get(key)
        return None if followed is None else followed.find_log()

    def followed_partition(self, topic: str, index: int) -> FollowedPartition | None:
        """Return a partition that this broker follows."""
        topic_id = self._partitions.topic_id(topic)
        return None if topic_id is None else self.followed.get((topic_id, index))

    def _log_start_raised(self, log: PartitionLog) -> None:
        led = None if log.topic_id is None else self.led.get((log.topic_id, log.partition))
        if led is not None:
            led.log_start_raised()

    # -- the ISR -----------------------------------------------------------------------------------------------------

    def take_answer(self, answer: Answer) -> None:
        """Take over what the controller made of a proposed ISR."""
        led = self.led.get(answer.key)
        if led is not None and led.open_log is not None:  # else its directory has failed meanwhile
            led.take_answer(answer)

    def check_lag(self) -> None:
        """Look for followers that lag. Call it each half of replica.lag.time.max.ms."""
        for led in self.led.values():
            if led.online:
                led.check_lag()
