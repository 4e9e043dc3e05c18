"""The part of a broker that the group coordinator and its handlers use: logs in memory, time that a test advances.

The functions at the end are calls of members of classic groups, with defaults for most fields.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker.coordinators.group.coordinator import OFFSETS_TOPIC, GroupCoordinator
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Handler
from config.keys import BROKER_KEYS
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.sync_group import SYNC_GROUP
from protocol.records.batch import parse_header
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.append.header_validation import AppendOrigin
from storage.errors import LogOffline, RecordTooLarge
from tests.support.batch_values import patch_in_place
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.groups import subscription
from tests.support.offered import handler_of
from tests.support.plain_values import request_of

DEFAULTS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.max.size": 2_147_483_647,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "offsets.topic.compression.codec": 0,
    "offsets.load.buffer.size": 5_242_880,
    "group.consumer.max.size": 2_147_483_647,
    "group.consumer.assignors": ("uniform", "range"),
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.regex.refresh.interval.ms": 600_000,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.assignment.interval.ms": 1_000,
    "group.share.max.size": 200,
    "group.share.initialize.retry.interval.ms": 30_000,
    "group.streams.max.size": 2_147_483_647,
    "group.streams.session.timeout.ms": 45_000,
    "group.streams.heartbeat.interval.ms": 5_000,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.num.standby.replicas": 0,
    "group.streams.acceptable.recovery.lag": 10_000,
    "group.streams.task.offset.interval.ms": 60_000,
    "group.streams.min.task.offset.interval.ms": 15_000,
    "group.streams.rack.aware.assignment.tags": (),
    "group.streams.topology.description.plugin.class": None,
    "group.coordinator.rebalance.protocols": ("classic", "consumer", "streams"),
}


class MemoryPartition:
    """A partition whose log is a list of batches."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.topic = OFFSETS_TOPIC
        self.hosted = True
        self.online = True
        self.batches: list[bytes] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.failure: Exception | None = None
        self.few_replicas = False
        self.must_wait = False
        self.log = self
        self.config = SimpleNamespace(max_message_bytes=1_048_588)
        self.reads = 0
        segment = SimpleNamespace(base_offset=0, size_bytes=0, log=SimpleNamespace(path="memory"))
        self.segments = SimpleNamespace(from_offset=lambda offset: [segment])

    def __repr__(self) -> str:
        return f"{OFFSETS_TOPIC}-{self.index}"

    @property
    def log_config(self) -> SimpleNamespace:
        return self.config

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset

    def is_under_min_isr(self) -> bool:
        return self.few_replicas

    def append(self, batch: bytes, now_ms: int, origin: AppendOrigin) -> SimpleNamespace:
        assert origin is AppendOrigin.COORDINATOR
        if self.failure is not None:
            raise self.failure
        if len(batch) > self.config.max_message_bytes:
            raise RecordTooLarge(len(batch), self.config.max_message_bytes)
        placed = bytearray(batch)
        base_offset = self.log_end_offset
        patch_in_place(placed, 0, base_offset, 0)
        self.batches.append(bytes(placed))
        self.log_end_offset = parse_header(placed).next_offset
        return SimpleNamespace(base_offset=base_offset, must_wait=self.must_wait)

    def segment_of(self, offset: int) -> tuple[str, int]:
        return repr(self), self.log_end_offset

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Return whole batches from the one that holds `offset`, at least one, about `max_bytes`; then a cut tail."""
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        found = b""
        for batch in self.batches:
            if parse_header(batch).next_offset > offset:
                if found and len(found) + len(batch) > max_bytes:
                    return found + batch[:20]
                found += batch
        return found

    def go_offline(self) -> None:
        self.failure = LogOffline("/data", "disk on fire")


class MemoryController:
    """Topics by name and id; `ensure` creates the coordinator's topic at the next turn of the loop."""

    def __init__(self, broker: GroupBroker) -> None:
        self.image = self
        self.topics: dict[str, SimpleNamespace] = {}
        self.brokers: dict[int, object] = {broker.config.node_id: SimpleNamespace(rack=None)}
        self.features = {"group.version": 1, "streams.version": 1}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.last_offset = 0
        self.changed: list[Any] = []
        self.refuses = False
        self.deleted: list[Any] = []
        self._broker = broker

    def add(self, name: str, topic_id: bytes = bytes(15) + b"\1", partitions: int = 2) -> SimpleNamespace:
        registrations = {index: SimpleNamespace(leader=1) for index in range(partitions)}
        topic = self.topics[name] = SimpleNamespace(name=name, topic_id=topic_id, partitions=registrations)
        self._changed(created_partitions=[(topic, index) for index in registrations])
        return topic

    def delete(self, name: str) -> None:
        topic = self.topics.pop(name)
        self._changed(deleted_topics=[topic])
        for callback in self.deleted:
            callback(topic)

    def topic(self, name: str) -> SimpleNamespace | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> SimpleNamespace | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def _changed(self, **lists: Any) -> None:
        self.last_offset += 1
        delta = {"created_partitions": [], "deleted_topics": [], "changed_partitions": {}, **lists}
        for callback in self.changed:
            callback(SimpleNamespace(**delta))

    @property
    def topics_by_name(self) -> dict[str, SimpleNamespace]:
        return self.topics

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        return self.configs.get((resource_type, name), {})

    def on_change(self, callback: Any) -> None:
        self.changed.append(callback)

    def on_topic_deleted(self, callback: Any) -> None:
        self.deleted.append(callback)

    def partition_count(self, name: str) -> int:
        return len(self.topics[name].partitions) if name in self.topics else 0

    def ensure(self, name: str) -> Deferred[bool]:
        made: Deferred[bool] = Deferred()

        def make() -> None:
            if not self.refuses:
                self.add(name, name.encode()[:16], 4)
                if name == OFFSETS_TOPIC:
                    self._broker.host(4)
            made.resolve(not self.refuses)

        self._broker.loop.call_soon(make)
        return made


class GroupBroker:
    """The broker. `call` sends a client's request and returns the answer as far as it is ready."""

    def __init__(self, settings: dict[str, Any] | None = None, *, partitions: int = 4, start: bool = True) -> None:
        values: dict[str, Any] = {**DEFAULTS, **(settings or {})}

        def get(key: str) -> Any:
            return values[key] if key in values else BROKER_KEYS[key].default

        self.config = SimpleNamespace(
            get_int=get,
            get_list=get,
            get_str=get,
            subscribe=lambda keys, callback: None,
            node_id=1,
            rack=None,
            advertised=lambda name: None,
            listeners=(),
        )
        self.guard = None
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        self.timers = Timers(self.loop, self.clock)
        self.hosted: dict[int, MemoryPartition] = {}
        self.partitions = SimpleNamespace(
            of_topic=lambda topic: self.hosted if topic == OFFSETS_TOPIC else {},
            get=lambda topic, index: self.hosted.get(index) if topic == OFFSETS_TOPIC else None,
        )
        self.controller = self.metadata = self.topics = MemoryController(self)
        if partitions:
            self.host(partitions)
        self.flushes: list[Deferred[None]] = []
        self.durability = SimpleNamespace(relied_on=self._flush, may_wait=lambda partition: partition.must_wait)
        self.groups = GroupCoordinator(self, self.controller, None)  # type: ignore[arg-type]
        if start:
            self.groups.start()

    def _flush(self, log: MemoryPartition) -> Deferred[None]:
        """Return a flush that the test completes."""
        self.flushes.append(Deferred())
        return self.flushes[-1]

    def host(self, count: int) -> None:
        """Create the coordinator's topic, with empty partitions."""
        self.controller.add(OFFSETS_TOPIC, b"o" * 16, count)
        self.hosted.update({index: MemoryPartition(index) for index in range(count)})

    def restarted(self, settings: dict[str, int] | None = None, *, start: bool = True) -> GroupBroker:
        """Return a broker on the same logs and topics."""
        other = GroupBroker(settings, partitions=0, start=False)
        other.hosted.update(self.hosted)
        other.controller.topics = dict(self.controller.topics)
        other.clock.advance(self.clock.monotonic_ms() - other.clock.monotonic_ms())
        if start:
            other.groups.start()
        return other

    def context(self, api: Api, version: int, client_id: str | None = "client") -> RequestContext:
        connection = SimpleNamespace(client_host="127.0.0.1", local_host="10.0.0.1", local_port=9092, listener_name="L")
        return RequestContext(connection, api, version, 1, client_id)

    def handler(self, api: Api) -> Handler:
        """Return the handler of an API, bound to this broker."""
        return handler_of(self, api)

    def send(self, api: Api, version: int, **fields: Any) -> Deferred[Struct]:
        """Serve a request as decoded from the wire; the answer may come later."""
        request, _ = api.request.decode(version, api.request.encode(version, request_of(api, fields)))
        reply = self.handler(api)(self.context(api, version), request)
        assert reply is not None
        return reply if isinstance(reply, Deferred) else Deferred.resolved(reply)

    def call(self, api: Api, version: int, **fields: Any) -> Struct:
        """Serve a request that is answered at once, or after everything pending has run; return it as encoded on the
        wire.
        """
        reply = self.send(api, version, **fields)
        self.advance(0)
        response, _ = api.response.decode(version, api.response.encode(version, reply.result()))
        return response

    def advance(self, milliseconds: int) -> None:
        """Advance the time."""
        self.loop.settle()
        self.loop.advance(milliseconds)
        self.loop.settle()

    def partition_of(self, group_id: str) -> MemoryPartition:
        """Return the partition that stores a group."""
        from coordinator.partition_for_key import partition_for

        return self.hosted[partition_for(group_id, len(self.hosted))]


def code_of(response: Struct) -> ErrorCode:
    """Return the top-level error of an answer."""
    return ErrorCode(response.error_code)


def join(
    broker: GroupBroker, group_id: str = "g", member_id: str = "", version: int = 3, **fields: Any
) -> Deferred[Struct]:
    """Send a member's JoinGroup, which waits for the others."""
    fields.setdefault("session_timeout_ms", 10_000)
    fields.setdefault("rebalance_timeout_ms", 60_000)
    protocols = [{"name": "range", "metadata": subscription("t")}]
    return broker.send(
        JOIN_GROUP,
        version,
        group_id=group_id,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


def stable_member(broker: GroupBroker, group_id: str = "g") -> str:
    """Return the only member of a stable group of generation 1."""
    joined = join(broker, group_id)
    broker.advance(0)
    member_id: str = joined.result().member_id
    answer = broker.call(
        SYNC_GROUP,
        5,
        group_id=group_id,
        member_id=member_id,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
    )
    assert code_of(answer) is ErrorCode.NONE
    return member_id


def commit(broker: GroupBroker, offset: int, group_id: str = "g", topic: str = "t", partition: int = 0) -> ErrorCode:
    partitions = [{"partition_index": partition, "committed_offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    answer = broker.call(OFFSET_COMMIT, 9, group_id=group_id, topics=topics)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetched(broker: GroupBroker, group_id: str = "g", topic: str = "t", partition: int = 0) -> int:
    """Return the committed offset."""
    topics = [{"name": topic, "partition_indexes": [partition]}]
    answer = broker.call(OFFSET_FETCH, 7, group_id=group_id, topics=topics)
    assert answer.error_code == 0
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def heartbeat(broker: GroupBroker, member_id: str, group_id: str = "g", generation: int = 1) -> ErrorCode:
    return code_of(broker.call(HEARTBEAT, 4, group_id=group_id, member_id=member_id, generation_id=generation))


def failing_for(what: str | int, decide: Callable[..., None]) -> Callable[..., None]:
    """Return a decision that fails for one group, or for all groups of one partition."""

    def fail_or_decide(shard: GroupShard, *arguments: Any) -> None:
        if what in (shard.partition, getattr(arguments[0], "group_id", None)):
            raise ValueError(f"of {what}")
        decide(shard, *arguments)

    return fail_or_decide
