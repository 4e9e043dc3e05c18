"""Frames that no client should send, case by case, and Apache Kafka's reaction to each.

`python -m tests.conformance.bad_frames` runs them against Apache Kafka again and writes tests/data/bad-frames.tsv.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from tests.conformance.bad_frames.batches import TOPIC, bad_batches
from tests.conformance.bad_frames.bodies import bad_bodies
from tests.conformance.bad_frames.framing import bad_framing
from tests.conformance.bad_frames.headers import bad_headers
from tests.conformance.bad_frames.inconsistent_batches import lying_batches
from tests.conformance.bad_frames.requests import bad_requests
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.settled import await_coordinator, wait_for_topic
from tests.support.wire import WireClient

GROUP, TRANSACTION = 0, 1  # key types of coordinators
RECORDED = Path(__file__).parents[2] / "data" / "bad-frames.tsv"


def bad_frames() -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes to send on a connection of their own) of all cases on which both brokers must agree."""
    for room in (bad_framing, bad_headers, bad_bodies, bad_requests, bad_batches):
        yield from room()


def inconsistent_batches() -> Iterator[tuple[str, bytes]]:
    """Yield the same for batches with valid headers and invalid records."""
    for name, data in lying_batches():
        yield f"lie: {name}", data


def prepare(broker: RunningBroker) -> None:
    """Create the topics that the cases write to, with two partitions, and wait for them and for the coordinators."""
    with WireClient(HOST, broker.port) as client:
        for topic in (TOPIC, "sweep"):
            client.call(CREATE_TOPICS, 7, topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)])
            wait_for_topic(broker, topic, 2)
        for key_type in (GROUP, TRANSACTION):
            await_coordinator(client, "any", key_type)
        eventually(lambda: not client.call(INIT_PRODUCER_ID, 4, transactional_id=None).error_code)


def recorded_outcomes() -> dict[str, str]:
    """Return Apache Kafka's reactions, by the name of the case."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split("\t") for line in lines)
