"""Frames that no client should send: our broker reacts as Apache Kafka does, and other clients do not notice.

Compared are the error codes of the answer, a missing answer, and a closed connection.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from tests.conformance.bad_frames import bad_frames, inconsistent_batches, prepare, recorded_outcomes
from tests.conformance.bad_frames.batches import TOPIC, batch, produce
from tests.conformance.bad_frames.probe import outcome, patient_outcome
from tests.conformance.bad_frames.random_frames import random_frames
from tests.conformance.client_sessions import error_codes
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.processes import resident_bytes
from tests.support.scale import SCALE, scaled
from tests.support.tools import start_tool
from tests.support.wire import WireClient, served_versions

_GROWTH_BYTES = 64 << 20
#: Frames to which Apache Kafka 4.4 reacts otherwise than releases before: it has ApiVersions v5, accepts no negative
#: counts of tags, and limits the sizes of records in compressed batches.
_SINCE_4_4 = re.compile(r"(?!)" if KAFKA_LINE >= (4, 4) else r"count of -1|ApiVersions v5|lie: .*, records: ")
"""The largest growth of the broker's memory; a single frame may declare 100 MiB."""


@dataclass
class Brokers:
    """Both brokers, each with the topic that the cases write to."""

    ours: RunningBroker
    kafka: RunningBroker


@pytest.fixture(scope="module")
def brokers(start_broker: StartBroker) -> Brokers:
    """Start brokers of this file: random requests may ask for anything."""
    pair = Brokers(*(start_broker(kind, {"auto.create.topics.enable": "false"}) for kind in ("ours", "kafka")))
    for broker in (pair.ours, pair.kafka):
        prepare(broker)
    return pair


class Bystander:
    """Two well-behaved clients: one writes and reads, the other always waits for a record."""

    def __init__(self, broker: RunningBroker) -> None:
        self._client = WireClient(HOST, broker.port)
        self._waiting = WireClient(HOST, broker.port)
        topics = self._client.call(METADATA, 12, topics=[MetadataRequestTopic(name=TOPIC)]).topics
        self._topic_id = topics[0].topic_id
        self._offset = self._append()
        self._wait()

    def check(self) -> None:
        """Check that both are served."""
        assert self._append() == self._offset
        answer = self._waiting.receive()
        assert len(answer.responses[0].partitions[0].records) == len(batch())
        self._wait()

    @property
    def written(self) -> int:
        """Return the end of the partition that they use."""
        return self._offset

    def close(self) -> None:
        """Close both connections."""
        self._client.close()
        self._waiting.close()

    def _append(self) -> int:
        """Append to the partition that gets no bad frame; return the offset of the first record."""
        data = PartitionProduceData(index=1, records=bytes(batch()))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        answer = self._client.call(PRODUCE, 9, acks=-1, timeout_ms=5_000, topic_data=topics)
        assert not any(error_codes(answer))
        return int(answer.responses[0].partition_responses[0].base_offset)

    def _wait(self) -> None:
        self._offset += 3
        wanted = FetchPartition(partition=1, fetch_offset=self._offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=self._topic_id, partitions=[wanted])]
        self._waiting.send(FETCH, 15, max_wait_ms=600_000, min_bytes=1, topics=topics, session_epoch=-1)


@pytest.fixture
def bystander(brokers: Brokers) -> Iterator[Bystander]:
    """Run clients that must not be disturbed."""
    client = Bystander(brokers.ours)
    yield client
    client.check()
    client.close()


@pytest.fixture(autouse=True)
def unharmed(brokers: Brokers) -> Iterator[None]:
    """Check after each test that our broker runs, did not grow much, and logged no error."""
    before = resident_bytes(brokers.ours.pid)
    yield
    assert resident_bytes(brokers.ours.pid) - before < _GROWTH_BYTES
    assert "Traceback" not in brokers.ours.output
    assert " ERROR " not in brokers.ours.output


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_bad_frames_get_the_recorded_reaction(brokers: Brokers, bystander: Bystander, kind: str) -> None:
    """Wrong sizes, keys, versions, lengths inside requests, and batch headers."""
    port = getattr(brokers, kind).port
    expected = recorded_outcomes()
    found = {}
    frames = [frame for frame in bad_frames() if kind == "ours" or not _SINCE_4_4.search(frame[0])]
    for number, (name, data) in enumerate(frames):
        found[name] = patient_outcome(port, data, expected[name])
        if number % 50 == 0:
            bystander.check()
    assert found == {name: expected[name] for name in found}


def test_records_of_null_are_refused(brokers: Brokers) -> None:
    """Apache Kafka 4.3.1 never answers such a request: the one case where our broker differs."""
    assert outcome(brokers.ours.port, produce(None)) == f"{ErrorCode.INVALID_RECORD:d} open"


def test_random_frames_get_the_same_reaction(brokers: Brokers, bystander: Bystander) -> None:
    """Small runs use the same frames each time; the full scale uses ten thousand others."""
    with WireClient(HOST, brokers.ours.port) as client:
        frames = random_frames(served_versions(client))
    checks = iter(range(1 << 31))

    @settings(
        max_examples=scaled(200),
        derandomize=SCALE <= 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(frames)
    def meet_alike(data: bytes) -> None:
        kafka = outcome(brokers.kafka.port, data)
        ours = patient_outcome(brokers.ours.port, data, kafka)
        assert ours == kafka or ours == patient_outcome(brokers.kafka.port, data, ours), data.hex()
        if next(checks) % 50 == 0:
            bystander.check()

    meet_alike()


def test_declared_sizes_take_no_memory(brokers: Brokers, bystander: Bystander) -> None:
    """A hundred connections each announce 100 MiB and send a few bytes of it."""
    clients = [WireClient(HOST, brokers.ours.port) for _ in range(100)]
    before = resident_bytes(brokers.ours.pid)
    for client in clients:
        client.socket.sendall(struct.pack(">i", 104_857_600) + bytes(100))
    bystander.check()
    assert resident_bytes(brokers.ours.pid) - before < _GROWTH_BYTES / 4
    for client in clients:
        client.close()


def test_full_validation_rejects_invalid_records(brokers: Brokers, start_broker: StartBroker) -> None:
    """pybroker.record.validation=full: the recorded answers of Apache Kafka, which always validates, and its current
    ones.
    """
    full = start_broker("ours", {"pybroker.record.validation": "full"})
    expected = recorded_outcomes()
    prepare(full)
    for broker in (full, brokers.kafka):
        batches = [each for each in inconsistent_batches() if broker is full or not _SINCE_4_4.search(each[0])]
        found = {name: patient_outcome(broker.port, data, expected[name]) for name, data in batches}
        assert found == {name: expected[name] for name in found}
    assert "Traceback" not in full.output
    full.stop()


def test_unvalidated_records_do_no_harm(
    brokers: Brokers, bystander: Bystander, java: JavaRunner, start_broker: StartBroker
) -> None:
    """By default the broker accepts them. Their readers may complain; other partitions, tools and a recovery do not."""
    lied_to = start_broker("ours")
    prepare(lied_to)
    found = {outcome(lied_to.port, data) for _, data in inconsistent_batches()}
    assert found <= {"ok open", f"{ErrorCode.INVALID_RECORD:d} open", f"{ErrorCode.INVALID_TIMESTAMP:d} open"}
    _look_around(lied_to, java)
    lied_to.kill()
    lied_to.start()
    _look_around(lied_to, java)
    assert "Traceback" not in lied_to.output
    lied_to.stop()


def _look_around(broker: RunningBroker, java: JavaRunner) -> None:
    """Look up and fetch the invalid records, use the partition beside them, and run a tool on both."""
    other = Bystander(broker)
    other.check()
    with WireClient(HOST, broker.port) as client:
        ends = []
        for timestamp in (-1, -2, -3, 0, int(time.time() * 1000) - 60_000, 1 << 62):
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topics = [ListOffsetsTopic(name=TOPIC, partitions=[wanted])]
            [answer] = client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics).topics[0].partitions
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR)
            ends.append(answer.offset)
        offset = 0
        while offset < ends[0]:
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
            answer = client.call(FETCH, 12, max_wait_ms=100, min_bytes=1, topics=topics, session_epoch=-1)
            [partition] = answer.responses[0].partitions
            assert partition.error_code == ErrorCode.NONE
            offset += max(1, len(partition.records) // 100)
    tool = start_tool(java, broker.bootstrap, "kafka-get-offsets", "--topic", TOPIC).wait()
    assert tool.stdout.splitlines() == [f"{TOPIC}:0:{ends[0]}", f"{TOPIC}:1:{other.written}"]
    other.close()
