"""Changes that a user of the console makes through the broker: topics, their settings, records, groups' offsets.

All functions raise BrokerRejected or Refused if the broker rejects the change, and the exceptions of Client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from console.cluster.client import TIMEOUT_S, Client
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, failed


def create_topic(client: Client, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Create a topic; -1 partitions means the broker's default."""
    with client.session() as session:
        topic = NewTopic(name, partitions, -1, config=dict(settings))
        (future,) = session.admin.create_topics([topic], request_timeout=TIMEOUT_S).values()
        session.wait(future, name)


def delete_topic(client: Client, name: str) -> None:
    """Delete a topic with all its records."""
    with client.session() as session:
        (future,) = session.admin.delete_topics([name], request_timeout=TIMEOUT_S).values()
        session.wait(future, name)


def add_partitions(client: Client, name: str, count: int) -> None:
    """Add partitions until the topic has `count`."""
    with client.session() as session:
        (future,) = session.admin.create_partitions([NewPartitions(name, count)], request_timeout=TIMEOUT_S).values()
        session.wait(future, name)


def alter_setting(client: Client, topic: str, key: str, value: str | None) -> None:
    """Set a topic's setting; None resets it to the broker's value."""
    with client.session() as session:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource = ConfigResource(ResourceType.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
        (future,) = session.admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
        session.wait(future, topic)


def produce(
    client: Client,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> tuple[int, int]:
    """Produce a record; partition -1 lets the partitioner choose. Return its partition and offset."""
    results: list[tuple[KafkaError | None, Message]] = []
    with client.session() as session:
        producer = Producer({**session.properties, "message.timeout.ms": round(TIMEOUT_S * 1000), "acks": "all"})
        producer.produce(
            topic,
            value,
            key,
            partition,
            headers=list(headers),
            on_delivery=lambda error, record: results.append((error, record)),
        )
        producer.flush(TIMEOUT_S + 1)
        if not results:
            raise CommandError(f"{topic}: no answer within {TIMEOUT_S:g} s")
        ((error, record),) = results
        if error is not None:
            raise failed(KafkaException(error), topic)
        found, offset = record.partition(), record.offset()
        assert found is not None
        assert offset is not None
        return found, offset


def move_group(client: Client, group: str, offsets: Mapping[Place, int]) -> None:
    """Commit offsets for a group, which must have no members."""
    with client.session() as session:
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        (future,) = session.admin.alter_consumer_group_offsets(request, request_timeout=TIMEOUT_S).values()
        for each in session.wait(future, group).topic_partitions:
            if each.error is not None:
                raise failed(KafkaException(each.error), f"{each.topic}-{each.partition}")


def delete_group(client: Client, group: str) -> None:
    """Delete a group with its offsets."""
    with client.session() as session:
        (future,) = session.admin.delete_consumer_groups([group], request_timeout=TIMEOUT_S).values()
        session.wait(future, group)
