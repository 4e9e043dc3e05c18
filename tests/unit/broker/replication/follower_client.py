"""A follower that fetches partitions of t in a session, and a broker that leads any number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.replication.replicated_partition import ReplicatedPartition
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID
from tests.support.producing import batch
from tests.unit.broker.replication.leading_broker import REGISTERED, LeadingBroker

VERSION = 17
MANY = REGISTERED._replace(replicas=(1, 2), isr=(1, 2))


class ManyPartitions(LeadingBroker):
    """A broker that leads the partitions t-0, t-1, ... with the follower 2."""

    def __init__(self, directory: Path, count: int, config: LogConfig | None = None) -> None:
        super().__init__(directory, config)
        self.config_of_topic = config or LogConfig()
        made = (self.partitions.create("t", TOPIC_ID, index, self.config_of_topic) for index in range(1, count))
        self.led = [self.lead(log, MANY) for log in (self.partition.log, *(each.log for each in made))]

    def append(self, index: int, count: int = 1) -> None:
        self.led[index].append(batch(count), self.clock.now_ms())


class FollowerClient:
    """Follower 2 of the partitions of a broker. It takes what it fetches for appended."""

    def __init__(self, broker: ManyPartitions, *, epoch: int = 20) -> None:
        self.broker = broker
        self.epoch = epoch
        self.offsets = dict.fromkeys(range(len(broker.led)), 0)
        self._moved = set(self.offsets)
        self.session_id = self.session_epoch = 0
        self.leader_epoch = 4
        self._waiting: Deferred[Any] | None = None

    def send(self, *, wait_ms: int = 0, forgotten: tuple[int, ...] = (), **fields: Any) -> None:
        """Send the next fetch, which names the partitions that have moved."""
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=self.offsets[index],
                current_leader_epoch=self.leader_epoch,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for index in sorted(self._moved)
        ]
        self._moved = set()
        values: dict[str, Any] = {
            "replica_state": ReplicaState(replica_id=2, replica_epoch=self.epoch),
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 10 << 20,
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": [FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
            "forgotten_topics_data": [ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forgotten))] * bool(forgotten),
        }
        self._waiting = self.broker.send(FETCH, VERSION, **{**values, **fields})

    @property
    def is_answered(self) -> bool:
        return self._waiting is not None and self._waiting.done

    def receive(self) -> dict[int, Struct]:
        """Return the answer by partition, and take it over."""
        assert self._waiting is not None
        response = self.broker.received(FETCH, VERSION, self._waiting)
        self._waiting = None
        assert response.error_code == 0, response
        self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        found = {each.partition_index: each for topic in response.responses for each in topic.partitions}
        for index, data in found.items():
            if data.records:
                self.offsets[index] = self.broker.led[index].log.log_end_offset
                self._moved.add(index)
        return found

    def fetch(self, **fields: Any) -> dict[int, Struct]:
        """Fetch, and return the answer by partition."""
        self.send(**fields)
        self.broker.settle()
        return self.receive()

    def settle(self) -> None:
        """Fetch until there is nothing new."""
        for _ in range(6):
            self.fetch()


def rests(partition: ReplicatedPartition) -> bool:
    """Return whether fetches of follower 2 do not read a partition."""
    return partition.leader.followers[2].rests
