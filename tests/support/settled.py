"""Waiting for Apache Kafka to know what it has answered.

Its controller answers when a change is in the metadata log; its broker applies it a moment later, on a busy machine
many moments. Our broker knows at once: for it nothing is tried twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from protocol.errors import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from tests.support.brokers import HOST, RunningBroker
from tests.support.wire import WireClient

T = TypeVar("T")


def settled(broker: RunningBroker, check: Callable[[], T], timeout_s: float = 20) -> T:
    """Return what `check` returns; where the broker is Apache Kafka it may raise for a while."""
    deadline = time.monotonic() + (timeout_s if broker.kind == "kafka" else 0)
    while True:
        try:
            return check()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def wait_for_topic(broker: RunningBroker, topic: str, partitions: int) -> None:
    """Wait until each partition of `topic` is led by the broker: it answers for its offsets."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]

    def answers() -> None:
        with WireClient(HOST, broker.port) as client:
            topics = [ListOffsetsTopic(name=topic, partitions=wanted)]
            listed = client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics)
        assert {p.error_code for t in listed.topics for p in t.partitions} == {ErrorCode.NONE}

    settled(broker, answers)
