"""One of the two brokers that serve the same history of a group: its clients, and its answers in words.

Each broker chooses its own member ids. The answers name them by slot, a connection driven by hand, and by the number of
the id within the slot.
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.metadata import METADATA
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.schema import Api, Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.plain_values import request_of
from tests.support.settled import await_coordinator
from tests.support.wire import WireClient

SLOTS = 4
ADMIN = SLOTS  # a slot whose requests never park
NOBODY = "nobody"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Build = Callable[["Side"], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """A request of a slot; `build` makes the fields, with the member ids of the broker that gets it."""

    slot: int
    api: Api
    version: int
    said: str
    build: Build

    def __str__(self) -> str:
        return f"slot {self.slot}: {self.api.name} v{self.version} {self.said}"


@dataclass(slots=True)
class Slot:
    """The generator's knowledge of a member. `member`: the name of its id."""

    member: str = ""
    instance: str | None = None
    generation: int = -1
    protocol: str | None = None
    is_leader: bool = False
    needs_sync: bool = False
    parked: bool = False
    known: list[str] = field(default_factory=list)


class Side:
    """One broker, as the script sees it."""

    def __init__(self, broker: RunningBroker, group_id: str, topic: str) -> None:
        self.broker = broker
        self.group_id = group_id
        self.topic = topic
        self.clients = [self._connect() for _ in range(SLOTS + 1)]
        self.names: dict[str, str] = {}  # member id -> name
        self.ids: dict[str, str] = {"": "", NOBODY: NOBODY}
        self.expected: dict[int, tuple[Api, int]] = {}
        self.topic_id = bytes(16)

    def _connect(self) -> WireClient:
        return WireClient(HOST, self.broker.port, client_id="member")

    def prepare(self) -> None:
        """Create the topic, and wait for the coordinator."""
        admin = self.clients[ADMIN]
        topics = [{"name": self.topic, "num_partitions": 2, "replication_factor": 1}]
        admin.call(CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        await_coordinator(admin, self.group_id)
        eventually(lambda: not admin.call(DESCRIBE_GROUPS, 5, groups=[self.group_id]).groups[0].error_code)
        found = eventually(
            lambda: admin.call(METADATA, 12, topics=[{"name": self.topic}]).topics[0],
            until=lambda topic: not topic.error_code and len(topic.partitions) == 2,
        )
        self.topic_id = found.topic_id

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def hang_up(self, slot: int) -> None:
        """Disconnect the slot's client with its pending request, and connect another."""
        self.clients[slot].close()
        self.clients[slot] = self._connect()
        self.expected.pop(slot, None)

    def send(self, step: Step) -> None:
        request = request_of(step.api, step.build(self), version=step.version)
        self.clients[step.slot].send(step.api, step.version, request)
        self.expected[step.slot] = (step.api, step.version)

    def describe(self) -> Struct:
        """Describe the group as an administrator does."""
        return self.clients[ADMIN].call(DESCRIBE_GROUPS, 5, groups=[self.group_id])

    def receive(self, wait_s: float) -> dict[int, Struct]:
        """Return the answers that arrived, or that arrive first within the time, by slot."""
        slots = {self.clients[slot].socket.fileno(): slot for slot in self.expected}
        sockets = select.poll()
        for descriptor in slots:
            sockets.register(descriptor, select.POLLIN)
        found = {}
        for descriptor, _ in sockets.poll(wait_s * 1000):
            slot = slots[descriptor]
            found[slot] = self.clients[slot].receive()
            del self.expected[slot]
        return found

    def name_ids(self, slot: int, answer: Struct, member: Slot) -> None:
        """Name the ids in an answer."""
        member_id = getattr(answer, "member_id", "")
        if member_id and member_id not in self.names and member_id != NOBODY:
            name = f"m{slot}.{len(member.known)}"
            self.names[member_id], self.ids[name] = name, member_id

    def _place(self, member: Struct) -> tuple[str, str]:
        """Return a sort key that is the same in both brokers."""
        return self.names.get(member.member_id, "?"), _UUID.sub("", repr(member))

    def told(self, answer: Struct) -> str:
        """Return an answer in words that do not depend on the broker."""
        for lists in ("topics", "groups"):
            for each in getattr(answer, lists, None) or ():
                if hasattr(each, "members"):
                    each.members.sort(key=self._place)
        _sort_topics(answer)
        if answer.struct_type is JOIN_GROUP.response:
            answer.members.sort(key=self._place)
        text = repr(answer).replace(repr(self.topic_id), "<topic id>")
        for member_id in sorted(self.names, key=len, reverse=True):
            text = text.replace(member_id, f"<{self.names[member_id]}>")
        return _UUID.sub("<uuid>", text)


def _sort_topics(answer: Struct) -> None:
    """Sort topics and partitions that were not requested by name: Kafka returns them in the order of a hash table."""
    if answer.struct_type is not OFFSET_FETCH.response:
        return
    for holder in (answer, *(getattr(answer, "groups", None) or ())):
        topics = getattr(holder, "topics", None) or []
        topics.sort(key=lambda topic: topic.name)
        for topic in topics:
            topic.partitions.sort(key=lambda partition: partition.partition_index)
