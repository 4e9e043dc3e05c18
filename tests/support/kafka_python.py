"""What applications of kafka-python have to mind.

Its consumer (3.0.12) gives up a rebalance that it wants because its metadata have changed, when `poll` returns between
the JoinGroup's answer and the SyncGroup's: `ConsumerCoordinator._perform_assignment` notes the metadata as those of the
assignment, so that from then on nothing says that it should join. What SyncGroup answers is never looked at: no
partitions, no heartbeats, for ever, on Apache Kafka as well. A group that begins before the consumer has heard of its
topic, which it asks for no sooner than 100 ms after it has come up, has such a rebalance at once.
"""

from __future__ import annotations

from typing import Protocol


class Consumer(Protocol):
    """What is used of kafka.KafkaConsumer."""

    def partitions_for_topic(self, topic: str) -> set[int]: ...


def know_topics(consumer: Consumer, *topics: str) -> None:
    """Wait until a consumer has heard of the partitions of its topics: its first assignment is one then."""
    while not all(consumer.partitions_for_topic(topic) for topic in topics):  # which asks the broker, and waits
        pass
