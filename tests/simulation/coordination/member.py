"""The coordinators of one process of a simulated broker: those of a member, over replicas in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from broker.coordinators.group.coordinator import GroupCoordinator
from broker.coordinators.transaction.coordinator import TransactionCoordinator
from broker.coordinators.transaction.markers import PartitionMarkers
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.coordinators.transaction.verification import when_verified
from broker.coordinators.transaction.verifier import CoordinatorVerifier, Verdict
from broker.membership.coordination.committed_answers import (
    OF_GROUPS,
    OF_TRANSACTIONS,
    CommittedAnswers,
    CommittedApi,
)
from broker.membership.coordination.peer_markers import PeerMarkers
from broker.membership.coordination.peer_verifier import PeerVerifier
from broker.membership.coordination.txn_offset_commits import VerifiedCommits
from broker.network.outbound_errors import ConnectionFailed
from broker.requests.binding import bind
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import ServedApi
from config import load
from metadata.partition_registration import NO_LEADER
from protocol.api_keys import ApiKey
from protocol.client_session import PendingRequest, Response
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.simulation.broker import Process
from tests.simulation.coordination.hosted import (
    HostedPartition,
    HostedPartitions,
    HostedShardLog,
    ReplicaDurability,
)
from tests.simulation.coordination.image import ClusterImage, Places
from tests.simulation.leaders import Leader
from tests.simulation.network import Route
from tests.simulation.transport import MARKERS, VERIFY
from tests.support.fake_loop import FakeClock, FakeLoop

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "/logs",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}
WALL_MS = 1_700_000_000_000


@cache
def _settings() -> Any:
    return load(None, overrides=SETTINGS)


class MemberConfig:
    """The configuration of a broker: that of all, with its own node id."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.get_int = _settings().get_int
        self.get_bool = _settings().get_bool

    def __getattr__(self, name: str) -> Any:
        return getattr(_settings(), name)

    def subscribe(self, keys: object, callback: object) -> None:
        """Ignore the listener: no setting changes."""


class Asked(NamedTuple):
    """A request that waits for its connection to another broker."""

    route: Route
    api: Api
    request: Struct
    answered: Deferred[Response]


class Context(NamedTuple):
    """The context of a request, as far as these handlers read it."""

    api: Api
    api_version: int


class Member:
    """The coordinators, and what they need of a process. `serve` answers requests of clients and other brokers.

    `wall_ms`: how far the wall clock of the broker is off. `next_block` returns the first id of a block.
    """

    last_offset = 0

    def __init__(
        self,
        process: Process,
        places: Places,
        transaction_version: int,
        now_ms: int,
        wall_ms: int,
        next_block: Callable[[int], int],
    ) -> None:
        self.process = process
        self.places = places
        self.config: Any = MemberConfig(process.id)
        self.clock = FakeClock(WALL_MS + now_ms + wall_ms, now_ms)
        self.loop: Any = FakeLoop(self.clock)
        self.timers = Timers(self.loop, self.clock)
        self.metadata: Any = ClusterImage(process.image, places, transaction_version)
        self.topics: Any = self
        self.partitions: Any = HostedPartitions(self._is_known)
        self.durability: Any = ReplicaDurability()
        #: Requests to other brokers, by connection in order.
        self.asked: list[Asked] = []
        self._start(next_block)
        self._handlers: dict[int, Callable[..., Any]] = {}

    def _start(self, next_block: Callable[[int], int]) -> None:
        environment: Any = self
        self.producer_ids = ProducerIds(lambda count: Deferred.resolved(next_block(count)))
        self.groups = GroupCoordinator(environment, environment, None)  # type: ignore[arg-type]
        self.markers = PartitionMarkers(environment.partitions, environment, self.durability, self.clock, self._log_at)
        image, soon = self.metadata, self.loop.call_soon
        own = PeerMarkers(self.process.id, image, self.markers, environment, soon)
        self.transactions = TransactionCoordinator(environment, self.groups, self.producer_ids, own)
        self.verifier = PeerVerifier(
            self.config,
            image,
            CoordinatorVerifier(self.config, self.clock, self.timers, self.transactions),
            environment,
            self.partitions,
            self.clock,
            self.timers,
        )
        self.groups.shard_log = self.transactions.shard_log = HostedShardLog
        self.groups.start()
        self.transactions.start()
        self.services: Mapping[str, Any] = {
            name: getattr(self, name)
            for name in (
                "config", "groups", "markers", "metadata", "partitions", "producer_ids", "transactions", "verifier",
            )
        }  # fmt: skip

    def _log_at(self, index: int) -> Any:
        return self.groups.log_at(index)

    # -- services that are simple here -------------------------------------------------------------------------------

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of an internal topic."""
        return 1

    def in_order(self, partition: object, call: Callable[[], Any]) -> Any:
        """Call: no append waits here."""
        return call()

    def _is_known(self, topic: str, index: int) -> bool:
        found = self.metadata.topic(topic)
        return found is not None and index in found.partitions

    def request(self, broker_id: int, api: Api, request: Struct) -> Deferred[Response]:
        """Send a request to another broker."""
        answered: Deferred[Response] = Deferred()
        if broker_id == NO_LEADER:
            answered.fail(ConnectionFailed("broker -1", "it is not registered"))
        else:
            kind = MARKERS if api.key == ApiKey.WRITE_TXN_MARKERS else VERIFY
            self.asked.append(Asked(Route(self.process.id, kind, broker_id), api, request, answered))
        return answered

    @staticmethod
    def take(asked: Asked, answer: Struct | None) -> None:
        """Take over the answer of another broker; None if there is none."""
        if answer is None:
            asked.answered.fail(ConnectionFailed("broker", "lost"))
        else:
            asked.answered.resolve(Response(PendingRequest(asked.api, 0, 0), answer, b"", 0, 0))

    # -- leadership --------------------------------------------------------------------------------------------------

    def led(self, leader: Leader) -> None:
        """Lead a partition, or another epoch of it."""
        place = self.places.place(leader.key[1])
        leader.log.producers.state.note_high_watermark(leader.log.high_watermark)
        found: Any = self.partitions.get(*place)
        if found is not None:
            found.lead(leader)
            return
        found = HostedPartition(self.process.leaders, leader, place, self.timers)
        self.partitions.add(found)
        self.groups.partition_led(found)
        self.transactions.partition_led(found)

    def lost(self, index: int) -> None:
        """Lead a partition no longer."""
        found = self.partitions.pop(*self.places.place(index))
        if found is not None:
            found.leave()
            self.groups.partition_lost(found)
            self.transactions.partition_lost(found)

    def committed(self, leader: Leader) -> None:
        """The high watermark of a partition has moved."""
        leader.log.producers.state.note_high_watermark(leader.log.high_watermark)
        found = self.partitions.get(*self.places.place(leader.key[1]))
        if found is not None:
            self.loop.call_soon(found.end_waits)

    def metadata_changed(self) -> None:
        """Write the markers again whose partitions may have other leaders."""
        self.loop.call_soon(lambda: self.transactions.retry_markers(lambda place: True))

    def advance(self, now_ms: int) -> None:
        """Run what is due now."""
        self.loop.settle()
        late = now_ms - self.clock.monotonic_ms()
        if late:
            self.loop.advance(late)

    # -- requests ----------------------------------------------------------------------------------------------------

    def serve(self, api: Api, version: int, request: Struct) -> Any:
        """Answer a request of a client or of another broker: with a Struct, or a Deferred of one."""
        if api is PRODUCE:
            return when_verified(
                self.partitions, self.verifier, version, request, lambda verdicts: self._produce(request, verdicts)
            )
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = self._handlers[api.key] = self._handler(api)
        return handler(Context(api, version), request)

    def _handler(self, api: Api) -> Callable[..., Any]:
        served = ServedApi(api.key, api.versions)
        if api.key in OF_TRANSACTIONS:
            served = CommittedApi(served, OF_TRANSACTIONS[api.key], self._services, self._transaction_answers)
        elif api.key in OF_GROUPS:
            if api.key == ApiKey.TXN_OFFSET_COMMIT:
                served = VerifiedCommits(served, self.process.id, self._services)
            served = CommittedApi(served, OF_GROUPS[api.key], self._services, self._group_answers)
        return bind(served.load().handler, self.services)

    def _services(self) -> Mapping[str, Any]:
        return self.services

    def _transaction_answers(self) -> CommittedAnswers:
        return CommittedAnswers(self.transactions, self.durability, self.timers, 30_000)

    def _group_answers(self) -> CommittedAnswers:
        return CommittedAnswers(self.groups, self.durability, self.timers, 5_000)

    def _produce(self, request: Struct, verdicts: Mapping[Any, Verdict]) -> Deferred[Struct] | Struct:
        """Append the batch of a request with acks=all, and wait for its replicas."""
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        partition = self.partitions.get(topic.name, data.index)
        verdict = verdicts.get((topic.name, data.index))
        if verdict is not None:
            return _produced(topic.name, data.index, verdict.code)
        if partition is None:
            return _produced(topic.name, data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.is_under_min_isr():
            return _produced(topic.name, data.index, ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            result = partition.append(data.records, self.clock.now_ms())
        except Exception as error:
            code = error_code_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            return _produced(topic.name, data.index, code)
        answered: Deferred[Struct] = Deferred()

        def answer(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception as error:
                answered.resolve(_produced(topic.name, data.index, error_code_of(error)))
            else:
                answered.resolve(_produced(topic.name, data.index, ErrorCode.NONE))

        partition.when_committed(result.last_offset + 1).add_done_callback(answer)
        return answered


def _produced(topic: str, index: int, code: ErrorCode) -> Struct:
    partitions = [PartitionProduceResponse(index=index, error_code=code, base_offset=-1)]
    return PRODUCE.response(responses=[TopicProduceResponse(name=topic, partition_responses=partitions)])


__all__ = ["Asked", "Member", "when_verified"]
