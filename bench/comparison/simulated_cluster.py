"""A controller with simulated brokers, and the changes of their partitions that cost it most."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.comparison.simulated_brokers import HEARTBEAT_S, Channel, MetadataView, SimulatedBroker
from metadata.image import TopicImage
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from protocol.messages.alter_partition import BrokerState, RequestPartitionData, RequestTopicData
from protocol.messages.create_topics import CREATE_TOPICS, CreatableReplicaAssignment, CreatableTopic
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.schema import Struct

#: The broker that leads all partitions of the topic `LED`.
LEADER = 1
LED = "led"
REPLICAS = 3
#: Apache Kafka's controller writes at most 10,000 records for a request.
PER_TOPIC = 1000
_TIMEOUT_S = 120
_POLL_S = 0.002
_CREATE, _ELECT = 7, 2


@dataclass(frozen=True, slots=True)
class Moved:
    """Milliseconds from a request until its answer, until a broker had the last change, and until all had it."""

    answered_ms: float
    first_ms: float
    last_ms: float


class SimulatedCluster:
    """The brokers 1 to `count` under a controller. Broker 2 is the one whose copy of the metadata is looked at."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self.brokers = {each: SimulatedBroker(each, port) for each in range(1, count + 1)}
        self._witness = self.brokers[LEADER + 1]
        self._view = MetadataView(self._witness)
        self._admin: Channel | None = None

    @classmethod
    @asynccontextmanager
    async def started(cls, port: int, count: int) -> AsyncIterator[SimulatedCluster]:
        """Yield a cluster whose brokers are unfenced."""
        found = cls(port, count)
        try:
            await found._start()
            yield found
        finally:
            for each in found.brokers.values():
                each.close()

    async def _start(self) -> None:
        self._admin = await Channel.connect(self._port)
        for each in self.brokers.values():
            await each.connect()
            await each.register()
            each.follow()
        await asyncio.gather(*(each.unfence() for each in self.brokers.values()))
        self.beat()

    def beat(self) -> None:
        """Let all brokers send heartbeats, evenly spread over the interval."""
        for number, each in enumerate(self.brokers.values()):
            each.live(HEARTBEAT_S * number / len(self.brokers))

    def rest(self) -> None:
        """Let all brokers send nothing."""
        for each in self.brokers.values():
            each.rest()

    # ---- topics

    async def create(self, name: str, partitions: int) -> None:
        """Create a topic. The controller places its replicas; those of `LED` have the same leader."""
        assert self._admin is not None
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=REPLICAS)
        if name == LED:
            topic = CreatableTopic(
                name=name, num_partitions=-1, replication_factor=-1, assignments=self._led(partitions)
            )
        answer = await self._admin.call(
            CREATE_TOPICS, _CREATE, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000)
        )
        assert not answer.topics[0].error_code, answer

    def _led(self, partitions: int) -> list[Struct]:
        others = len(self.brokers) - 1
        return [
            CreatableReplicaAssignment(
                partition_index=each,
                broker_ids=[LEADER, LEADER + 1 + each % others, LEADER + 1 + (each + 1 + each // others) % others],
            )
            for each in range(partitions)
        ]

    async def everybody_knows(self, partitions: int) -> None:
        """Wait until all brokers have the log up to these partitions."""
        last = await self._until(lambda: sum(len(each.partitions) for each in self._topics()) >= partitions)
        await self._wait(lambda: self._lowest_offset() >= last)
        self.forget()

    # ---- leaders

    async def fence(self) -> Moved:
        """Let the leader ask to be fenced: all of its partitions get other leaders."""
        self.brokers[LEADER].wishes = {"want_fence": True}
        return await self._move(self.brokers[LEADER].beat, self._leads_none)

    async def shut_down(self) -> Moved:
        """Let the leader leave in order: all of its partitions get other leaders, and its process ends."""
        leader = self.brokers[LEADER]
        leader.wishes = {"want_shut_down": True}
        found = await self._move(leader.beat, self._leads_none)
        while not (await leader.beat()).should_shut_down:
            await asyncio.sleep(_POLL_S)
        leader.rest()
        return found

    async def fall_silent(self) -> Moved:
        """Let the leader send no more heartbeats. Times are from the last one on, so they include its session."""
        await self.brokers[LEADER].beat()
        self.brokers[LEADER].rest()
        self.forget()
        began = time.perf_counter()
        return await self._moved(began, began, self._leads_none)

    async def unfence_leader(self) -> None:
        """Let the leader come back. It leads nothing yet."""
        await self.brokers[LEADER].unfence()
        await self._until(lambda: not self._view.image.brokers[LEADER].fenced)

    async def start_leader(self) -> None:
        """Start a new process of the leader after it has stopped or was silent."""
        leader = self.brokers[LEADER]
        leader.follow()
        await leader.register()
        await self.unfence_leader()
        leader.live(0)

    async def elect_preferred(self) -> Moved:
        """Let a client elect the leader where it is the preferred one."""
        return await self._move(self._elect_preferred, self._leads_all)

    async def join_in_sync_replicas(self) -> None:
        """Let the leaders of all partitions put their missing followers into the in-sync set, as followers catch up."""
        wanted: defaultdict[int, list[Struct]] = defaultdict(list)
        for topic in self._topics():
            by_leader: defaultdict[int, list[Struct]] = defaultdict(list)
            for number, each in topic.partitions.items():
                if len(each.isr) < len(each.replicas):
                    by_leader[each.leader].append(self.proposal(number, each, each.replicas))
            for leader, partitions in by_leader.items():
                wanted[leader].append(RequestTopicData(topic_id=topic.topic_id, partitions=partitions))
        await asyncio.gather(*(self.brokers[leader].alter(topics) for leader, topics in wanted.items()))
        await self._until(lambda: all(set(each.isr) == set(each.replicas) for each in self._partitions()))

    def proposal(self, number: int, partition: PartitionRegistration, isr: tuple[int, ...]) -> Struct:
        """Return the wish of a leader for another in-sync set."""
        return RequestPartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=self.brokers[each].epoch) for each in isr],
        )

    async def _elect_preferred(self) -> Struct:
        assert self._admin is not None
        topics = [
            TopicPartitions(topic=each.name, partitions=[*self._led_first(each.partitions)]) for each in self._topics()
        ]
        request = ELECT_LEADERS.request(election_type=0, topic_partitions=topics, timeout_ms=60_000)
        answer = await self._admin.call(ELECT_LEADERS, _ELECT, request)
        assert not answer.error_code, answer
        return answer

    # ---- in-sync sets

    def led_by(self, broker_id: int) -> dict[bytes, dict[int, PartitionRegistration]]:
        """Return the partitions that a broker leads, by topic id and number."""
        found = {
            topic.topic_id: {number: each for number, each in topic.partitions.items() if each.leader == broker_id}
            for topic in self._topics()
        }
        return {topic_id: partitions for topic_id, partitions in found.items() if partitions}

    def forget(self) -> None:
        """Apply and forget the parts of the log that have arrived."""
        self._view.apply_all()
        for each in self.brokers.values():
            if each is not self._witness:
                each.parts.clear()

    # ---- waiting

    async def _move(self, request: Callable[[], object], done: Callable[[], bool]) -> Moved:
        self.forget()
        began = time.perf_counter()
        await request()  # type: ignore[misc]
        return await self._moved(began, time.perf_counter(), done)

    async def _moved(self, began: float, answered: float, done: Callable[[], bool]) -> Moved:
        last = await self._until(done)
        await self._wait(lambda: self._lowest_offset() >= last)
        times = [
            next(part.time_s for part in each.parts if part.end_offset >= last)
            for each in self.brokers.values()
            if each is not self._witness and each.id != LEADER
        ]
        return Moved(*(1000 * (each - began) for each in (answered, min(times), max(times))))

    async def _until(self, done: Callable[[], bool]) -> int:
        """Apply what the witness receives until something holds. Return the end of the part that made it so."""
        reached = self._witness.end_offset
        deadline = time.perf_counter() + _TIMEOUT_S
        while not done():
            part = self._view.apply_next()
            if part is not None:
                reached = part.end_offset
                continue
            assert time.perf_counter() < deadline, "the controller has not changed the partitions in time"
            await self._pause()
        return reached

    async def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + _TIMEOUT_S
        while not done():
            assert time.perf_counter() < deadline, "the brokers have not received the metadata in time"
            await self._pause()

    async def _pause(self) -> None:
        for each in self.brokers.values():
            each.check()
        await asyncio.sleep(_POLL_S)

    def _lowest_offset(self) -> int:
        return min(each.end_offset for each in self.brokers.values() if each.id != LEADER)

    # ---- the image

    def _topics(self) -> list[TopicImage]:
        return list(self._view.image.topics_by_name.values())

    def _partitions(self) -> list[PartitionRegistration]:
        return [each for topic in self._topics() for each in topic.partitions.values()]

    @staticmethod
    def _led_first(partitions: dict[int, PartitionRegistration]) -> list[int]:
        return [number for number, each in partitions.items() if each.replicas[0] == LEADER]

    def _leads_none(self) -> bool:
        return not any(each.leader in (LEADER, NO_LEADER) for each in self._partitions())

    def _leads_all(self) -> bool:
        return all(each.leader == LEADER for each in self._partitions() if each.replicas[0] == LEADER)
