"""A simulated broker: a disk that outlives its processes, and a process made of the state machines of replication/."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metadata.partition_registration import NO_LEADER, PartitionRegistration
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from replication.followed_log import LogFailed
from replication.following import Fetcher, FetchLimits
from replication.lifecycle import BrokerLifecycle, Identity, LifecycleState, LifecycleTimes
from replication.observing import Observer
from replication.partition_key import PartitionKey
from replication.roles import Action, change_of
from tests.simulation.leaders import Leaders
from tests.simulation.log import ReplicaLog
from tests.simulation.metadata import FEATURES, LISTENERS, ChangePartition, Image, MetadataLog, Transactions
from tests.simulation.metadata_fetch import ENDPOINTS
from tests.simulation.network import CONTROLLER, Route

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

DIRECTORY = bytes([7]) * 16
LIMITS = FetchLimits()
TIMES = LifecycleTimes(registration_ms=1 << 40)


class Disk:
    """The files of a broker. `clean_epoch`: the epoch of a broker that stopped in order, or -1."""

    def __init__(self, broker_id: int, checks: Invariants) -> None:
        self.broker_id = broker_id
        self.checks = checks
        self.logs: dict[PartitionKey, ReplicaLog] = {}
        self.metadata = MetadataLog()
        self.clean_epoch = -1

    def log(self, key: PartitionKey) -> ReplicaLog:
        found = self.logs.get(key)
        if found is None:
            found = self.logs[key] = ReplicaLog(self.broker_id, key, self.checks)
        return found

    def repair(self) -> None:
        """There is room again."""
        for log in self.logs.values():
            log.broken = False

    def crash(self, kept: int | None) -> None:
        """The process is killed; with `kept`, the power fails and all but that many unflushed records are lost."""
        for log in self.logs.values():
            log.crash(kept)


class Process:
    """One run of a broker. `hosted`: the partitions as they were when their roles were taken."""

    def __init__(self, disk: Disk, incarnation: int, min_isr: int, checks: Invariants, now_ms: int) -> None:
        self.id = disk.broker_id
        self.disk = disk
        self.image = Image()
        self.checks = checks
        self.hosted: dict[PartitionKey, PartitionRegistration] = {}
        self.leaders = Leaders(self.id, self.image, min_isr, checks)
        self.fetchers: dict[int, Fetcher] = {}
        self.resets: set[tuple[PartitionKey, int]] = set()
        self.observe_route = Route(self.id, "observe", CONTROLLER)
        self.life_route = Route(self.id, "life", CONTROLLER)
        self.fetch_routes: dict[int, Route] = {}
        self._hosts = False
        self._applied = 0
        self._transactions = Transactions()
        identity = Identity(
            self.id,
            "cluster",
            incarnation.to_bytes(16, "big"),
            LISTENERS,
            FEATURES,
            None,
            [DIRECTORY],
            disk.clean_epoch,
        )
        disk.clean_epoch = -1
        self.life = BrokerLifecycle(identity, TIMES, now_ms)
        self.observer = Observer(self.id, "cluster", DIRECTORY, list(ENDPOINTS.values()), disk.metadata)
        for log in disk.logs.values():
            log.open()

    @property
    def serves(self) -> bool:
        return not self.life.state < LifecycleState.RUNNING

    def stop(self) -> None:
        """End a controlled shutdown: flush everything, then write the file of a clean stop."""
        for key in list(self.leaders.partitions):
            self.leaders.resign(key)
        for log in self.disk.logs.values():
            log.flush()
            log.write_checkpoint()
        self.disk.clean_epoch = self.life.broker_epoch

    # -- metadata ----------------------------------------------------------------------------------------------------

    def observed(self, response: Struct, now_ms: int) -> None:
        """Take over a response of the metadata log, and carry out what is committed."""
        log = self.disk.metadata
        snapshot = log.snapshot
        self.observer.answered(response, now_ms)
        changed: set[PartitionKey] = set()
        if log.snapshot is not snapshot:
            self._applied = 0
            self._transactions = Transactions()
            self.image.brokers.clear()
            self.image.partitions.clear()
        for offset in range(self._applied, self.observer.high_watermark):
            for each, record in self._transactions.take(offset, log.at(offset).record):
                self.checks.applied(self.id, each, record, self.observer.high_watermark)
                self.image.apply(record)
                if isinstance(record, ChangePartition):
                    changed.add(record.key)
            self._applied = offset + 1
        self.life.note_applied(self._applied - 1)
        if self._hosts:
            self._carry_out(changed, now_ms)

    def _carry_out(self, changed: set[PartitionKey], now_ms: int) -> None:
        for key in sorted(changed):
            self._take_role(key, now_ms)
        self.leaders.brokers_changed(now_ms)

    def _take_role(self, key: PartitionKey, now_ms: int) -> None:
        """Lead or follow a partition as the image says."""
        state = self.image.partitions[key]
        change = change_of(self.hosted.get(key), state, self.id)
        if change.action is Action.NOTHING:
            return
        before, self.hosted[key] = self.hosted.get(key), state
        if change.action is Action.REMOVE:
            self._stop_following(key, None)
            self.leaders.resign(key)
            del self.disk.logs[key], self.hosted[key]
            return
        log = self.disk.log(key)
        if state.leader == self.id:
            self._stop_following(key, None)
            self.leaders.lead(key, log, state, now_ms)
        elif change.action is Action.FOLLOW:
            self.leaders.resign(key)
            self._stop_following(key, change.leader)
            if change.leader != NO_LEADER:
                fetcher = self.fetchers.get(change.leader)
                if fetcher is None:
                    fetcher = self.fetchers[change.leader] = Fetcher(self.id, self.life.broker_epoch, LIMITS)
                    self.fetch_routes[change.leader] = Route(self.id, "fetch", change.leader)
                fetcher.add(key, log, change.leader_epoch)
        count = (key in self.leaders.partitions) + sum(key in each.partitions for each in self.fetchers.values())
        self.checks.role_taken(self.id, key, before.leader_epoch if before else -1, state.leader_epoch, count)

    def _stop_following(self, key: PartitionKey, leader: int | None) -> None:
        for each, fetcher in self.fetchers.items():
            if each != leader:
                fetcher.remove(key)

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def beaten(self, response: Struct, now_ms: int) -> None:
        """Take over the response to a registration or heartbeat."""
        life = self.life
        life.answered(response, now_ms)
        for fetcher in self.fetchers.values():
            fetcher.broker_epoch = life.broker_epoch
        if life.state is LifecycleState.RECOVERING:
            self._hosts = True
            self._carry_out(set(self.image.partitions), now_ms)
            life.logs_are_open(now_ms)

    # -- following ---------------------------------------------------------------------------------------------------

    def fetched(self, leader: int, response: Struct, now_ms: int) -> None:
        """Take over a Fetch response of a leader."""
        fetcher = self.fetchers[leader]
        ends = {key: each.log.log_end_offset for key, each in fetcher.partitions.items()}
        fetcher.answered(response, now_ms)
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                followed = fetcher.partitions.get(key)
                if followed is None:
                    continue
                log = followed.log
                if data.records and log.log_end_offset != ends[key]:
                    self.checks.fetched_from(self.disk.logs[key], leader, followed.leader_epoch)
                if (end := data.diverging_epoch).end_offset >= 0:
                    position = key[1], followed.leader_epoch, log.log_end_offset, log.latest_epoch
                    self.checks.diverged(self.id, (*position, end.epoch, end.end_offset))

    def offset_of(self, key: PartitionKey, leader_epoch: int, earliest: bool) -> tuple[int, int]:
        """Answer a follower's ListOffsets: an error code and an offset."""
        leader = self.leaders.partitions.get(key)
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if leader.state.leader_epoch != leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, -1
        return ErrorCode.NONE, leader.log.log_start_offset if earliest else leader.log.log_end_offset


__all__ = ["Disk", "LogFailed", "Process"]
