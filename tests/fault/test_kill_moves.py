"""kill -9 while partitions move between log directories under load: acknowledged records are there once, in order."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.fault.test_kill_under_load import PARTITIONS, TOPIC_CONFIGS, IdempotentProducer
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.scale import scaled

TOPIC = "moving"
KILLS = min(20, scaled(3))
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    directories = f"{tmp_path}/logs,{tmp_path}/logs-2"
    with OurBroker(tmp_path, {"log.dirs": directories, "log.segment.delete.delay.ms": "0"}) as running:
        yield running


def limit(client: DataClient, bytes_per_second: int) -> None:
    config = AlterableConfig(name=RATE, config_operation=0, value=str(bytes_per_second))
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert [each.error_code for each in answer.responses] == [0]


def places(client: DataClient) -> dict[int, tuple[str, bool]]:
    """Return each partition's directory, and whether the partition is moving to another."""
    found: dict[int, str] = {}
    moving = set()
    for directory in client.call(DESCRIBE_LOG_DIRS, 5, topics=None).results:
        for topic in directory.topics:
            for partition in topic.partitions if topic.name == TOPIC else ():
                if partition.is_future_key:
                    moving.add(partition.partition_index)
                else:
                    assert partition.partition_index not in found
                    found[partition.partition_index] = directory.log_dir
    return {index: (path, index in moving) for index, path in found.items()}


def names(home: Path) -> list[str]:
    """Return all directories of partitions. A log that moved has two until its copy is on the disk."""
    found = (path.name for path in home.glob("logs*/*"))
    return sorted(name for name in found if TOPIC in name and not name.endswith("-delete"))


def move_all(client: DataClient, directories: tuple[str, str]) -> None:
    """Move each partition to the other directory."""
    wanted: dict[str, list[int]] = {path: [] for path in directories}
    for index, (path, _) in places(client).items():
        wanted[directories[path == directories[0]]].append(index)
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=indexes)])
        for path, indexes in wanted.items()
    ]
    answer = client.call(ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
    assert {each.error_code for result in answer.results for each in result.partitions} == {0}


def test_moves_continue_after_kills(broker: OurBroker, tmp_path: Path) -> None:
    """KIP-113: copies are resumed, no partition is twice or nowhere, and its producer loses and repeats nothing."""
    directories = (f"{tmp_path}/logs", f"{tmp_path}/logs-2")
    dice = random.Random(17)
    with DataClient(HOST, broker.port) as client:
        client.create_topic(TOPIC, PARTITIONS, TOPIC_CONFIGS)
    producer = IdempotentProducer(broker.port, TOPIC)
    producer.start()
    time.sleep(0.5)
    for _ in range(KILLS):
        with DataClient(HOST, broker.port) as client:
            limit(client, dice.choice((100_000, 2_000_000, 1 << 40)))
            if not any(moving for _, moving in places(client).values()):
                move_all(client, directories)
            time.sleep(dice.uniform(0, 0.8))
        broker.kill()
        broker.start()
        producer.check()
    with DataClient(HOST, broker.port) as client:
        limit(client, 1 << 40)
        if not any(moving for _, moving in places(client).values()):
            move_all(client, directories)
        eventually(
            lambda: not any(moving for _, moving in places(client).values()) and len(names(tmp_path)) <= PARTITIONS,
            "a move does not come to its end",
            timeout_s=30,
        )
    producer.finish()
    assert broker.stop() == 0
    assert names(tmp_path) == [f"{TOPIC}-{index}" for index in range(PARTITIONS)]
    broker.start()
    with DataClient(HOST, broker.port) as client:
        for partition in range(PARTITIONS):
            numbers = [int(value.partition(b":")[0]) for value in client.values(TOPIC, partition)]
            assert numbers == list(range(producer.sequences[partition]))
            assert all(numbers[offset] == first for first, offset in producer.acknowledged[partition].items())
    assert producer.done > 0
