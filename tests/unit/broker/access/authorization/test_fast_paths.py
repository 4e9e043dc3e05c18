"""Fast paths serve only authorized clients. The handler rejects the others, and the log names them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.access.authorization.guard import Guard
from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from security.acl import Acl, Operation, PatternType, Permission, ResourceType
from security.authorizer import Authorizer
from tests.support.controllers import ControllerHarness
from tests.support.network import answers_in, request_frame
from tests.support.one_connection import OneConnection

FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Guarded(OneConnection):
    """A client that is User:ANONYMOUS, on a broker with an authorizer."""

    def __init__(self, directory: Path) -> None:
        self.authorizer = Authorizer()
        metadata = ControllerHarness().with_topics(NewTopic("t", 1, 1)).metadata
        self.topic_id = metadata.image.topics_by_name["t"].topic_id
        self.guard = Guard(self.authorizer, metadata)
        super().__init__(directory)
        self.broker.guard = self.server.dispatcher.guard = self.guard
        self.broker.topic(topic_id=self.topic_id)

    def allow(self, *operations: Operation) -> None:
        self.authorizer.load(
            Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ANONYMOUS", "127.0.0.1", each, Permission.ALLOW)
            for each in operations
        )

    def produce(self) -> int:
        """Return the error."""
        batch = BatchBuilder()
        batch.append(1, None, b"value")
        data = PartitionProduceData(index=0, records=batch.build())
        topics = [TopicProduceData(topic_id=self.topic_id, partition_data=[data])]
        answer = self.call(PRODUCE, 13, acks=1, timeout_ms=1000, topic_data=topics)
        return int(answer.responses[0].partition_responses[0].error_code)

    def fetch(self) -> int:
        """Return the error."""
        return int(self.call(FETCH, 16, **self.fetched()).responses[0].partitions[0].error_code)

    def list_offsets(self) -> int:
        """Return the error."""
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name="t", partitions=[wanted])]
        answer = self.call(LIST_OFFSETS, 9, replica_id=-1, topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    def fetched(self, **fields: Any) -> dict[str, Any]:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic_id=self.topic_id, partitions=[wanted])]
        return {"min_bytes": 1, "max_bytes": 1000, "topics": topics, "session_epoch": -1} | fields

    @property
    def passed(self) -> set[str]:
        return {name for _, name in self.traced}


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Guarded]:
    with Guarded(tmp_path) as link:
        yield link


def test_authorized_clients_get_the_fast_path(link: Guarded) -> None:
    link.allow(Operation.WRITE, Operation.READ)
    for _ in range(2):
        assert link.produce() == 0
    assert "produce" not in link.passed
    assert link.fetch() == 0
    assert "fetch" not in link.passed
    assert link.list_offsets() == 0
    assert "list_offsets" not in link.passed


def test_unauthorized_clients_are_rejected_and_logged(link: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    """From the moment when the ACLs change."""
    link.allow(Operation.WRITE, Operation.READ)
    assert (link.produce(), link.fetch()) == (0, 0)
    link.allow()
    with caplog.at_level(logging.WARNING, "broker.audit"):
        assert (link.produce(), link.fetch()) == (FAILED, FAILED)
    assert [record.message.split(" is Denied ")[0] for record in caplog.records] == ["Principal = User:ANONYMOUS"] * 2
    assert link.broker.partitions.get("t", 0).log_end_offset == 1
    assert link.list_offsets() == FAILED
    link.allow(Operation.WRITE)
    assert (link.produce(), link.fetch(), link.list_offsets()) == (0, FAILED, 0)


def test_a_waiting_fetch_loses_its_permission(link: Guarded) -> None:
    """It does not get a record that is appended after that."""
    link.allow(Operation.WRITE, Operation.READ)
    link.client.sendall(request_frame(FETCH, 16, 7, **link.fetched(max_wait_ms=500)))
    link.readable()
    link.allow(Operation.WRITE)
    batch = BatchBuilder()
    batch.append(1, None, b"value")
    link.broker.partitions.get("t", 0).append(memoryview(bytearray(batch.build())), 1)
    link.loop.settle()
    ((_, answer),) = answers_in(link.client.recv(1 << 20), [(FETCH, 16)])
    assert answer.responses[0].partitions[0].error_code == FAILED
