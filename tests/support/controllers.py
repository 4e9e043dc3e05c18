"""A controller without a disk, and the contexts in which its handlers are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from broker.access.quotas.throttling import Charge
from broker.automatic_topics import AutomaticTopics
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.requests.binding import bind
from config import BrokerConfig, load
from controller.controller import Controller
from metadata.create_topics import NewTopic
from metadata.framing import MetadataRecord, encode_record
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from tests.support.fake_loop import FakeLoop
from tests.support.images import DIRECTORY, cluster
from tests.support.offered import Offered

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


class MemoryMetadataLog:
    """A metadata log that keeps batches in a list. The next append raises `failure`."""

    def __init__(self) -> None:
        self.batches: list[list[MetadataRecord]] = []
        self.failure: Exception | None = None
        self.end_offset = 0
        self.epoch = 1

    def append(self, records: Sequence[MetadataRecord], now_ms: int) -> int:
        if self.failure is not None:
            raise self.failure
        for record in records:
            encode_record(record)
        self.batches.append(list(records))
        offset, self.end_offset = self.end_offset, self.end_offset + len(records)
        return offset


@dataclass
class HostedPartition:
    """The arguments a partition was created with."""

    topic_id: bytes
    config: LogConfig
    leader_epoch: int
    online: bool = True


class MemoryPartitions:
    """Hosted partitions by (topic, index); `elsewhere`: those of other workers; `refuse`: those whose disk fails."""

    def __init__(self) -> None:
        self.hosted: dict[tuple[str, int], HostedPartition] = {}
        self.elsewhere: set[tuple[str, int]] = set()
        self.refuse: set[tuple[str, int]] = set()

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self.hosted.get((topic, index))

    def create(
        self, topic: str, topic_id: bytes, index: int, config: LogConfig, *, leader_epoch: int, **_: object
    ) -> HostedPartition:
        online = (topic, index) not in self.refuse
        self.hosted[topic, index] = HostedPartition(topic_id, config, leader_epoch, online)
        return self.hosted[topic, index]

    def note_remote(self, topic: str, topic_id: bytes, index: int) -> None:
        self.elsewhere.add((topic, index))

    def directory_of(self, partition: HostedPartition) -> LogDirectory | None:
        return LogDirectory("/logs") if partition.online else None

    def lead(self, partition: HostedPartition, leader_epoch: int) -> None:
        partition.leader_epoch = leader_epoch

    def delete(self, topic: str) -> None:
        for key in [key for key in self.hosted if key[0] == topic]:
            del self.hosted[key]

    def update_config(self, topic: str, config: LogConfig) -> None:
        for (name, _), partition in self.hosted.items():
            if name == topic:
                partition.config = config


class ManualSync:
    """Flushes that finish when the test completes them, or at once while `automatic`."""

    def __init__(self) -> None:
        self.automatic = True
        self.running: list[Deferred[None]] = []

    def __call__(self) -> Deferred[None]:
        deferred: Deferred[None] = Deferred()
        if self.automatic:
            deferred.resolve(None)
        else:
            self.running.append(deferred)
        return deferred


class ControllerHarness:
    """A controller of broker 1 in memory, its broker as handlers see it, and the records it wrote."""

    def __init__(
        self,
        overrides: dict[str, str] | None = None,
        brokers: int = 1,
        directories: dict[str, bytes] | None = None,
        call_soon: Callable[[Callable[[], None]], object] = lambda function: function(),
        image: MetadataImage | None = None,
    ) -> None:
        keys = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/logs"}
        self.config: BrokerConfig = load(None, overrides=keys | (overrides or {}))
        self.log = MemoryMetadataLog()
        self.partitions = MemoryPartitions()
        self.sync = ManualSync()
        self.controller = Controller(
            self.config,
            CLUSTER_ID,
            self.log,  # type: ignore[arg-type]
            image or cluster(brokers, log_directories=tuple(directories.values()) if directories else (DIRECTORY,)),
            self.sync,
            lambda: 1000,
        )
        self.metadata = MetadataCache(CLUSTER_ID, self.controller.image)
        partitions: Any = self.partitions
        self.publisher = MetadataPublisher(
            self.config, self.metadata, partitions, self.controller, directories or {}, call_soon
        )
        self.controller.subscribe(self.publisher)
        self.topics = AutomaticTopics(self.metadata, self.publisher, self.controller, self.controller.when_published)
        self.charge: Charge | None = None  # of requests
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.loop = FakeLoop()
        self.broker = SimpleNamespace(
            timers=Timers(self.loop, self.loop.clock),
            config=self.config,
            guard=None,
            controller=self.controller,
            metadata=self.metadata,
            publisher=self.publisher,
            topics=self.topics,
            partitions=self.partitions,
            producer_ids=self.producer_ids,
        )

    def with_topics(self, *topics: NewTopic) -> ControllerHarness:
        """Create topics first."""
        for result in self.controller.create_topics(topics).result():
            assert result.error_code is ErrorCode.NONE, result
        return self

    def advance(self, milliseconds: int) -> None:
        """Advance the time of scheduled calls."""
        self.loop.advance(milliseconds)

    def ask(self, handler: Callable[..., Any], api: Api, version: int, **fields: Any) -> Struct:
        """Call a handler with a request of that version; return the reply as a client of that version decodes it."""
        return answered(api, version, self.start(handler, api, version, **fields))

    def start(self, handler: Callable[..., Any], api: Api, version: int, **fields: Any) -> Any:
        """Call a handler; return its result."""
        request, _ = api.request.decode(version, api.request.encode(version, api.request(**fields)))
        connection = SimpleNamespace(
            listener_name="PLAINTEXT", local_host="192.0.2.7", local_port=19092, client_host="192.0.2.1"
        )
        ctx = SimpleNamespace(connection=connection, api=api, api_version=version, client_id="c", charge=self.charge)
        return bind(handler, Offered(self.broker))(ctx, request)


def answered(api: Api, version: int, reply: Any) -> Struct:
    """Return the finished reply, encoded and decoded."""
    value = reply.result() if isinstance(reply, Deferred) else reply
    return api.response.decode(version, api.response.encode(version, value))[0]
