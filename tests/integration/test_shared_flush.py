"""flush.messages=1: a response waits for the fsync of its batch, and one fsync serves many producers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.maintenance.log_scheduler import Background
from broker.replicas.partition import Partition
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.fs import FileSystem
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.data_broker import DEFAULTS
from tests.support.network import answers_in, request_frame
from tests.support.one_connection import OneConnection

SYNC_S = 0.005
TOPIC_ID = b"topic-id-16bytes"


class SlowDisk(FileSystem):
    """An fsync that only takes time. `syncs` counts calls; `max_concurrent` is the most concurrent calls."""

    def __init__(self) -> None:
        self.syncs = self.max_concurrent = self._under_way = 0

    def sync(self, handle: int) -> None:
        self.syncs += 1
        self._under_way += 1
        self.max_concurrent = max(self.max_concurrent, self._under_way)
        time.sleep(SYNC_S)
        self._under_way -= 1

    def sync_path(self, path: str) -> None:
        """Ignore syncs of directories, which `syncs` does not count."""


Scenario = Callable[[list[Partition], Background, SlowDisk], object]


def with_partitions(directory: Path, count: int, scenario: Scenario) -> None:
    """Run a coroutine with partitions of a topic, whose flushes run on real background threads."""

    async def run() -> None:
        loop, clock, disk = asyncio.get_running_loop(), Clock(), SlowDisk()
        logs = LogManager([str(directory)], fs=disk)
        logs.lock()
        logs.load(lambda topic: LogConfig(), clock.now_ms())
        config = SimpleNamespace(get_int=DEFAULTS.__getitem__, subscribe=lambda keys, callback: None)
        background = Background(logs, config, loop, Timers(loop, clock), clock)  # type: ignore[arg-type]
        background.start()
        partitions = [
            Partition(
                logs.create("t", index, TOPIC_ID, LogConfig(flush_messages=1), clock.now_ms()),
                leader_id=1, leader_epoch=0, replicas=(1,), isr=(1,), internal=False, wake=lambda _: None,
            )
            for index in range(count)
        ]  # fmt: skip
        disk.syncs = disk.max_concurrent = 0
        try:
            await scenario(partitions, background, disk)  # type: ignore[misc]
        finally:
            background.stop()
            logs.close(clock.now_ms())

    asyncio.run(run())


async def produce(partition: Partition, background: Background, times: int) -> None:
    """One producer, which sends the next batch when the previous one is on the disk."""
    for _ in range(times):
        builder = BatchBuilder()
        builder.append(time.time_ns() // 1_000_000, None, b"v")
        result = partition.append(builder.build(), time.time_ns() // 1_000_000)
        assert result.must_wait
        await until(background.flush(partition.log))
        assert partition.log.recovery_point > result.last_offset, "answered before it was on the disk"


async def until(deferred: Deferred[None]) -> None:
    done = asyncio.get_running_loop().create_future()
    deferred.add_done_callback(lambda _: done.set_result(None))
    await done
    deferred.result()


@pytest.mark.parametrize("producers", [1, 20])
def test_producers_of_a_partition_share_syncs(tmp_path: Path, producers: int) -> None:
    """Twenty producers need hardly more syncs than one: a sync serves all who wait."""

    async def scenario(partitions: list[Partition], background: Background, disk: SlowDisk) -> None:
        await asyncio.gather(*(produce(partitions[0], background, 10) for _ in range(producers)))

        assert partitions[0].log.log_end_offset == 10 * producers
        assert 10 <= disk.syncs <= 22

    with_partitions(tmp_path, 1, scenario)


def test_partitions_are_synced_in_parallel(tmp_path: Path) -> None:
    """Producers of one partition still share its syncs."""

    async def scenario(partitions: list[Partition], background: Background, disk: SlowDisk) -> None:
        await asyncio.gather(*(produce(partitions[each % 4], background, 10) for each in range(40)))

        assert sum(partition.log.log_end_offset for partition in partitions) == 400
        assert 40 <= disk.syncs <= 88
        assert disk.max_concurrent > 1

    with_partitions(tmp_path, 4, scenario)


def test_batches_in_flight_of_a_producer_share_syncs(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition], background: Background, disk: SlowDisk) -> None:
        waits = []
        for _ in range(50):
            builder = BatchBuilder()
            builder.append(1, None, b"v")
            partitions[0].append(builder.build(), 1)
            waits.append(background.flush(partitions[0].log))
        for wait in waits:
            await until(wait)

        assert disk.syncs <= 2

    with_partitions(tmp_path, 1, scenario)


def test_waiting_appends_end_when_the_broker_stops(tmp_path: Path) -> None:
    """Appends in progress complete; later ones raise."""

    async def scenario(partitions: list[Partition], background: Background, disk: SlowDisk) -> None:
        append = asyncio.create_task(produce(partitions[0], background, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        background.stop()
        await append
        assert disk.syncs == 1
        with pytest.raises(Exception, match="stops"):
            await produce(partitions[0], background, 1)

    with_partitions(tmp_path, 1, scenario)


def test_requests_that_wait_for_the_disk_block_no_others(tmp_path: Path) -> None:
    """They are appended at once, synced together, and answered in order."""
    with OneConnection(tmp_path) as connection:
        broker = connection.broker
        partition = broker.topic(config=LogConfig(flush_messages=1))
        broker.background.held = True
        frames = []
        for number in range(3):
            builder = BatchBuilder()
            builder.append(broker.clock.now_ms(), None, b"v")
            data = [PartitionProduceData(index=0, records=builder.build())]
            fields = {"acks": -1, "timeout_ms": 1000, "topic_data": [TopicProduceData(name="t", partition_data=data)]}
            frames.append(request_frame(PRODUCE, 9, number, **fields))
        connection.client.sendall(b"".join(frames))
        connection.readable()
        assert partition.log_end_offset == 3
        assert partition.high_watermark == 3, "consumers see them before, as with Kafka"
        connection.client.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.client.recv(1)

        broker.background.release()
        connection.loop.settle()

        answers = answers_in(connection.client.recv(1 << 20), [(PRODUCE, 9)] * 3)
        assert [answer.responses[0].partition_responses[0].base_offset for _, answer in answers] == [0, 1, 2]
