"""A process of a simulated broker, made of the state machines of replication/. Its disk outlives it (disk.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metadata.partition_registration import (
    LOST_DIRECTORY,
    NO_LEADER,
    PartitionRegistration,
    is_reserved_directory,
)
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from replication.directory_assignments import DirectoryAssignments
from replication.followed_log import LogFailed
from replication.following import Fetcher, FetchLimits
from replication.lifecycle import BrokerLifecycle, Identity, LifecycleState, LifecycleTimes
from replication.observing import Observer
from replication.partition_key import PartitionKey
from replication.roles import Action, change_of
from tests.simulation.disk import Disk
from tests.simulation.leaders import Leaders
from tests.simulation.metadata import FEATURES, LISTENERS, ChangePartition, Image, Transactions
from tests.simulation.metadata_fetch import ENDPOINTS
from tests.simulation.network import CONTROLLER, Route

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

#: The directory of the metadata log.
DIRECTORY = bytes([7]) * 16
LIMITS = FetchLimits()
TIMES = LifecycleTimes(registration_ms=1 << 40)


class Process:
    """One run of a broker. `hosted`: the partitions as they were when their roles were taken."""

    def __init__(self, disk: Disk, incarnation: int, min_isr: int, checks: Invariants, now_ms: int) -> None:
        self.id = disk.broker_id
        self.disk = disk
        self.image = Image()
        self.checks = checks
        self.hosted: dict[PartitionKey, PartitionRegistration] = {}
        #: The directory of each copy that is about to replace its log.
        self.moves: dict[PartitionKey, bytes] = {}
        self.leaders = Leaders(self.id, self.image, min_isr, checks)
        self.fetchers: dict[int, Fetcher] = {}
        self.resets: set[tuple[PartitionKey, int]] = set()
        self.assignments = DirectoryAssignments(self.id)
        self.assign_due_ms = now_ms
        self.observe_route = Route(self.id, "observe", CONTROLLER)
        self.life_route = Route(self.id, "life", CONTROLLER)
        self.fetch_routes: dict[int, Route] = {}
        self._hosts = False
        self._applied = 0
        self._transactions = Transactions()
        previous_epoch = disk.begin()
        directories = disk.online
        identity = Identity(
            self.id,
            "cluster",
            incarnation.to_bytes(16, "big"),
            LISTENERS,
            FEATURES,
            None,
            directories,
            previous_epoch,
        )
        self.life = BrokerLifecycle(identity, TIMES, now_ms)
        self.observer = Observer(self.id, "cluster", DIRECTORY, list(ENDPOINTS.values()), disk.metadata)

    @property
    def serves(self) -> bool:
        return not self.life.state < LifecycleState.RUNNING

    def stop(self) -> None:
        """End a controlled shutdown: flush everything, then write the file of a clean stop."""
        for key in list(self.leaders.partitions):
            self.leaders.resign(key)
        for key, log in self.disk.logs.items():
            if self.disk.places[key] not in self.disk.failed:
                log.flush()
                log.write_checkpoint()
        self.disk.mark_clean(self.life.broker_epoch)

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
        end, transactions = self.observer.high_watermark, self._transactions
        for offset, written in enumerate(log.between(self._applied, end), self._applied):
            for each, record in transactions.take(offset, written.record):
                self.checks.applied(self.id, each, record, end)
                self.image.apply(record)
                if type(record) is ChangePartition:
                    changed.add(record.key)
            self._applied = offset + 1
        self.life.note_applied(self._applied - 1)
        if self._hosts:
            self._carry_out(changed, now_ms)

    def _carry_out(self, changed: set[PartitionKey], now_ms: int, *, at_start: bool = False) -> None:
        for key in sorted(changed):
            self._take_role(key, now_ms, at_start=at_start)
        self.leaders.brokers_changed(now_ms)

    def _take_role(self, key: PartitionKey, now_ms: int, *, at_start: bool) -> None:
        """Lead or follow a partition as the image says."""
        state = self.image.partitions[key]
        change = change_of(self.hosted.get(key), state, self.id)
        if change.action is Action.NOTHING:
            return
        before, self.hosted[key] = self.hosted.get(key), state
        if change.action is Action.REMOVE:
            self._stop_following(key, None)
            self.leaders.resign(key)
            self.disk.remove(key)
            del self.hosted[key]
            return
        assigned = state.directory_of(self.id)
        is_new_here = before is None and not at_start
        is_online = assigned in self.disk.online
        may_be_created = is_new_here if is_reserved_directory(assigned) else not state.relies_on(self.id) or is_new_here
        log = self.disk.log(key, assigned, is_new=may_be_created and (is_online or is_reserved_directory(assigned)))
        if log is None and is_online:
            self.assignments.assign(key, LOST_DIRECTORY)
        place = self.disk.places.get(key)
        if place not in (None, assigned) and key not in self.moves:
            self.assignments.assign(key, place)
        if log is None:
            self._stop_following(key, None)
            self.leaders.resign(key)
            return
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

    # -- log directories ---------------------------------------------------------------------------------------------

    def directory_failed(self, directory: bytes, now_ms: int) -> None:
        """Stop what is in a directory, and tell the controller."""
        for key in [each for each, place in self.disk.places.items() if place == directory]:
            self._stop_following(key, None)
            self.leaders.resign(key)
        for key, target in list(self.moves.items()):
            if directory in (target, self.disk.places.get(key)):
                del self.moves[key]
                if key in self.disk.places:
                    self.assignments.assign(key, self.disk.places[key])
        self.life.directory_failed(directory, now_ms)

    def move(self, key: PartitionKey, target: bytes) -> None:
        """A copy of a log is complete in another directory: assign that, then replace the log by the copy."""

        def swap() -> None:
            if self.moves.get(key) == target:
                del self.moves[key]
                self.disk.swap(key)

        self.moves[key] = target
        self.disk.copy(key, target)
        self.assignments.assign(key, target, swap)

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def beaten(self, response: Struct, now_ms: int) -> None:
        """Take over the response to a registration or heartbeat."""
        life = self.life
        life.answered(response, now_ms)
        for fetcher in self.fetchers.values():
            fetcher.broker_epoch = life.broker_epoch
        if life.state is LifecycleState.RECOVERING:
            self._hosts = True
            self.disk.load(self.image, self.id)
            self._carry_out(set(self.image.partitions), now_ms, at_start=True)
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


__all__ = ["LogFailed", "Process"]
