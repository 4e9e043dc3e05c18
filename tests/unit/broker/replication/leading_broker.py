"""A broker with the partition t-0, which it leads, and the followers 2 and 3."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replication.commits import Commits
from broker.replication.durability import ReplicatedDurability
from broker.replication.follower_fetch import FollowerFetchAttempt
from broker.replication.replicated_partition import ReplicatedPartition
from metadata.partition_registration import PartitionRegistration
from protocol.messages.fetch import ReplicaState
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Struct
from replication.leading import Proposal
from replication.partition_key import PartitionKey
from replication.throttle import ReplicationThrottle
from runtime.deferred import Deferred
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.fetching import fetch_one
from tests.support.offered import Offered
from tests.support.producing import batch

MAX_LAG_MS = 30_000
REGISTERED = PartitionRegistration(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=7)


class LeadingBroker(DataBroker):
    """`epochs` has the registrations of the followers, `proposed` what the leader has asked the controller for."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        super().__init__(directory)
        self.durability = ReplicatedDurability(self.durability, timeout_ms=30_000)  # type: ignore[assignment]
        #: The leader of partitions that this broker has given up: id and epoch.
        self.current_leaders = SimpleNamespace(other_leader=lambda topic, partition: (2, 5))
        self.endpoints = SimpleNamespace(structs=lambda connection, kind, ids: [], nodes=lambda connection: [])
        self.epochs: dict[int, int] = {2: 20, 3: 30}
        self.proposed: list[tuple[PartitionKey, Proposal]] = []
        self.throttle = ReplicationThrottle(1)
        self.fetch_services = Offered(self)["fetch_services"]._replace(attempt=self._attempt)  # type: ignore[attr-defined]
        self.partition = self.lead(self.topic(config=config or LogConfig(min_insync_replicas=2)).log, REGISTERED)

    def _attempt(self, *arguments: Any) -> FetchAttempt:
        if arguments[-1] < 0:
            return FetchAttempt(*arguments)
        return FollowerFetchAttempt(self.throttle, self, self.purgatory.check_soon, *arguments)

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def lead(self, log: Any, registration: PartitionRegistration) -> ReplicatedPartition:
        """Lead a partition, in the place of the object that the registry has for it."""
        log.begin_replication(log.high_watermark)
        partition = ReplicatedPartition(
            log,
            registration,
            node_id=1,
            brokers=self,
            commits=Commits(self.timers),
            clock=self.clock,
            max_lag_ms=MAX_LAG_MS,
            internal=False,
            wake=self.purgatory.check_soon,
            propose=lambda key, proposal: self.proposed.append((key, proposal)),
        )
        self.partitions.add(partition)
        return partition

    def keep(self, *isr: int, partition_epoch: int = 8) -> None:
        """Let the followers lag that are not in this ISR, which the metadata log brings."""
        self.advance(MAX_LAG_MS + 1)
        self.partition.change(REGISTERED._replace(isr=isr, partition_epoch=partition_epoch))

    def produce(
        self, records: bytes | None = None, *, acks: int = -1, timeout_ms: int = 1000, version: int = 9
    ) -> Deferred[Struct]:
        """Send a batch, of one record by default; the Deferred is done once it is answered."""
        data = PartitionProduceData(index=0, records=batch(1) if records is None else records)
        topics = [TopicProduceData(name="t", partition_data=[data])]
        reply = self.send(PRODUCE, version, acks=acks, timeout_ms=timeout_ms, topic_data=topics)
        assert reply is not None
        return reply

    def code(self, reply: Deferred[Struct]) -> int:
        """Return the error code of an answered produce."""
        code: int = reply.result().responses[0].partition_responses[0].error_code
        return code

    def follow(self, broker_id: int, offset: int, *, epoch: int | None = None, leader_epoch: int = 4) -> Struct:
        """Fetch as a follower does, and return the answer for the partition."""
        state = ReplicaState(
            replica_id=broker_id, replica_epoch=self.epochs.get(broker_id, -1) if epoch is None else epoch
        )
        return fetch_one(
            self,
            offset,
            version=17,
            topic_id=self.partition.topic_id,
            replica_state=state,
            current_leader_epoch=leader_epoch,
            max_wait_ms=0,
        )
