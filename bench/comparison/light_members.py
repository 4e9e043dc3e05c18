"""Members of groups that need so little that thousands fit into one process.

Each has one connection with one request in flight; `on_answer` sends the next. They read no records. There are members
of the classic protocol (JoinGroup v9, the leader assigns partitions), of KIP-848 (ConsumerGroupHeartbeat v0), of share
groups (KIP-932) and of streams groups (KIP-1071), whose topology has one task for each partition.
"""

from __future__ import annotations

import heapq
import selectors
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct
from tests.support.brokers import HOST
from tests.support.groups import subscription
from tests.support.streams_groups import request as streams_request
from tests.support.streams_groups import subtopology, task_map, topology
from tests.support.wire import WireClient

_SESSION_MS = 45_000
_REBALANCE_MS = 60_000
#: the coordinator is not there yet, or moved
_TRY_AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class LightMember(WireClient, ABC):
    """`epoch`: of the group as this member knows it; `partitions`: its assignment, None while it waits for one."""

    def __init__(self, port: int, group: str, topic: str, partition_count: int) -> None:
        super().__init__(HOST, port)
        self.group, self.topic, self.partition_count = group, topic, partition_count
        self.member_id = ""
        self.epoch = 0
        self.partitions: frozenset[int] | None = None
        self.beat_count = 0

    @abstractmethod
    def enter(self) -> None:
        """Join the group, or rejoin it."""

    @abstractmethod
    def beat(self) -> None:
        """Send a heartbeat."""

    @abstractmethod
    def on_answer(self) -> None:
        """Handle the answer that arrived, and continue."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way."""
        return len(self.session) > 0

    def _take(self) -> tuple[int, ErrorCode, Struct]:
        """API key, error and answer, without the checks of a test."""
        response = self.receive_unchecked()
        answer, api = response.fields, response.request.api
        return api.key, ErrorCode(answer.error_code), answer


class ClassicMember(LightMember):
    def enter(self) -> None:
        self.partitions = None
        protocols = [{"name": "range", "metadata": subscription(self.topic)}]
        timeouts = {"session_timeout_ms": _SESSION_MS, "rebalance_timeout_ms": _REBALANCE_MS}
        own = {"group_id": self.group, "member_id": self.member_id, "protocol_type": "consumer"}
        self.send(JOIN_GROUP, 9, own | timeouts, protocols=protocols)

    def beat(self) -> None:
        self.send(HEARTBEAT, 4, group_id=self.group, generation_id=self.epoch, member_id=self.member_id)

    def on_answer(self) -> None:
        key, code, answer = self._take()
        if code is not ErrorCode.NONE:
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
                assert code in _TRY_AGAIN, code
                time.sleep(0.05)
            self.enter()
        elif key == JOIN_GROUP.key:
            self.epoch, self.member_id = answer.generation_id, answer.member_id
            self._sync([each.member_id for each in answer.members])
        elif key == SYNC_GROUP.key:
            size = len(self.topic) + 12  # version, one topic, its name, the number of its partitions
            numbers = bytes(answer.assignment)[size:-4]
            self.partitions = frozenset(number for (number,) in struct.iter_unpack(">i", numbers))
        else:
            self.beat_count += 1

    def _sync(self, members: Sequence[str]) -> None:
        """Send all assignments, if this is the leader."""
        shares = []
        for place, member in enumerate(members):
            mine = range(place, self.partition_count, len(members))
            name = len(self.topic).to_bytes(2, "big") + self.topic.encode()
            head = b"\0\0" + (1).to_bytes(4, "big") + name + len(mine).to_bytes(4, "big")
            data = head + struct.pack(f">{len(mine)}i", *mine) + b"\xff\xff\xff\xff"
            shares.append({"member_id": member, "assignment": data})
        own = {"group_id": self.group, "generation_id": self.epoch, "member_id": self.member_id}
        self.send(SYNC_GROUP, 5, own, protocol_type="consumer", protocol_name="range", assignments=shares)


class ModernMember(LightMember):
    """A member whose heartbeats do everything. It reports at once what it gave up or got, as clients do."""

    def enter(self) -> None:
        self.epoch, self.partitions = 0, None
        self._send(**self._subscription())

    def beat(self) -> None:
        self._send()

    def on_answer(self) -> None:
        _, code, answer = self._take()
        if code is not ErrorCode.NONE:
            assert code in _TRY_AGAIN, answer
            time.sleep(0.05)
            self.enter()
            return
        self.beat_count += 1
        self.epoch = answer.member_epoch
        self._follow(answer)

    @abstractmethod
    def _subscription(self) -> dict[str, Any]:
        """Return the fields of the first heartbeat."""

    @abstractmethod
    def _send(self, **news: Any) -> None:
        """Send a heartbeat with these fields."""

    def _follow(self, answer: Struct) -> None:
        """Take the assignment of an answer."""
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
            self.partitions = frozenset(number for topic in owned for number in topic.partitions)

    def _own(self) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}


class ConsumerMember(ModernMember):
    """A member of a consumer group (KIP-848); the broker chooses its id."""

    def _subscription(self) -> dict[str, Any]:
        topics = [self.topic]
        return {"rebalance_timeout_ms": _REBALANCE_MS, "subscribed_topic_names": topics, "topic_partitions": []}

    def _send(self, **news: Any) -> None:
        self.send(CONSUMER_GROUP_HEARTBEAT, 0, self._own(), **news)

    def _follow(self, answer: Struct) -> None:
        self.member_id = answer.member_id
        super()._follow(answer)
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
            self._send(topic_partitions=[{"topic_id": each.topic_id, "partitions": each.partitions} for each in owned])


class ShareMember(ModernMember):
    """A member of a share group. If there are more partitions than members, each partition has one reader."""

    def _subscription(self) -> dict[str, Any]:
        self.member_id = self.member_id or str(uuid4())
        return {"subscribed_topic_names": [self.topic]}

    def _send(self, **news: Any) -> None:
        self.send(SHARE_GROUP_HEARTBEAT, 1, self._own(), **news)


class StreamsMember(ModernMember):
    """A member of a streams group, a process of its own."""

    def _subscription(self) -> dict[str, Any]:
        self.member_id = self.member_id or str(uuid4())
        return {"told": topology(subtopology("0", [self.topic]))}

    def _send(self, **news: Any) -> None:
        self.send(STREAMS_GROUP_HEARTBEAT, 0, streams_request(self.member_id, self.epoch, group_id=self.group, **news))

    def _follow(self, answer: Struct) -> None:
        if answer.active_tasks is not None:
            tasks = task_map(answer.active_tasks) or {}
            self.partitions = frozenset(tasks.get("0", ()))
            self._send(active=tasks)


class Crowd:
    """Members, each of which sends a heartbeat every `interval_s` while it has no request in flight."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.members: list[LightMember] = []
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, LightMember]] = []
        self._numbers = count()

    def add(self, member: LightMember) -> None:
        """Let a member enter its group."""
        self.members.append(member)
        self._selector.register(member.socket, selectors.EVENT_READ, member)
        self._beat_later(member, time.monotonic())
        member.enter()

    def close(self) -> None:
        """Disconnect all members."""
        for member in self.members:
            member.close()
        self._selector.close()

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Run until that time (monotonic), or until `done()`, checked after each answer; return whether it was done."""
        while (now := time.monotonic()) < until:
            while self._due[0][0] <= now:
                _, _, member = heapq.heappop(self._due)
                if not member.is_waiting and member.partitions is not None:
                    member.beat()
                self._beat_later(member, now)
            for key, _ in self._selector.select(min(until, self._due[0][0]) - now):
                key.data.on_answer()
                if done():
                    return True
        return False

    def _beat_later(self, member: LightMember, now: float) -> None:
        heapq.heappush(self._due, (now + self.interval_s, next(self._numbers), member))


def are_settled(members: Sequence[LightMember]) -> bool:
    """Return whether a group is at one epoch, each partition has one owner, and no request is in flight."""
    if len({member.epoch for member in members}) > 1 or any(member.partitions is None for member in members):
        return False
    owned = [partition for member in members for partition in member.partitions or ()]
    wanted = members[0].partition_count
    return len(owned) == wanted == len(set(owned)) and min(len(member.partitions or ()) for member in members) > 0
