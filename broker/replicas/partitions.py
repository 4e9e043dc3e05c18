"""Partitions: all hosted partitions by topic name and by topic id. The metadata publisher keeps it up to date.

All of it belongs to the event loop's thread.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType

from broker.replicas.partition import (
    NO_LEADER_EPOCH,
    LogOnDemand,
    OfflineLog,
    Partition,
)
from broker.startup.missing_partitions import Missing
from broker.startup.topic_id_repair import assign_topic_id, may_be_damaged
from protocol.error_codes import ErrorCode
from runtime.clock import Clock
from storage.errors import LogOffline, LogQueued
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager

log = logging.getLogger(__name__)

#: Topics that clients may read but not write, as in Kafka.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

#: The most offline partitions that one log line names.
_NAMED = 20


class Partitions:
    """The registry.

    Args:
        logs: creates and removes the logs.
        node_id: this broker, which leads all of them.
        wake: called with a partition whose end, start or existence changed (see `Purgatory.check_soon`).
        missing: partitions in log directories that are missing.
        may_open: called before a log is opened on demand; if it returns False, the log is opened later.
    """

    __slots__ = (
        "_by_name",
        "_clock",
        "_elsewhere",
        "_ids",
        "_logs",
        "_may_open",
        "_missing",
        "_names",
        "_wake",
        "node_id",
    )

    def __init__(
        self,
        logs: LogManager,
        node_id: int,
        clock: Clock,
        wake: Callable[[Partition], None],
        missing: Missing = MappingProxyType({}),
        may_open: Callable[[], bool] = lambda: True,
    ) -> None:
        self._logs = logs
        self.node_id = node_id
        self._clock = clock
        self._wake = wake
        self._missing = missing
        self._may_open = may_open
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._elsewhere: dict[str, set[int]] = {}

    def __iter__(self) -> Iterator[Partition]:
        for by_index in self._by_name.values():
            yield from by_index.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        by_index = self._by_name.get(topic)
        return None if by_index is None else by_index.get(index)

    def get_by_id(self, topic_id: bytes, index: int) -> Partition | None:
        name = self._names.get(topic_id)
        return None if name is None else self._by_name[name].get(index)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        return self._names.get(topic_id)

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id of the topic with this name, or None."""
        return self._ids.get(topic)

    def is_elsewhere(self, topic: str, index: int) -> bool:
        """Whether another broker has the partition."""
        return index in self._elsewhere.get(topic, ())

    def is_known(self, topic: str, index: int) -> bool:
        """Whether a broker of the cluster has the partition."""
        return index in self._by_name.get(topic, ()) or self.is_elsewhere(topic, index)

    def absence(self, topic: str | None, index: int, leader_epoch: int = NO_LEADER_EPOCH) -> ErrorCode:
        """Return the error code for a partition that is not hosted here; `topic` is None for an unknown topic id.

        `leader_epoch` is the client's. It is compared where the partition is followed (broker/replication).
        """
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self.is_elsewhere(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def of_topic(self, topic: str) -> dict[int, Partition]:
        """Return the hosted partitions of a topic by index; do not change it. Empty for an unknown topic."""
        return self._by_name.get(topic, {})

    def of_topic_id(self, topic_id: bytes) -> dict[int, Partition]:
        """Return the hosted partitions of a topic by its id."""
        name = self._names.get(topic_id)
        return {} if name is None else self._by_name[name]

    def create(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        config: LogConfig,
        *,
        leader_epoch: int = 0,
        replicas: Sequence[int] = (),
        isr: Sequence[int] = (),
        is_new: bool = True,
    ) -> Partition:
        """Host a partition, with its existing log or a new one. If its disk fails, it is hosted offline."""
        found = self._log(topic, topic_id, index, config, is_new)
        partition = Partition(
            found,
            leader_id=self.node_id,
            leader_epoch=leader_epoch,
            replicas=tuple(replicas) or (self.node_id,),
            isr=tuple(isr) or (self.node_id,),
            internal=topic in INTERNAL_TOPICS,
            wake=self._wake,
        )
        self.add(partition)
        self.lead(partition, leader_epoch)
        return partition

    def add(self, partition: Partition) -> None:
        """Serve a partition, which may take the place of another object for it."""
        topic, topic_id = partition.topic, partition.topic_id
        self._by_name.setdefault(topic, {})[partition.index] = partition
        self._elsewhere.get(topic, set()).discard(partition.index)
        self._names[topic_id] = topic
        self._ids[topic] = topic_id

    def give_up(self, partition: Partition) -> None:
        """Serve a partition no longer, because another broker leads it: requests get NOT_LEADER_OR_FOLLOWER."""
        if self.get(partition.topic, partition.index) is partition:
            del self._by_name[partition.topic][partition.index]
        self.note_remote(partition.topic, partition.topic_id, partition.index)
        partition.leave(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def note_remote(self, topic: str, topic_id: bytes, index: int) -> None:
        """Record that another broker has a partition."""
        self._by_name.setdefault(topic, {})
        self._elsewhere.setdefault(topic, set()).add(index)
        self._names[topic_id] = topic
        self._ids[topic] = topic_id

    def _log(
        self, topic: str, topic_id: bytes, index: int, config: LogConfig, is_new: bool
    ) -> PartitionLog | LogOnDemand | OfflineLog:
        try:
            self.check_missing(topic, topic_id, index)
            if (topic, index) in self._logs.unopened:
                return LogOnDemand(topic, index, topic_id, self)
            return self._logs.create(topic, index, topic_id, config, self._clock.now_ms(), is_new=is_new)
        except LogOffline as error:
            return OfflineLog(topic, index, topic_id, config, error)

    def is_missing(self, topic_id: bytes, index: int) -> bool:
        """Return whether the log of a partition is in a missing directory."""
        return (topic_id, index) in self._missing

    def check_missing(self, topic: str, topic_id: bytes, index: int) -> None:
        """Raise LogOffline if the log of a partition is in a missing directory: then none may be created."""
        if (topic_id, index) in self._missing:
            raise LogOffline(f"{topic}-{index}", self._missing[topic_id, index])

    def open_log(self, partition: Partition) -> PartitionLog:
        """Open the log of a partition on its first use. Raises LogOffline, and LogQueued if the client has to retry."""
        key = partition.topic, partition.index
        unopened = self._logs.unopened.get(key)
        if not partition.hosted:  # another partition may have its name now
            raise LogOffline(str(partition), "the topic is deleted")
        if unopened is not None and unopened.problem is None and not self._may_open():
            raise LogQueued(str(partition), "its log is opened soon, after others")
        opened = self._logs.open(*key)
        if opened is None:
            raise LogOffline(str(partition), "the log is deleted")
        if opened.topic_id != partition.topic_id:  # the start could not read it
            if not may_be_damaged(opened.topic_id, partition.topic_id):
                raise LogOffline(opened.path, "is of another topic, by its partition.metadata")
            assign_topic_id(opened, partition.topic_id)
        with suppress(LogOffline):  # its directory has just failed: `take_offline` follows
            opened.assign_leader_epoch(partition.leader_epoch)
        return opened

    def config_of(self, partition: Partition) -> LogConfig:
        """Return the configuration of a log that is not open."""
        unopened = self._logs.unopened.get((partition.topic, partition.index))
        return LogConfig() if unopened is None else unopened.stored.config

    def open_now(self, partition: Partition) -> None:
        """Open a partition's log, whatever other logs wait: for callers that cannot retry.

        It counts towards the logs that may be opened in this turn, so others wait longer.
        """
        if partition.is_unopened:
            unopened = self._logs.unopened.get((partition.topic, partition.index))
            if unopened is not None and unopened.problem is None:
                self._may_open()
            with suppress(LogOffline):  # reported when the log is needed
                self._logs.open(partition.topic, partition.index)

    def directory_of(self, partition: Partition) -> LogDirectory | None:
        """Return the directory of a partition's log; None if it is offline."""
        if partition.is_unopened:
            unopened = self._logs.unopened.get((partition.topic, partition.index))
            if unopened is not None:
                return unopened.directory
        log = partition.find_log()
        return None if log is None else log.directory

    def delete(self, topic: str) -> None:
        """Stop hosting a topic: rename its directories away, and wake waiting requests, which find it deleted."""
        topic_id = self._ids.pop(topic, None)
        if topic_id is not None:
            self._names.pop(topic_id, None)
            self._elsewhere.pop(topic, None)
        for index, partition in self._by_name.pop(topic, {}).items():
            self._logs.delete(topic, index, uuid.uuid4().hex, self._clock.now_ms())
            partition.leave(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def lead(self, partition: Partition, leader_epoch: int) -> None:
        """Lead a partition in that epoch, if its disk works."""
        partition.leader_epoch = leader_epoch
        if not partition.is_unopened and partition.online:
            with suppress(LogOffline):  # its directory has just failed; `take_offline` follows
                partition.lead(leader_epoch)

    def take_offline(self, directory: LogDirectory) -> list[Partition]:
        """Answer with an error for the partitions of a failed log directory; wake requests that wait for them."""
        lost = [each for each in self if self.directory_of(each) is directory]
        for partition in lost:
            key = partition.topic, partition.index
            unopened = self._logs.unopened.get(key)
            left = partition.log if unopened is None else unopened.stored
            reason = LogOffline(left.path, directory.failure or "")
            partition.set_offline(OfflineLog(*key, partition.topic_id, left.config, reason))
            self._wake(partition)
        self.log_offline()
        return lost

    def log_offline(self) -> None:
        """Log which partitions are offline, if any, in one line."""
        names = [str(each) for each in self if self._is_offline(each)]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            log.error("Partitions are offline: %s%s", ", ".join(names[:_NAMED]), more)

    def _is_offline(self, partition: Partition) -> bool:
        """Whether its log is unavailable; this opens nothing."""
        unopened = self._logs.unopened.get((partition.topic, partition.index))
        return partition.find_log() is None if unopened is None else unopened.problem is not None

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Apply a new configuration to the logs of a topic."""
        for partition in self.of_topic(topic).values():
            if partition.is_unopened:
                self._logs.configure(topic, partition.index, config)
            else:
                partition.log_config = config
