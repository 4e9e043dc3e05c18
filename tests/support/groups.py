"""A group coordinator without a broker: its log is a list, and a test advances its clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Self

from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.group.classic.heartbeat import heartbeat
from coordinator.group.classic.join import join_group
from coordinator.group.classic.join_request import check_join, join_error, read_join
from coordinator.group.classic.leave import leave_group
from coordinator.group.classic.sync import sync_group
from coordinator.group.cluster import Cluster
from coordinator.group.deadlines import on_deadline, on_loaded
from coordinator.group.expiry import expired_groups, expired_offsets
from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.offset_commit import check_commit, commit_offsets
from coordinator.group.records import StoredRecord
from coordinator.group.refused import Refused
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.shard import Producer
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from protocol.records.batch import NO_PRODUCER_ID
from protocol.schema import Struct


class ParkedRequest:
    """A Waiter that keeps its answer."""

    def __init__(self, api_version: int = 9) -> None:
        self.api_version = api_version
        self.response: Struct | None = None

    def answer(self, response: Struct) -> None:
        assert self.response is None, "answered twice"
        self.response = response

    @property
    def code(self) -> ErrorCode:
        """Return the error code of the answer, which must be there."""
        assert self.response is not None, "not answered yet"
        return ErrorCode(self.response.error_code)


def subscription(*topics: str) -> bytes:
    """Return a consumer's metadata: version 0, topics, no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


@dataclass
class GroupHarness:
    """A shard with its log and clock. The methods below make requests; a restart would load `log`."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    wall_ms: int = 1_700_000_000_000
    tick_ms: float = 5_000.0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    failure: ErrorCode = ErrorCode.NONE
    """The error of the next writes."""
    topics: Cluster | None = None

    def __post_init__(self) -> None:
        self.timers: Timers[TimerKey] = Timers()
        self.shard = GroupShard(GROUP_KINDS, 0, self.settings, self.timers, self.topics)
        self.notes: list[tuple[object, ...]] = []
        self._uuids = count(1)

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.tick_ms)

    def write(self, records: Sequence[StoredRecord], producer: Producer | None = None) -> ErrorCode:
        """Append and replay, or fail as ordered."""
        if self.failure is not ErrorCode.NONE:
            return self.failure
        for record in records:
            self.log.append((record.key, record.value))
            self.shard.replay(record, len(self.log) - 1, NO_PRODUCER_ID if producer is None else producer.producer_id)
        return ErrorCode.NONE

    def written_types(self, since: int = 0) -> list[int]:
        """Return the types of the records in the log from number `since` on."""
        return [int.from_bytes(key[:2], "big") for key, _ in self.log[since:]]

    def decided(self, decide: Callable[[GroupEffects], Struct], response: Callable[..., Struct]) -> Struct:
        """Return the answer that a decision gives; a refused one is a `response` with code and message."""
        answers: list[Struct] = []
        try:
            code = self.run(lambda effects: answers.append(decide(effects)))
        except Refused as refusal:
            return response(error_code=refusal.code, error_message=refusal.message)
        return response(error_code=code) if code is not ErrorCode.NONE else answers[0]

    def run(self, decide: Callable[[GroupEffects], None]) -> ErrorCode:
        """Carry out a decision."""
        effects: GroupEffects = Effects()
        decide(effects)
        code = carry_out(effects, self.write)
        self.notes += effects.notes
        return code

    def expire_offsets(self, now_ms: int | None = None) -> list[StoredRecord]:
        """Expire offsets; return the records written for that."""
        removed: list[StoredRecord] = []
        for walk in (
            expired_offsets(self.shard, self.wall_ms if now_ms is None else now_ms),
            expired_groups(self.shard),
        ):
            for records in walk:
                removed += records
                self.write(records)
        return removed

    def advance(self, milliseconds: int) -> None:
        """Advance the time, deadline by deadline."""
        target = self.tick_ms + milliseconds
        while (check := self.timers.next_check_ms()) is not None and check <= target:
            self._move_to(max(check, self.tick_ms))
            for key in self.timers.expire(self.tick_ms):
                self.run(lambda effects, key=key: on_deadline(self.shard, key, self.now, effects))  # type: ignore[misc]
        self._move_to(target)

    def _move_to(self, tick_ms: float) -> None:
        self.wall_ms += int(tick_ms - self.tick_ms)
        self.tick_ms = tick_ms

    def reloaded(self) -> Self:
        """Return a coordinator that loads this one's log, at the same time."""
        other = replace(self, log=list(self.log), failure=ErrorCode.NONE)
        other._uuids = self._uuids
        for offset, (key, value) in enumerate(self.log):
            other.shard.replay(other.shard.parse(key, value), offset)
        other.run(lambda effects: on_loaded(other.shard, other.now, effects))
        return other

    # -- requests ---------------------------------------------------------------------------------------------------

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", subscription("t")),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str | None = "client",
    ) -> ParkedRequest:
        """Send a JoinGroup. The caller handles a newcomer's MEMBER_ID_REQUIRED."""
        parked = ParkedRequest(version)
        request = JOIN_GROUP.request(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        join = read_join(request, parked, client_id, "/127.0.0.1", f"uuid{next(self._uuids)}")
        code = check_join(self.settings, join)
        if code is ErrorCode.NONE:
            self.run(lambda effects: join_group(self.shard, join, self.now, effects))
        else:
            parked.answer(join_error(code, join.member_id))
        return parked

    def enter(self, group_id: str = "g", **options: object) -> ParkedRequest:
        """Join as a new dynamic member: ask for an id, then join with it."""
        first = self.join(group_id, **options)  # type: ignore[arg-type]
        if first.response is None or first.code is not ErrorCode.MEMBER_ID_REQUIRED:
            return first
        return self.join(group_id, first.response.member_id, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> ParkedRequest:
        """Send a SyncGroup."""
        parked = ParkedRequest(5)
        request = SYNC_GROUP.request(
            group_id=group_id,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in (assignments or {}).items()
            ],
        )
        self.run(lambda effects: sync_group(self.shard, request, parked, self.now, effects))
        return parked

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None, group_id: str = "g") -> ErrorCode:
        """Send a Heartbeat."""
        return heartbeat(self.shard, group_id, member_id, instance, generation, self.now)

    def leave(self, *members: tuple[str, str | None], group_id: str = "g") -> list[ErrorCode]:
        """Send a LeaveGroup of members given as (member id, instance id); return the code of each."""
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        responses: list[Struct] = []

        def decide(effects: GroupEffects) -> None:
            responses.append(leave_group(self.shard, group_id, identities, self.now, effects))

        self.run(decide)
        return [ErrorCode(member.error_code) for member in responses[0].members]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group_id: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
        version: int = 9,
    ) -> ErrorCode:
        """Send an OffsetCommit of {(topic, partition): offset}; return its code, or that of the first partition."""
        request = OFFSET_COMMIT.request(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        code = check_commit(self.shard, request, request.topics, version)
        if code is not ErrorCode.NONE:
            return code
        topics: list[Struct] = []
        code = self.run(lambda effects: topics.extend(commit_offsets(self.shard, request, self.now, effects)))
        return code or ErrorCode(topics[0].partitions[0].error_code)

    def stable_group(self, members: int = 1, group_id: str = "g", **options: object) -> list[str]:
        """Create a group of so many members, the leader first; the assignment of each is its own id."""
        parked = [self.enter(group_id, **options) for _ in range(members)]
        self.advance(self.settings.initial_rebalance_delay_ms)
        while any(each.response is None for each in parked):
            self.advance(self.settings.initial_rebalance_delay_ms)
        generation = parked[0].response.generation_id  # type: ignore[union-attr]
        leader = parked[0].response.leader  # type: ignore[union-attr]
        ids = [each.response.member_id for each in parked]  # type: ignore[union-attr]
        for member in ids:
            if member != leader:
                self.sync(member, generation, group_id=group_id)
        self.sync(leader, generation, {member: member.encode() for member in ids}, group_id=group_id)
        return sorted(ids, key=lambda member: member != leader)
