"""The partitions that this broker follows at one leader: fetch, truncate, append. Kafka's AbstractFetcherThread.

A partition is *fetched* until an error delays it. If the leader does not have its offset, it is *reset*: the log ends
where the leader's ends, or starts over where the leader's begins.

Where the logs diverge, the response has the leader's last epoch that is not above the follower's, and its end
(KIP-595). The follower truncates to the end of what both have of that epoch, and asks again. So nothing that a leader
has committed is cut off, and nothing that it lacks is kept (KIP-101, KIP-279).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from protocol.error_codes import ErrorCode
from protocol.fast_path.followed_answer import FollowedAnswer, FollowedPartition
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.schema import Struct
from replication.fetch_session import FetchSession, Position, SessionRequest
from replication.followed_log import NO_EPOCH, NO_OFFSET, DamagedRecords, EpochEnd, FollowedLog, LogFailed
from replication.partition_key import PartitionKey

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_new_tuple = tuple.__new__


class FetchLimits(NamedTuple):
    """The replica.fetch.* keys: bytes and ms."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_ms: int = 1000


class FollowerRequest(NamedTuple):
    """A Fetch request: what the session asks for, and for whom."""

    replica_id: int
    replica_epoch: int
    limits: FetchLimits
    asked: SessionRequest[PartitionKey]

    def struct(self) -> Struct:
        """Return the request as the schema has it."""
        topics: dict[bytes, list[Struct]] = {}
        new_partition = FetchPartition.new
        for (topic_id, index), (
            leader_epoch,
            offset,
            last_epoch,
            log_start_offset,
            most,
        ) in self.asked.partitions.items():
            partition = new_partition(
                partition=index,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log_start_offset,
                partition_max_bytes=most,
            )
            of_topic = topics.get(topic_id)
            if of_topic is None:
                topics[topic_id] = [partition]
            else:
                of_topic.append(partition)
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self.asked.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        limits = self.limits
        return FETCH.request.new(
            replica_state=ReplicaState.new(replica_id=self.replica_id, replica_epoch=self.replica_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self.asked.session_id,
            session_epoch=self.asked.session_epoch,
            topics=[FetchTopic.new(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=each) for topic_id, each in forgotten.items()
            ],
        )


class Throttle(Protocol):
    """A limit of fetched bytes: a `ReplicationThrottle` that knows partitions by their keys."""

    @property
    def is_active(self) -> bool:
        """Whether there is a limit at all."""

    def applies(self, key: PartitionKey) -> bool:
        """Return whether a partition is throttled."""

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count the bytes of a throttled partition."""

    def wait_ms(self, now_ms: int) -> int:
        """Return the ms until throttled partitions may be fetched; 0 if they may now."""


class Phase(Enum):
    """The phases of a followed partition."""

    FETCHING = auto()
    DELAYED = auto()
    RESETTING = auto()
    FAILED = auto()  # its log cannot be used; it stays so until it is added again


class Followed:
    """A partition that is followed in one leader epoch."""

    __slots__ = (
        "delayed_until_ms",
        "has_committed",
        "has_reset",
        "last_error",
        "leader_epoch",
        "log",
        "phase",
        "reset_at_start",
    )

    def __init__(self, log: FollowedLog, leader_epoch: int) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCHING
        self.delayed_until_ms = 0
        #: The error of its last response, for metrics and the log; 0 if there was none.
        self.last_error = 0
        #: Whether a reset has found the leader's end above the log's: then the leader's start is asked for.
        self.reset_at_start = False
        #: Whether it was reset since records came last. A leader that asks for that again and again must not be asked
        #: without a pause.
        self.has_reset = False
        #: Whether the log had all that was committed, by the leader's last response. Then no throttle holds it back.
        self.has_committed = False

    def delay(self, until_ms: int) -> None:
        self.phase, self.delayed_until_ms = Phase.DELAYED, until_ms


class Fetcher:
    """Fetches from one leader. `node_id` is this broker's; `broker_epoch` that of its registration, which may change.

    One request at a time: `next_request`, then `answered` or `failed`.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: int,
        limits: FetchLimits | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._node_id = node_id
        self.broker_epoch = broker_epoch
        self._throttle = throttle
        self._withheld: set[PartitionKey] = set()
        self._withheld_until_ms = 0
        self.limits = limits or FetchLimits()
        self.partitions: dict[PartitionKey, Followed] = {}
        self._session: FetchSession[PartitionKey] = FetchSession()
        self._wanted: dict[PartitionKey, Position] = {}
        self._changed: set[PartitionKey] = set()
        self._delayed: set[PartitionKey] = set()
        self._resetting: set[PartitionKey] = set()

    def add(self, key: PartitionKey, log: FollowedLog, leader_epoch: int) -> None:
        """Follow a partition, or follow it in a later epoch of the same leader."""
        known = self.partitions.get(key)
        if known is None or known.leader_epoch < leader_epoch or known.log is not log:
            self.partitions[key] = Followed(log, leader_epoch)
            self._changed.add(key)

    def remove(self, key: PartitionKey) -> None:
        """Follow a partition no longer: it is led here, follows another leader, or is gone."""
        if self.partitions.pop(key, None) is not None:
            self._changed.add(key)

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> Struct | None:
        """Return the next Fetch request, or None if no partition is fetched now."""
        request = self.next_fetch(now_ms)
        return None if request is None else request.struct()

    def next_fetch(self, now_ms: int) -> FollowerRequest | None:
        """Do `next_request`, and leave the form of the request to the caller."""
        self._end_delays(now_ms)
        if self._session.is_full:
            self._changed.update(self.partitions)
        self._apply_throttle(now_ms)
        changed, self._changed = self._changed, set()
        for key in changed:
            self._note_wanted(key)
        if not self._wanted and self._session.is_full:
            return None
        asked = self._session.request(self._wanted, changed)
        if not self._wanted and not asked.forgotten:
            return None  # a leader answers at once if it is asked for nothing
        return FollowerRequest(self._node_id, self.broker_epoch, self.limits, asked)

    def wakes_at_ms(self) -> int | None:
        """Return when the next delay ends, or None."""
        ends = [self.partitions[key].delayed_until_ms for key in self._delayed if key in self.partitions]
        return min([*ends, self._withheld_until_ms] if self._withheld else ends, default=None)

    def resetting(self) -> list[tuple[PartitionKey, Followed]]:
        """Return the partitions that need the leader's LATEST offset, or its EARLIEST one if `reset_at_start`."""
        if not self._resetting:
            return []
        found = [(key, self.partitions[key]) for key in sorted(self._resetting) if key in self.partitions]
        resetting = [(key, each) for key, each in found if each.phase is Phase.RESETTING]
        self._resetting = {key for key, _ in resetting}
        return resetting

    def _end_delays(self, now_ms: int) -> None:
        for key in list(self._delayed):
            followed = self.partitions.get(key)
            if followed is None or followed.phase is not Phase.DELAYED:
                self._delayed.discard(key)
            elif followed.delayed_until_ms <= now_ms:
                self._delayed.discard(key)
                followed.phase = Phase.FETCHING
                self._changed.add(key)

    def _apply_throttle(self, now_ms: int) -> None:
        """Withhold the throttled partitions that are not in sync, as long as the throttle is exceeded."""
        throttle = self._throttle
        if throttle is None or not (throttle.is_active or self._withheld):
            return
        self._changed |= self._withheld
        self._withheld.clear()
        wait_ms = throttle.wait_ms(now_ms) if throttle.is_active else 0
        if wait_ms > 0:
            behind = {key for key, each in self.partitions.items() if not each.has_committed and throttle.applies(key)}
            # no later, because the throttle may change meanwhile
            self._withheld_until_ms = now_ms + min(wait_ms, self.limits.backoff_ms)
            self._withheld |= behind
            self._changed |= behind

    def _note_wanted(self, key: PartitionKey) -> None:
        followed = self.partitions.get(key)
        if followed is None or followed.phase is not Phase.FETCHING or key in self._withheld:
            self._wanted.pop(key, None)
            return
        log = followed.log
        self._wanted[key] = _new_tuple(
            Position,
            (
                followed.leader_epoch,
                log.log_end_offset,
                log.latest_epoch,
                log.log_start_offset,
                self.limits.partition_max_bytes,
            ),
        )

    # -- responses ---------------------------------------------------------------------------------------------------

    def failed(self, now_ms: int) -> None:
        """The leader did not answer: all its partitions are tried again after a pause."""
        self._session.failed()
        for key, followed in self.partitions.items():
            if followed.phase is Phase.FETCHING:
                self._delay(key, followed, now_ms)

    def answered(self, response: Struct | FollowedAnswer, now_ms: int) -> None:
        """Take over a Fetch response: append, truncate, or delay each partition in it."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code in _SESSION_ERRORS and not self._session.is_full:
                self._session.failed()
            else:
                self.failed(now_ms)
            return
        self._session.answered(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                followed, sent = self.partitions.get(key), self._wanted.get(key)
                if followed is None or sent is None or not self._is_current(followed, sent):
                    continue  # it has changed since the request
                self._changed.add(key)
                try:
                    self._take(key, followed, data, now_ms)
                except DamagedRecords:
                    followed.last_error = ErrorCode.CORRUPT_MESSAGE
                    self._delay(key, followed, now_ms)
                except LogFailed:
                    followed.phase = Phase.FAILED

    @staticmethod
    def _is_current(followed: Followed, sent: Position) -> bool:
        return (
            followed.phase is Phase.FETCHING
            and followed.leader_epoch == sent.leader_epoch
            and followed.log.log_end_offset == sent.fetch_offset
        )

    def _take(self, key: PartitionKey, followed: Followed, data: Struct | FollowedPartition, now_ms: int) -> None:
        followed.last_error = data.error_code
        log = followed.log
        if data.error_code == ErrorCode.NONE:
            if data.diverging_epoch.end_offset >= 0:
                before = log.log_end_offset, log.latest_epoch
                self._truncate(log, EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
                if (log.log_end_offset, log.latest_epoch) == before:
                    self._delay(key, followed, now_ms)  # the next answer would be the same
                return
            end_offset = log.log_end_offset
            if data.records:
                log.append(data.records, followed.leader_epoch)
                followed.has_reset = False
            log.note_leader(data.high_watermark, data.log_start_offset)
            followed.has_committed = data.high_watermark <= log.log_end_offset
            if not data.records:
                return
            throttle = self._throttle
            if throttle is not None and throttle.is_active and throttle.applies(key):
                throttle.record(len(data.records), now_ms)
            if log.log_end_offset == end_offset:  # no whole batch that may be appended
                self._delay(key, followed, now_ms)
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not followed.has_reset:
            followed.phase, followed.reset_at_start, followed.has_reset = Phase.RESETTING, False, True
            self._resetting.add(key)
        else:
            # The metadata log will say who leads, in which epoch, or that the partition is gone.
            followed.has_reset = False
            self._delay(key, followed, now_ms)

    @staticmethod
    def _truncate(log: FollowedLog, leader: EpochEnd) -> None:
        """Truncate to the end of what both logs have of the leader's largest epoch that is not above ours."""
        end_offset = min(leader.end_offset, log.log_end_offset)
        if leader.epoch != NO_EPOCH:
            ours = log.end_of_epoch(leader.epoch)
            if ours.end_offset != NO_OFFSET:
                # Without that epoch, our epochs above the one below it are unknown to the leader: ask again from there.
                end_offset = (
                    min(end_offset, ours.end_offset)
                    if ours.epoch == leader.epoch
                    else min(ours.end_offset, log.log_end_offset)
                )
        log.truncate(end_offset)

    def _delay(self, key: PartitionKey, followed: Followed, now_ms: int) -> None:
        followed.delay(now_ms + self.limits.backoff_ms)
        self._delayed.add(key)
        self._changed.add(key)

    # -- resets ------------------------------------------------------------------------------------------------------

    def reset(self, key: PartitionKey, leader_epoch: int, offset: int) -> None:
        """Take over the leader's LATEST offset, then its EARLIEST one, of a partition that is reset.

        A log that goes beyond the leader's is truncated to its end: an unclean election has lost the records. A log
        that ends before the leader's start continues there, empty; it is never an error (KAFKA-7414).
        """
        followed = self.partitions.get(key)
        if followed is None or followed.phase is not Phase.RESETTING or followed.leader_epoch != leader_epoch:
            return
        log = followed.log
        try:
            if not followed.reset_at_start:
                if offset >= log.log_end_offset:
                    followed.reset_at_start = True
                    return
                log.truncate(offset)
            elif offset > log.log_end_offset:
                log.start_over(offset)
            followed.phase = Phase.FETCHING
        except LogFailed:
            followed.phase = Phase.FAILED
        self._changed.add(key)

    def reset_failed(self, key: PartitionKey, error_code: int, now_ms: int) -> None:
        """The leader gave no offset: fetch again after a pause, which finds out what holds now."""
        followed = self.partitions.get(key)
        if followed is not None and followed.phase is Phase.RESETTING:
            followed.last_error, followed.has_reset = error_code, False
            self._delay(key, followed, now_ms)
