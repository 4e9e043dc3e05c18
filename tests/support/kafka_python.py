"""What applications of kafka-python have to mind.

Its consumer (3.0.12) gives up a rebalance that it wants because its metadata have changed, when `poll` returns between
the JoinGroup's answer and the SyncGroup's: `ConsumerCoordinator._perform_assignment` notes the metadata as those of the
assignment, so that from then on nothing says that it should join. What SyncGroup answers is never looked at: no
partitions, no heartbeats, for ever, on Apache Kafka as well. A group that begins before the consumer has heard of its
topic, which it asks for no sooner than 100 ms after it has come up, has such a rebalance at once; so has one that heard
of it before it subscribed, for what it knew then does not count.

Its producer (3.0.12) forgets a request to the coordinator of transactions that it was about to send when the connection
ended: `Sender._maybe_send_pending_request` puts it back where nobody was ready, and not where waiting for that
has raised an error. `commit_transaction` waits for its answer for ever then.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafka.errors import KafkaError


class Consumer(Protocol):
    """The part of kafka.KafkaConsumer that tests use."""

    def partitions_for_topic(self, topic: str) -> set[int]: ...

    def subscription(self) -> set[str] | None: ...


def know_topics(consumer: Consumer, *topics: str) -> None:
    """Wait until a subscribed consumer knows its topics, so that its first assignment has their partitions."""
    assert set(topics) <= (consumer.subscription() or set())
    while not all(consumer.partitions_for_topic(topic) for topic in topics):  # asks the broker, and waits
        pass


def keep_requests(producer: Any) -> None:
    """Make a kafka.KafkaProducer retry requests that it could not send to a coordinator, as it intends."""
    client = producer._sender._client
    await_ready = client.await_ready

    def is_ready(*args: Any, **options: Any) -> bool:
        try:
            return bool(await_ready(*args, **options))
        except KafkaError:
            return False

    client.await_ready = is_ready
