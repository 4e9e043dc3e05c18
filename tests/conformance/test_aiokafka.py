"""aiokafka against the broker: producing, consuming and groups on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually_async
from tests.support.scale import scaled
from tests.support.settled import wait_for_topic

COUNT = scaled(200)
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run one test's coroutine, with a time limit."""
    asyncio.run(asyncio.wait_for(scenario, 180))


async def create(broker: RunningBroker, topic: str, partitions: int = 2) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, partitions, 1)])
    await admin.close()
    wait_for_topic(broker, topic, partitions)


async def produce(broker: RunningBroker, topic: str, count: int = COUNT, **settings: Any) -> list[Any]:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings) as producer:
        sending = [
            await producer.send(topic, b"value-%d" % i, key=b"key-%d" % (i % 7), headers=[("n", b"%d" % i)])
            for i in range(count)
        ]
        return list(await asyncio.gather(*sending))


def consumer(broker: RunningBroker, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(*topics, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **settings)


def _is_shared(every: set[TopicPartition], one: AIOKafkaConsumer, other: AIOKafkaConsumer) -> bool:
    """Report whether each partition is assigned to one of the two."""
    return one.assignment() | other.assignment() == every and not one.assignment() & other.assignment()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_produced_records_are_consumed(
    reference: RunningBroker, name: str, codec: str | None, idempotent: bool
) -> None:
    """Keys, values, headers, offsets; each codec; with and without idempotence."""

    async def scenario() -> None:
        await create(reference, name)
        sent = await produce(reference, name, compression_type=codec, enable_idempotence=idempotent)
        async with consumer(reference, name) as source:
            records = [await source.getone() for _ in range(COUNT)]
        for record in records:
            number = int(record.value.split(b"-")[1])
            assert (record.key, record.headers) == (b"key-%d" % (number % 7), (("n", b"%d" % number),))
            assert (record.partition, record.offset) == (sent[number].partition, sent[number].offset)
        assert len({record.value for record in records}) == COUNT

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(reference: RunningBroker, name: str, acks: int | str) -> None:
    """S10.2: each level of acknowledgement."""

    async def scenario() -> None:
        await create(reference, name)
        await produce(reference, name, 10, acks=acks)
        async with consumer(reference, name) as source:
            assert len({(await source.getone()).value for _ in range(10)}) == 10

    run(scenario())


def test_a_member_that_leaves_gives_its_partitions_to_the_other(reference: RunningBroker, name: str) -> None:
    """S18.1: assignments are disjoint and complete; after a member left, the other has it all."""

    async def scenario() -> None:
        await create(reference, name, 4)
        every = {TopicPartition(name, index) for index in range(4)}
        member: dict[str, Any] = {"group_id": name, "heartbeat_interval_ms": 200}
        async with consumer(reference, name, **member) as first:
            async with consumer(reference, name, **member) as second:
                await eventually_async(partial(_is_shared, every, first, second))
                assert len(first.assignment()) == len(second.assignment()) == 2
            await eventually_async(first.assignment, equal_to=every)

    run(scenario())


def test_two_groups_each_read_all_records(reference: RunningBroker, name: str) -> None:
    """S18.2: each group reads all records."""

    async def scenario() -> None:
        await create(reference, name)
        await produce(reference, name, 20)
        for group in (f"{name}-a", f"{name}-b"):
            async with consumer(reference, name, group_id=group) as source:
                assert len({(await source.getone()).value for _ in range(20)}) == 20

    run(scenario())


def test_commit_and_seek(reference: RunningBroker, name: str) -> None:
    """S11.4, S18.6: commit by hand, read the committed offset back, seek to the beginning again."""

    async def scenario() -> None:
        await create(reference, name, 1)
        await produce(reference, name, 20)
        partition = TopicPartition(name, 0)
        async with consumer(reference, name, group_id=name, enable_auto_commit=False) as source:
            for _ in range(5):
                last = await source.getone()
            await source.commit({partition: last.offset + 1})
            assert await source.committed(partition) == 5
            await source.seek_to_beginning(partition)
            assert (await source.getone()).offset == 0
        async with consumer(reference, name, group_id=name, enable_auto_commit=False) as source:
            assert (await source.getone()).offset == 5

    run(scenario())


def test_a_static_member_rejoins_without_a_rebalance(reference: RunningBroker, name: str) -> None:
    """KIP-345: a member with group.instance.id that restarts gets its partitions back; the other keeps its own."""

    async def scenario() -> None:
        await create(reference, name, 2)
        static: dict[str, Any] = {"group_id": name, "session_timeout_ms": 30_000, "heartbeat_interval_ms": 200}
        every = {TopicPartition(name, 0), TopicPartition(name, 1)}
        async with consumer(reference, name, group_instance_id="a", **static) as first:
            async with consumer(reference, name, group_instance_id="b", **static) as second:
                await eventually_async(partial(_is_shared, every, first, second))
                kept, lost = first.assignment(), second.assignment()
            async with consumer(reference, name, group_instance_id="b", **static) as second:
                await eventually_async(second.assignment)
                assert (first.assignment(), second.assignment()) == (kept, lost)

    run(scenario())


def test_subscription_by_pattern_sees_a_new_topic(reference: RunningBroker, name: str) -> None:
    """The consumer gets a matching topic that is created while it runs."""

    async def scenario() -> None:
        await create(reference, f"{name}-one")
        source = consumer(reference, group_id=name, metadata_max_age_ms=300)
        source.subscribe(pattern=f"^{name}-.*")
        async with source:
            await produce(reference, f"{name}-one", 3)
            seen = {(await source.getone()).topic for _ in range(3)}
            await create(reference, f"{name}-two")
            await produce(reference, f"{name}-two", 3)
            seen |= {(await source.getone()).topic for _ in range(3)}
        assert seen == {f"{name}-one", f"{name}-two"}

    run(scenario())
