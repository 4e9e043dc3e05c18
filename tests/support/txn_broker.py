"""A broker with its coordinators, over real logs in a directory: the part that transactions use, without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.automatic_topics import AutomaticTopics
from broker.coordinators.group.coordinator import GroupCoordinator
from broker.coordinators.transaction.coordinator import TransactionCoordinator
from broker.coordinators.transaction.markers import PartitionMarkers
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.coordinators.transaction.verifier import CoordinatorVerifier, TransactionVerifier
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.replicas.partition import Partition
from config import load
from controller.controller import Controller
from metadata.create_topics import NewTopic
from protocol.records.entries import iter_records
from protocol.records.record import Record
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from tests.support.controllers import CLUSTER_ID, MemoryMetadataLog
from tests.support.data_broker import DataBroker
from tests.support.images import cluster
from tests.support.txn_client import TxnClient

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "/logs",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Crash(BaseException):
    """The process ends here: the logs keep their data, everything else is lost."""


class TxnBroker(DataBroker):
    """`client` uses it as a client over the wire does. `crash_after`: the process ends with the next append after so
    many more; that append is in the log.
    """

    share_states: Any = None

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.crash_after: int | None = None
        self.partitions._wake = self._appended
        self.config: Any = load(None, overrides={**SETTINGS, **(settings or {})})
        self.metadata_log = MemoryMetadataLog()
        self.controller: Any = Controller(
            self.config,
            CLUSTER_ID,
            self.metadata_log,  # type: ignore[arg-type]
            cluster(1),
            lambda: Deferred.resolved(None),
            self.clock.now_ms,
        )
        self.metadata = MetadataCache(CLUSTER_ID, self.controller.image)
        self.publisher = MetadataPublisher(
            self.config, self.metadata, self.partitions, self.controller, {}, self.loop.call_soon
        )
        self.controller.subscribe(self.publisher)
        self.topics = AutomaticTopics(self.metadata, self.publisher, self.controller, self.controller.when_published)
        self.client = BrokerClient(self)
        self.start_coordinators()

    def start_coordinators(self) -> None:
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.groups = GroupCoordinator(self, self.controller, self.share_states)  # type: ignore[arg-type]
        self.markers = PartitionMarkers(self.partitions, self.appends, self.durability, self.clock, self.groups.log_at)
        self.transactions = TransactionCoordinator(self, self.groups, self.producer_ids, self.markers)  # type: ignore[arg-type]
        self.verifier: TransactionVerifier = CoordinatorVerifier(
            self.config, self.clock, self.timers, self.transactions
        )
        self.groups.start()
        self.transactions.start()

    def restart(self) -> None:
        """Discard the coordinators' memory and the loop's callbacks; the coordinators load their logs again."""
        self.crash_after = None
        self.loop.handles.clear()
        self.loop._soon.clear()
        self.timers._heap.clear()
        self.timers._armed = None
        for partition in self.partitions:
            self.partitions.lead(partition, partition.leader_epoch + 1)
        self.start_coordinators()
        self.settle()  # a long load goes on in later turns

    def create(self, name: str, partitions: int = 1, **configs: str) -> list[Partition]:
        """Create a topic of clients."""
        made = self.controller.create_topics([NewTopic(name, partitions, 1, configs=configs)])
        self.settle()
        assert not made.result()[0].error_code
        return [self.partition(name, index) for index in range(partitions)]

    def partition(self, name: str, index: int = 0) -> Partition:
        found = self.partitions.get(name, index)
        assert found is not None
        return found

    def _appended(self, partition: Partition) -> None:
        """Handle an append, or another reason to wake the partition."""
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                raise Crash
        self.purgatory.check_soon(partition)

    def records(self, name: str, index: int = 0) -> list[Record]:
        """Return all records of a partition, markers too."""
        log = self.partition(name, index).log
        found: list[Record] = []
        while not found or found[-1].offset < log.log_end_offset - 1:
            piece = log.read(found[-1].offset + 1 if found else 0, 1 << 20, log.log_end_offset)
            records = list(iter_records(piece if isinstance(piece, bytes) else piece.read()))
            if not records:
                break
            found += records
        return found


class BrokerClient(TxnClient):
    """TxnClient without a connection."""

    def __init__(self, broker: TxnBroker) -> None:
        self._broker = broker
        self._names = {-1: "-"}
        self.timestamp = broker.clock.now_ms()

    def call(self, api: Api, version: int, request: Any = None, **fields: Any) -> Struct:
        values = dict(request or {}) if not isinstance(request, Struct) else {}
        return self._broker.call(api, version, **{**values, **fields})
