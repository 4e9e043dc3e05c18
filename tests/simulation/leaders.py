"""The partitions that a simulated broker leads: appends of clients, fetches of followers, changes of the ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from metadata.partition_registration import PartitionRegistration
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, EpochEndOffset, FetchableTopicResponse, PartitionData
from protocol.schema import Struct
from replication.followed_log import LogFailed
from replication.follower import Follower
from replication.follower_session import FollowerSession
from replication.isr_changes import IsrChanges, Outcome
from replication.leading import LeaderState, Proposal, is_current
from replication.partition_key import PartitionKey
from tests.simulation.client import Write
from tests.simulation.log import ReplicaLog
from tests.simulation.metadata import Image
from tests.simulation.resting import check_caught_up, check_rest

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

LAG_MS = 6_000
MOST_RECORDS = 2


class Waiting(NamedTuple):
    """A write with acks=all whose offset is not committed."""

    offset: int
    write: Write


class Leader:
    """One partition in one epoch of leadership.

    `caught_up_ms`: the simulation's own account of each follower. `visited`: the followers as they would be if each
    fetch of a session read all its partitions.
    """

    __slots__ = ("caught_up_ms", "checked_ms", "key", "log", "partition_epoch", "state", "visited", "waiting")

    def __init__(self, key: PartitionKey, log: ReplicaLog, state: LeaderState, now_ms: int) -> None:
        self.key, self.log, self.state = key, log, state
        self.waiting: list[Waiting] = []
        self.checked_ms = now_ms
        self.partition_epoch = state.isr.partition_epoch
        self.caught_up_ms = dict.fromkeys(state.isr.committed, now_ms)
        self.visited: dict[int, Follower] = {}
        self.note_followers()

    def note_followers(self) -> None:
        """The replicas may have changed."""
        self.visited = {
            each: self.visited.get(each) or Follower(each, caught_up_ms=follower.caught_up_ms)
            for each, follower in self.state.followers.items()
        }

    def note_fetch(self, follower_id: int, epoch: int, asked: Struct, registered: int | None, now_ms: int) -> None:
        """A follower's fetch covers this partition, whether it is read or not."""
        follower, end = self.visited[follower_id], self.log.log_end_offset
        if epoch < 0 or epoch >= (follower.broker_epoch if registered is None else registered):
            follower.fetched(epoch, asked.fetch_offset, asked.log_start_offset, end, now_ms)
            if asked.fetch_offset >= end:
                self.caught_up_ms[follower_id] = now_ms


class Session:
    """The leader's side of a fetch session: each partition as it was asked for, and the offsets last sent of it."""

    __slots__ = ("due", "epoch", "known", "partitions")

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: dict[PartitionKey, Struct] = {}
        self.known: dict[PartitionKey, tuple[int, int]] = {}
        #: None during the first fetch, which reads everything.
        self.due: FollowerSession[PartitionKey] | None = None


def _wake_nobody(session: FollowerSession[PartitionKey]) -> None:
    """Steps of the schedule try fetches again."""


class Leaders:
    """The partitions that a process leads. `version` rises with everything that a follower could fetch."""

    def __init__(self, node_id: int, image: Image, min_isr: int, checks: Invariants) -> None:
        self.node_id = node_id
        self.image = image
        self.min_isr = min_isr
        self._checks = checks
        self.partitions: dict[PartitionKey, Leader] = {}
        self.isr_changes = IsrChanges(node_id)
        self.version = 0
        self._sessions: dict[int, Session] = {}
        self._last_session = 0
        #: The coordinators of this process, in clusters that have them.
        self.member: Any = None

    # -- roles -------------------------------------------------------------------------------------------------------

    def lead(self, key: PartitionKey, log: ReplicaLog, partition: PartitionRegistration, now_ms: int) -> None:
        """Begin an epoch of leadership, or take over a change of the partition within it."""
        known = self.partitions.get(key)
        if known is not None and known.state.leader_epoch == partition.leader_epoch:
            end = log.log_end_offset
            known.state.change(partition.replicas, partition.isr, partition.partition_epoch, end, now_ms)
            known.note_followers()
            self._moved(known)
            return
        self._leave(key)
        log.lead(partition.leader_epoch)
        state = LeaderState(
            self.node_id,
            self.image,
            replicas=partition.replicas,
            isr=partition.isr,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            start_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            min_in_sync_replicas=self.min_isr,
            max_lag_ms=LAG_MS,
            now_ms=now_ms,
        )
        leader = self.partitions[key] = Leader(key, log, state, now_ms)
        self._checks.leader_began(leader, self.node_id)
        state.advance(log.log_end_offset, now_ms)
        self._moved(leader)
        if self.member is not None:
            self.member.led(leader)

    def resign(self, key: PartitionKey) -> None:
        """Lead a partition no longer: clients learn NOT_LEADER_OR_FOLLOWER, and may find their records or not."""
        self._leave(key)
        if self.member is not None:
            self.member.lost(key[1])

    def _leave(self, key: PartitionKey) -> None:
        known = self.partitions.pop(key, None)
        if known is not None:
            known.state.wake_followers()
            self.isr_changes.forget(key)
            for each in known.waiting:
                each.write.outcome = "unknown"
        self.version += 1

    def brokers_changed(self, now_ms: int) -> None:
        """The metadata has another set of active brokers."""
        for each in self.partitions.values():
            each.state.advance(each.log.log_end_offset, now_ms)
            self._moved(each)

    def _moved(self, leader: Leader) -> None:
        """Answer what is committed now."""
        self.version += 1
        state, log = leader.state, leader.log
        if state.high_watermark != log.high_watermark:
            before, log.high_watermark = log.high_watermark, state.high_watermark
            state.end_rests()
            self._checks.committed(leader, self.node_id, before)
            if self.member is not None:
                self.member.committed(leader)
        while leader.waiting and leader.waiting[0].offset < state.high_watermark:
            offset, write = leader.waiting.pop(0)
            if state.had_enough_replicas:
                write.outcome = "acked"
                self._checks.acked(leader, self.node_id, offset)
            else:
                write.outcome = "unknown"
        self._checks.led(leader, self.node_id)

    # -- clients -----------------------------------------------------------------------------------------------------

    def produce(self, key: PartitionKey, write: Write, now_ms: int) -> int:
        """Append a client's record; return an error code. Raises LogFailed."""
        leader = self.partitions.get(key)
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if write.acks_all and not leader.state.has_enough_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        log = leader.log
        self._checks.writing(leader, self.node_id)
        offset = log.write(leader.state.leader_epoch, write.value)
        leader.state.wake_followers()
        if write.acks_all:
            leader.waiting.append(Waiting(offset, write))
        else:
            write.outcome = "acked"
        leader.state.advance(log.log_end_offset, now_ms)
        self._moved(leader)
        return ErrorCode.NONE

    def append(self, leader: Leader, batch: bytes, now_ms: int) -> int:
        """Append a batch of a coordinator or of its clients; return its offset. Raises LogFailed."""
        log = leader.log
        self._checks.writing(leader, self.node_id)
        offset = log.write(leader.state.leader_epoch, batch)
        leader.state.wake_followers()
        leader.state.advance(log.log_end_offset, now_ms)
        self._moved(leader)
        return offset

    def delete_records(self, key: PartitionKey, offset: int) -> None:
        """DeleteRecords, up to the high watermark."""
        leader = self.partitions.get(key)
        if leader is not None:
            leader.log.log_start_offset = max(leader.log.log_start_offset, min(offset, leader.state.high_watermark))
            self._checks.deleted(key, leader.log.log_start_offset)
            leader.state.wake_followers()
            self.version += 1
            self._checks.led(leader, self.node_id)

    # -- followers ---------------------------------------------------------------------------------------------------

    def fetch(self, request: Struct, now_ms: int) -> Struct:
        """Answer a follower's Fetch."""
        session, session_id = self._session(request)
        if session is None:
            return FETCH.response.new(error_code=session_id)
        follower_id, follower_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
        due = self._begin(session, request, now_ms)
        for key in [] if due is None else [each for each in session.partitions if each not in due.due]:
            check_rest(self, session, key, follower_id, now_ms)
            registered = self.image.broker_epoch(follower_id)
            self.partitions[key].note_fetch(follower_id, follower_epoch, session.partitions[key], registered, now_ms)
        topics: dict[bytes, list[Struct]] = {}
        for key in list(session.partitions if due is None else due.due):
            asked, leader = session.partitions[key], self.partitions.get(key)
            follower = None if leader is None else leader.state.followers.get(follower_id)
            if due is not None and follower is not None:
                follower.read_by(due, key)
            data = self._read(key, asked, follower_id, follower_epoch, now_ms)
            is_new = session.known.get(key) != (offsets := (data.high_watermark, data.log_start_offset))
            session.known[key] = offsets
            if is_new or data.records or data.error_code or data.diverging_epoch.end_offset >= 0:
                topics.setdefault(key[0], []).append(data)
            elif (
                due is not None
                and leader is not None
                and follower is not None
                and leader.state.may_rest(follower, follower_epoch, leader.log.log_end_offset)
            ):
                due.rest(key, follower)
        responses = [
            FetchableTopicResponse.new(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()
        ]
        return FETCH.response.new(session_id=session_id, responses=responses)

    def _begin(self, session: Session, request: Struct, now_ms: int) -> FollowerSession[PartitionKey] | None:
        """Count the fetch for all partitions of its session. Return those that are due; None if all have to be read."""
        follower = request.replica_state
        if request.session_epoch == 0:
            return None
        if session.due is None:
            session.due = FollowerSession(session.partitions, _wake_nobody)
        session.due.begin_fetch(
            follower.replica_id,
            follower.replica_epoch,
            [(topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions],
            [(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions],
            now_ms,
            counts=is_current(self.image, follower.replica_id, follower.replica_epoch),
        )
        return session.due

    def _session(self, request: Struct) -> tuple[Session | None, int]:
        """Return the session and its id, or None and an error code."""
        if request.session_epoch == 0:
            self._sessions.pop(request.session_id, None)
            self._last_session += 1
            session = self._sessions[self._last_session] = Session()
            session_id = self._last_session
        else:
            session_id = request.session_id
            found = self._sessions.get(session_id)
            if found is None:
                return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if request.session_epoch != found.epoch:
                return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session = found
        session.epoch += 1
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.partitions.pop((topic.topic_id, index), None)
        for topic in request.topics:
            for each in topic.partitions:
                session.partitions[topic.topic_id, each.partition] = each
        return session, session_id

    def _refusal(self, leader: Leader | None, epoch: int) -> int:
        """Compare a request's leader epoch with ours (KIP-320)."""
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch < leader.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > leader.state.leader_epoch else ErrorCode.NONE

    @staticmethod
    def _divergence(log: ReplicaLog, asked: Struct) -> Struct | None:
        """Return the end of the follower's last epoch in our log, if the follower's log goes beyond it (KIP-595)."""
        if asked.last_fetched_epoch < 0:
            return None
        end = log.end_of_epoch(asked.last_fetched_epoch)
        if end.epoch == asked.last_fetched_epoch and end.end_offset >= asked.fetch_offset:
            return None
        return EpochEndOffset.new(epoch=end.epoch, end_offset=end.end_offset)

    def _read(self, key: PartitionKey, asked: Struct, follower_id: int, follower_epoch: int, now_ms: int) -> Struct:
        """Answer for one partition, and note the fetch."""
        data, leader = self.look(key, asked, follower_id), self.partitions.get(key)
        if leader is not None and not data.error_code and data.diverging_epoch.end_offset < 0:
            self._fetched(leader, follower_id, follower_epoch, asked, now_ms)
            data.high_watermark = leader.state.high_watermark
        return data

    def look(self, key: PartitionKey, asked: Struct, follower_id: int) -> Struct:
        """Return what a fetch would find in a partition. Changes nothing."""
        leader = self.partitions.get(key)
        error = self._refusal(leader, asked.current_leader_epoch)
        if error or leader is None:
            return PartitionData.new(partition_index=key[1], error_code=error, records=None)
        log, offset = leader.log, asked.fetch_offset
        fields: dict[str, Any] = {"high_watermark": leader.state.high_watermark, "records": None}
        if follower_id not in leader.state.followers:
            fields["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not log.log_start_offset <= offset <= log.log_end_offset and asked.last_fetched_epoch < 0:
            fields["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
        elif (diverging := self._divergence(log, asked)) is not None:
            if diverging.end_offset < 0:
                fields["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                fields["diverging_epoch"] = diverging
        elif not log.log_start_offset <= offset <= log.log_end_offset:
            fields["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
        elif records := log.read(offset, MOST_RECORDS):
            fields["records"] = records
        return PartitionData.new(partition_index=key[1], log_start_offset=log.log_start_offset, **fields)

    def _fetched(self, leader: Leader, follower_id: int, follower_epoch: int, asked: Struct, now_ms: int) -> None:
        end, state = leader.log.log_end_offset, leader.state
        leader.note_fetch(follower_id, follower_epoch, asked, self.image.broker_epoch(follower_id), now_ms)
        follower = state.followers[follower_id]
        before = follower.log_end_offset
        moved = state.fetched(follower_id, follower_epoch, asked.fetch_offset, asked.log_start_offset, end, now_ms)
        if moved or before != follower.log_end_offset:
            self._moved(leader)
        self._propose(leader, state.expansion(follower_id), now_ms)

    # -- changes of the ISR ------------------------------------------------------------------------------------------

    def _propose(self, leader: Leader, proposal: Proposal | None, now_ms: int) -> None:
        if proposal is not None:
            self._checks.proposed(leader, proposal, now_ms)
            self.isr_changes.propose(leader.key, proposal)

    def check_lag(self, now_ms: int) -> None:
        """Propose smaller ISRs, each half of the lag time."""
        for leader in self.partitions.values():
            check_caught_up(leader)
            if now_ms - leader.checked_ms >= LAG_MS // 2:
                leader.checked_ms = now_ms
                self._propose(leader, leader.state.shrinkage(leader.log.log_end_offset, now_ms), now_ms)

    def isr_answered(self, response: Struct, now_ms: int) -> None:
        for answer in self.isr_changes.answered(response):
            leader = self.partitions.get(answer.key)
            if leader is None or leader.state.leader_epoch != answer.proposal.leader_epoch:
                continue
            end = leader.log.log_end_offset
            if answer.outcome is Outcome.COMMITTED:
                at = answer.proposal.partition_epoch
                epochs = answer.leader_epoch, answer.partition_epoch
                leader.state.committed(answer.isr, *epochs, end, now_ms, proposed_at=at)
            elif answer.outcome is Outcome.REFUSED:
                leader.state.refused(answer.proposal.partition_epoch, end, now_ms)
            self._moved(leader)


__all__ = ["Leader", "Leaders", "LogFailed", "Session", "Waiting"]
