"""Partitions: all that this broker hosts, by topic name and by topic id. The controller keeps it up to date.

All of it belongs to the event loop's thread.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType

from broker.replicas.partition import (
    LogOnDemand,
    OfflineLog,
    Partition,
)
from broker.startup.missing_partitions import Missing
from broker.startup.topic_id_repair import adopt, may_be
from protocol.error_codes import ErrorCode
from runtime.clock import Clock
from storage.errors import LogOffline, LogWaits
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager

log = logging.getLogger(__name__)

#: Topics that clients may read and not write to, as in Kafka.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

#: Offline partitions told by name in one line of the log.
_NAMED = 20


class Partitions:
    """The registry.

    Args:
        logs: where their files are made and removed.
        node_id: this broker, who leads them all.
        wake: called with a partition whose end, start or existence changed (see `Purgatory.check_soon`).
        missing: what was in log directories that are not there.
        may_open: asked before each log is opened that has waited for somebody to need it; if not now, it waits on.
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
        """The name of the topic with this id, None when there is none."""
        return self._names.get(topic_id)

    def topic_id(self, topic: str) -> bytes | None:
        """The id of the topic with this name, None when there is none."""
        return self._ids.get(topic)

    def is_elsewhere(self, topic: str, index: int) -> bool:
        """Whether another worker of this broker has the partition."""
        return index in self._elsewhere.get(topic, ())

    def is_known(self, topic: str, index: int) -> bool:
        """Whether a process of this broker has the partition."""
        return index in self._by_name.get(topic, ()) or self.is_elsewhere(topic, index)

    def absence(self, topic: str | None, index: int) -> ErrorCode:
        """What to say of a partition that is not hosted here; `topic` None: it was asked for by an unknown id."""
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self.is_elsewhere(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def of_topic(self, topic: str) -> dict[int, Partition]:
        """The hosted partitions of a topic by index; not to be changed. Empty for an unknown topic."""
        return self._by_name.get(topic, {})

    def of_topic_id(self, topic_id: bytes) -> dict[int, Partition]:
        """The same by the topic's id."""
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
        """Host a partition, with the log that is there or a new one. With a disk that fails it is hosted offline."""
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
        self._by_name.setdefault(topic, {})[index] = partition
        self._names[topic_id] = topic
        self._ids[topic] = topic_id
        self.lead(partition, leader_epoch)
        return partition

    def note_elsewhere(self, topic: str, topic_id: bytes, index: int) -> None:
        """Another worker has a partition."""
        self._by_name.setdefault(topic, {})
        self._elsewhere.setdefault(topic, set()).add(index)
        self._names[topic_id] = topic
        self._ids[topic] = topic_id

    def _log(
        self, topic: str, topic_id: bytes, index: int, config: LogConfig, is_new: bool
    ) -> PartitionLog | LogOnDemand | OfflineLog:
        try:
            if (topic_id, index) in self._missing:
                raise LogOffline(f"{topic}-{index}", self._missing[topic_id, index])
            if (topic, index) in self._logs.unopened:
                return LogOnDemand(topic, index, topic_id, self)
            return self._logs.create(topic, index, topic_id, config, self._clock.now_ms(), is_new=is_new)
        except LogOffline as error:
            return OfflineLog(topic, index, topic_id, config, error)

    def open_log(self, partition: Partition) -> PartitionLog:
        """Open the log of a partition on its first use. Raises LogOffline, and LogWaits if the client has to retry."""
        key = partition.topic, partition.index
        unopened = self._logs.unopened.get(key)
        if not partition.hosted:  # another partition may have its name now
            raise LogOffline(str(partition), "the topic is deleted")
        if unopened is not None and unopened.problem is None and not self._may_open():
            raise LogWaits(str(partition), "its log is opened in a moment: others come first")
        opened = self._logs.open(*key)
        if opened is None:
            raise LogOffline(str(partition), "the log is deleted")
        if opened.topic_id != partition.topic_id:  # the start could not read it
            if not may_be(opened.topic_id, partition.topic_id):
                raise LogOffline(opened.path, "is of another topic, by its partition.metadata")
            adopt(opened, partition.topic_id)
        with suppress(LogOffline):  # its directory has just failed: `take_offline` follows
            opened.assign_leader_epoch(partition.leader_epoch)
        return opened

    def config_of(self, partition: Partition) -> LogConfig:
        """Return the configuration of a log that is not open."""
        unopened = self._logs.unopened.get((partition.topic, partition.index))
        return LogConfig() if unopened is None else unopened.stored.config

    def open_now(self, partition: Partition) -> None:
        """Have its log opened, whoever else wants theirs: for one who does not hear that it should ask again.

        It counts as one of those that may be opened in this turn: others wait the longer.
        """
        if partition.is_unopened:
            unopened = self._logs.unopened.get((partition.topic, partition.index))
            if unopened is not None and unopened.problem is None:
                self._may_open()
            with suppress(LogOffline):  # which is told when it is needed
                self._logs.open(partition.topic, partition.index)

    def directory_of(self, partition: Partition) -> LogDirectory | None:
        """Where its log lies; None where that is offline."""
        if partition.is_unopened:
            unopened = self._logs.unopened.get((partition.topic, partition.index))
            if unopened is not None:
                return unopened.directory
        log = partition.find_log()
        return None if log is None else log.directory

    def delete(self, topic: str) -> None:
        """Stop hosting a topic: its directories are renamed away, who waits for it is woken and finds it gone."""
        topic_id = self._ids.pop(topic, None)
        if topic_id is not None:
            self._names.pop(topic_id, None)
            self._elsewhere.pop(topic, None)
        for index, partition in self._by_name.pop(topic, {}).items():
            self._logs.delete(topic, index, uuid.uuid4().hex, self._clock.now_ms())
            partition.hosted = False
            self._wake(partition)

    def lead(self, partition: Partition, leader_epoch: int) -> None:
        """Lead a partition in that epoch, as far as its disk works."""
        partition.leader_epoch = leader_epoch
        if not partition.is_unopened and partition.online:
            with suppress(LogOffline):  # its directory has just failed: `take_offline` follows
                partition.lead(leader_epoch)

    def take_offline(self, directory: LogDirectory) -> list[Partition]:
        """A log directory has failed: its partitions answer with that from now on; who waits for them is woken."""
        lost = [each for each in self if self.directory_of(each) is directory]
        for partition in lost:
            key = partition.topic, partition.index
            unopened = self._logs.unopened.get(key)
            left = partition.log if unopened is None else unopened.stored
            reason = LogOffline(left.path, directory.failure or "")
            partition.set_offline(OfflineLog(*key, partition.topic_id, left.config, reason))
            self._wake(partition)
        self.tell_offline()
        return lost

    def tell_offline(self) -> None:
        """Log which partitions are offline, if any are: in one line, however many there are."""
        names = [str(each) for each in self if self._is_offline(each)]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            log.error("Partitions are offline: %s%s", ", ".join(names[:_NAMED]), more)

    def _is_offline(self, partition: Partition) -> bool:
        """Whether its log cannot be had; nothing is opened to know that."""
        unopened = self._logs.unopened.get((partition.topic, partition.index))
        return partition.find_log() is None if unopened is None else unopened.problem is not None

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Give the logs of a topic their new configuration."""
        for partition in self.of_topic(topic).values():
            if partition.is_unopened:
                self._logs.configure(topic, partition.index, config)
            else:
                partition.log_config = config
