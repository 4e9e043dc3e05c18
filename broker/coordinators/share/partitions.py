"""All share-partitions of this broker.

Their state is read from the share coordinator at first use, and written to it before a change is reported. Timers
release records whose locks end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from broker.coordinators.share.acknowledgement import Acknowledged
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.partition import InFlight
from broker.coordinators.share.runs import Buried, Change, RecordState, buried
from broker.coordinators.share.sessions import (
    SessionKey,
    ShareSession,
    ShareSessions,
    TopicIdPartition,
)
from broker.coordinators.share.start_offsets import StartOffsets, StateLoading
from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from config.resources import group_number
from coordinator.group.refused import Refused
from coordinator.share.state import UNINITIALIZED, ShareKey
from metadata.features import DEAD_LETTER_QUEUES, SHARE_VERSION
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from runtime.timers import Timer

if TYPE_CHECKING:
    from broker.coordinators.share.dead_letters import DeadLetterWriter
    from broker.coordinators.share.states import ShareStates
    from broker.metadata_cache import MetadataCache
    from broker.replicas.remote_reads import RemoteReads
    from broker.replicas.time_look_ups import TimeLookUps
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from runtime.timers import Timers

log = logging.getLogger(__name__)

#: Delay before a fetch retries a state that is being loaded.
LOADING_RETRY_MS = 50
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)


class SharePartition(msgspec.Struct, eq=False):
    """A share-partition in use. Also the purgatory's key for fetches that wait until records become available."""

    key: ShareKey
    partition: Partition
    state_epoch: int
    leader_epoch: int
    in_flight: InFlight
    timer: Timer | None = None


class SharePartitionSettings(msgspec.Struct, frozen=True):
    """A share group's settings for its records in flight, or the broker's defaults."""

    limits: Limits
    is_committed_only: bool  # share.isolation.level
    may_renew: bool  # share.renew.acknowledge.enable
    offset_reset: str  # share.auto.offset.reset


class SharePartitions:
    """The share-partitions of this process, by group, topic id and partition. `sessions` are those of all members."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        purgatory: Purgatory,
        metadata: MetadataCache,
        time_look_ups: TimeLookUps,
        states: ShareStates,
        dead_letters: Callable[[], DeadLetterWriter],
        remote_reads: RemoteReads | None = None,
    ) -> None:
        """`dead_letters` is called when the first dead letter is due: few groups have any."""
        self._config = config
        self._clock = clock
        self._timers = timers
        self._purgatory = purgatory
        self._image = metadata.image
        self._start_offsets = StartOffsets(clock, time_look_ups, remote_reads)
        self._states = states
        self._dead_letters = dead_letters
        self._letter_writer: DeadLetterWriter | None = None
        self._drops_states = False
        self._forget_listeners: list[Callable[[str, bytes, Collection[int] | None], None]] = []
        metadata.on_topic_deleted(lambda topic: self._topic_deleted(topic.topic_id))
        self._live: dict[ShareKey, SharePartition] = {}
        self.sessions = ShareSessions(config.get_int("group.share.max.share.sessions"), self._session_ended)

    def settings(self, group_id: str) -> SharePartitionSettings:
        """Return the group's settings, as they are now."""
        config = self._config
        own = self._image.config(ResourceType.GROUP, group_id)

        def number(key: str) -> int:
            return group_number(config, own, key)

        return SharePartitionSettings(
            Limits(
                number("share.record.lock.duration.ms"),
                number("share.delivery.count.limit"),
                number("share.partition.max.record.locks"),
                self._image.features.get(SHARE_VERSION, 0) >= DEAD_LETTER_QUEUES
                and bool(own.get("errors.deadletterqueue.topic.name")),
            ),
            own.get("share.isolation.level", "read_uncommitted").lower() == "read_committed",
            own.get("share.renew.acknowledge.enable", "true").lower() == "true",
            own.get("share.auto.offset.reset", "latest").lower(),
        )

    # -- finding ----------------------------------------------------------------------------------------------------

    def get(self, group_id: str, partition: Partition) -> SharePartition:
        """Return the share-partition. Its state is read at first use.

        Raises StateLoading, and Refused: UNKNOWN_SERVER_ERROR if it has no state, FENCED_LEADER_EPOCH,
        KAFKA_STORAGE_ERROR and other errors of the read.
        """
        key = ShareKey(group_id, partition.topic_id, partition.index)
        found = self._live.get(key)
        if found is not None and found.partition is partition and found.leader_epoch == partition.leader_epoch:
            return found
        try:
            state = self._states.read(key, partition.leader_epoch)
        except Refused as refusal:
            if refusal.code in _LOADING:
                raise StateLoading from refusal
            if refusal.code in (ErrorCode.INVALID_REQUEST, ErrorCode.NOT_COORDINATOR):
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from refusal  # the state was never initialized: as Kafka
            raise
        try:
            start_offset = state.start_offset
            if start_offset == UNINITIALIZED:
                settings = self.settings(group_id)
                start_offset = self._start_offsets.find(
                    key, partition, settings.offset_reset, settings.is_committed_only
                )
            in_flight = InFlight(state, start_offset)
        except StateLoading:
            raise
        except Exception as error:
            raise Refused(error_code_of(error)) from error
        if found is not None:
            self._drop(found)
        found = self._live[key] = SharePartition(key, partition, state.state_epoch, partition.leader_epoch, in_flight)
        self._finish_archiving(found)
        return found

    def known(self, group_id: str, place: TopicIdPartition) -> SharePartition | None:
        """Return the share-partition if it is in use."""
        found = self._live.get(ShareKey(group_id, *place))
        return found if found is not None and found.partition.hosted else None

    def forget(self, group_id: str, topic_id: bytes, partitions: Collection[int] | None = None) -> None:
        """Drop states that others have changed or deleted. They are read again at the next use."""
        for callback in self._forget_listeners:
            callback(group_id, topic_id, partitions)

        def is_meant(key: ShareKey) -> bool:
            return (key.group_id, key.topic_id) == (group_id, topic_id) and (
                partitions is None or key.partition in partitions
            )

        self._start_offsets.forget(is_meant)
        for share in [each for each in self._live.values() if is_meant(each.key)]:
            self._drop(share)

    def _topic_deleted(self, topic_id: bytes) -> None:
        self._start_offsets.forget(lambda key: key.topic_id == topic_id)
        for share in [each for each in self._live.values() if each.key.topic_id == topic_id]:
            self._drop(share)

    def _drop(self, share: SharePartition) -> None:
        if self._live.get(share.key) is share:  # else another has replaced it
            del self._live[share.key]
        if share.timer is not None:
            share.timer.cancel()
            share.timer = None
        self._purgatory.check_soon(share)

    # -- changing ---------------------------------------------------------------------------------------------------

    def acknowledge(
        self, share: SharePartition, member_id: str, batches: Sequence[Acknowledged], settings: SharePartitionSettings
    ) -> Deferred[None] | None:
        """Apply a member's acknowledgements, all of them, once they are in the share coordinator's log.

        Raises Refused: INVALID_REQUEST, INVALID_RECORD_STATE, and the errors of a failed write. Returns a Deferred
        where another process writes the state. If that write fails, the Deferred fails with Refused, and the state in
        memory is dropped.
        """
        changes, renewals = share.in_flight.plan(member_id, batches, settings.limits, may_renew=settings.may_renew)
        written = None
        if changes:
            written = self._store(share, changes)
            share.in_flight.apply(changes)
            self._bury(share, changes, written)
        share.in_flight.renew(renewals, self._now_ms() + settings.limits.lock_duration_ms)
        self._changed(share)
        return written

    def acquired(self, share: SharePartition) -> None:
        """Watch the locks of records that a member has acquired."""
        self._watch(share)

    def withdraw(self, share: SharePartition, changes: Sequence[Change]) -> None:
        """Archive records that no member may receive. If the write fails, the next fetch tries again."""
        if changes:
            self._give_back(share, changes)

    def _store(self, share: SharePartition, changes: Sequence[Change]) -> Deferred[None] | None:
        done, batches = share.in_flight.stored(changes)
        try:
            written = self._states.write(
                share.key,
                state_epoch=share.state_epoch,
                leader_epoch=share.leader_epoch,
                start_offset=share.in_flight.start_offset,
                delivery_complete_count=done,
                batches=batches,
            )
        except Refused as refusal:
            if refusal.code in (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST):
                self._drop(share)  # another leader has taken over, or the state was reset
            raise
        if written is not None:
            written.add_done_callback(lambda done: self._on_written(share, done))
        return written

    def _on_written(self, share: SharePartition, written: Deferred[None]) -> None:
        """Drop the state in memory if another process could not write a change: memory is ahead of the log then."""
        try:
            written.result()
        except Exception as error:
            log.warning("The states of records of %s cannot be written: %s", share.key.coordinator_key, error)
            self._drop(share)

    def _give_back(self, share: SharePartition, changes: Sequence[Change]) -> None:
        """Make records available. If the write fails, records are redelivered at worst: no client was notified."""
        written = None
        try:
            written = self._store(share, changes)
        except Refused as refusal:
            log.warning("The states of records of %s cannot be written: %s", share.key.coordinator_key, refusal)
        share.in_flight.apply(changes)
        self._bury(share, changes, written)
        self._changed(share)

    def _changed(self, share: SharePartition) -> None:
        self._watch(share)
        self._purgatory.check_soon(share)

    # -- dead letters -----------------------------------------------------------------------------------------------

    def _bury(self, share: SharePartition, changes: Sequence[Change], written: Deferred[None] | None = None) -> None:
        """Write dead letters for the records that are archiving, once that is stored."""
        letters = buried(changes)
        if not letters:
            return

        def write(_: Deferred[None] | None = None) -> None:
            if self._live.get(share.key) is share:  # else the write has failed, or the state was reset
                for each in letters:
                    self._write_letters(share, each)

        if written is None:
            write()
        else:
            written.add_done_callback(write)

    def _finish_archiving(self, share: SharePartition) -> None:
        """Write the dead letters of records that were archiving when their leader stopped: maybe once more."""
        archiving = [run for _, run in share.in_flight.runs() if run.state is RecordState.ARCHIVING]
        if archiving:
            most = self.settings(share.key.group_id).limits.delivery_count
            for run in archiving:
                self._write_letters(share, Buried(run.first, run.last, run.count, run.count < most, is_batch=True))

    def _write_letters(self, share: SharePartition, records: Buried) -> None:
        """Write the dead letters of adjacent records, and archive the records afterwards."""
        from broker.coordinators.share.dead_letter_records import EXHAUSTED, REJECTED, DeadLetters

        if self._letter_writer is None:
            self._letter_writer = self._dead_letters()
        partition = share.partition
        first, last, count, rejected, is_batch = records
        message = REJECTED if rejected else EXHAUSTED
        letters = DeadLetters(
            share.key.group_id, partition.topic, partition.index, first, last, count, message, is_batch
        )

        def archive(_: Deferred[None]) -> None:
            if self._live.get(share.key) is share:
                self.withdraw(share, share.in_flight.archiving_between(first, last))

        self._letter_writer.write(letters, partition).add_done_callback(archive)

    # -- locks and sessions -----------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def _watch(self, share: SharePartition) -> None:
        """Set the timer for the next lock that ends."""
        deadline_ms = share.in_flight.next_deadline_ms()
        timer = share.timer
        if deadline_ms is not None and timer is not None and timer.active and timer.deadline_ms <= deadline_ms:
            return  # the timer fires before that, and looks again
        if timer is not None:
            timer.cancel()
            share.timer = None
        if deadline_ms is not None and self._live.get(share.key) is share:
            share.timer = self._timers.call_at(int(deadline_ms), lambda: self._locks_ended(share))

    def _locks_ended(self, share: SharePartition) -> None:
        share.timer = None
        if not share.partition.hosted:
            self._drop(share)
            return
        limits = self.settings(share.key.group_id).limits
        changes = share.in_flight.given_back(limits, now_ms=self._now_ms())
        if changes:
            self._give_back(share, changes)
        else:
            self._watch(share)

    def drop_states_of_empty_groups(self) -> None:
        """From now on, drop the states of a group when its last session on this broker ends, as Kafka does.

        Another broker may change the states of an empty group (AlterShareGroupOffsets).
        """
        self._drops_states = True

    def _session_ended(self, session: ShareSession) -> None:
        self.release(session.key)
        group_id = session.key.group_id
        if self._drops_states and not self.sessions.has_group(group_id):
            for share in [each for each in self._live.values() if each.key.group_id == group_id]:
                if not share.in_flight.is_in_use:
                    self._drop(share)

    def release(self, key: SessionKey) -> None:
        """Make the records of a member that has left available again."""
        limits = self.settings(key.group_id).limits
        for share in [each for each in self._live.values() if each.key.group_id == key.group_id]:
            changes = share.in_flight.given_back(limits, member_id=key.member_id)
            if changes:
                self._give_back(share, changes)
