"""Workarounds that applications of kafka-python need.

Its consumer (3.0.12) may abandon a rebalance that changed metadata require, if `poll` returns between the answers to
JoinGroup and SyncGroup: `ConsumerCoordinator._perform_assignment` stores the metadata as those of the assignment, so
that nothing triggers another join. It never reads SyncGroup's answer: it has no partitions and sends no heartbeats, for
ever, on Apache Kafka as well. Such a rebalance comes at once if a group begins before the consumer knows its topic,
which it requests 100 ms after its start at the earliest; or if the consumer knew the topic before it subscribed,
because earlier metadata do not count.

Its producer (3.0.12) forgets a request to the transaction coordinator if the connection ends before it is sent:
`Sender._maybe_send_pending_request` requeues it if no node is ready, but not if waiting for one raises an error.
`commit_transaction` then waits for its answer for ever.

A Produce names the producer's own time-out (`request_timeout_ms`) as that for replicas. While replicas are missing, the
broker answers REQUEST_TIMED_OUT at the moment at which the producer gives the request up, so the answer is never read.
Apache Kafka does the same. If such a batch expires before it is sent again, the sender of a transactional producer
raises "Cannot reset producer state for a transactional producer", and drops the batches that it was about to send. They
delay the end of the transaction, for which the producer waits without a time-out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from kafka.errors import KafkaError, KafkaTimeoutError


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


def end_within(timeout_s: float, end: Callable[[], None]) -> None:
    """Call commit_transaction or abort_transaction of a kafka.KafkaProducer. Raises its error, or KafkaTimeoutError.

    After a time-out the call is left to itself: a next producer of the same transactional id fences this one.
    """
    raised: list[KafkaError] = []

    def call() -> None:
        try:
            end()
        except KafkaError as error:
            raised.append(error)

    ending = threading.Thread(target=call, daemon=True)
    ending.start()
    ending.join(timeout_s)
    if raised:
        raise raised[0]
    if ending.is_alive():
        raise KafkaTimeoutError(f"the transaction has not ended after {timeout_s} s")
