"""Controllers that answer nonsense: a member applies none of it, goes on serving, and follows them again afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.fetch import FETCH, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, SnapshotId
from protocol.messages.fetch_snapshot import FETCH_SNAPSHOT
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.integration.membership.fake_controller import NODE_ID, FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.eventually import eventually
from tests.support.wire import WireClient


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


class Lie:
    """A distortion of the answers of one API. It counts them."""

    def __init__(self, api_name: str, change: Callable[[Any], None]) -> None:
        self.count = 0
        self._api_name = api_name
        self._change = change

    def __call__(self, name: str, answer: Struct) -> Struct:
        if name == self._api_name:
            self._change(answer)
            self.count += 1
        return answer


def of_partition(**fields: Any) -> Lie:
    """Return a distortion of the fetched partition."""

    def change(answer: Any) -> None:
        for name, value in fields.items():
            setattr(answer.responses[0].partitions[0], name, value)

    return Lie(FETCH.name, change)


class Redirections:
    """Names another leader and a later epoch in each answer, and counts them."""

    def __init__(self, port: int) -> None:
        self.count = 0
        self._port = port

    def __call__(self, name: str, answer: Struct) -> Struct:
        if name == FETCH.name:
            self.count += 1
            data = answer.responses[0].partitions[0]
            data.error_code, data.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
            data.current_leader = LeaderIdAndEpoch(leader_id=NODE_ID + 1, leader_epoch=1)
            answer.node_endpoints = [NodeEndpoint(node_id=NODE_ID + 1, host=HOST, port=self._port)]
        return answer


LIES: dict[str, Lie] = {
    "zeros": of_partition(records=bytes(300)),
    "text": of_partition(records=b"HTTP/1.1 400 Bad Request\r\n" * 30),
    "cut batch": of_partition(records=bytes(8) + (500).to_bytes(4, "big") + b"\0\0\0\1\2"),
    "other end": of_partition(high_watermark=1 << 60),
    "no end": of_partition(high_watermark=-5),
    "divergence": of_partition(diverging_epoch=EpochEndOffset(epoch=1 << 20, end_offset=1 << 60)),
    "snapshot": of_partition(snapshot_id=SnapshotId(end_offset=1 << 60, epoch=1)),
    "earlier leader": of_partition(current_leader=LeaderIdAndEpoch(leader_id=NODE_ID + 7, leader_epoch=0)),
    "no topics": Lie(FETCH.name, lambda answer: setattr(answer, "responses", [])),
    "throttled for ever": Lie(FETCH.name, lambda answer: setattr(answer, "throttle_time_ms", 1 << 30)),
    "error without a meaning": Lie(FETCH.name, lambda answer: setattr(answer, "error_code", 12345)),
    "partition's error": of_partition(error_code=-32768),
    "told to stop": Lie(BROKER_HEARTBEAT.name, lambda answer: setattr(answer, "should_shut_down", True)),
    "heartbeat's error": Lie(BROKER_HEARTBEAT.name, lambda answer: setattr(answer, "error_code", 12345)),
}


def knows(client: WireClient, topic: str) -> bool:
    (found,) = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=topic)]).topics
    return bool(found.error_code == 0)


def test_member_outlives_lies(controller: FakeController, tmp_path: Path) -> None:
    """It asks for the same again until it gets what can be used."""
    with MemberBroker(tmp_path, controller.port) as member, WireClient(HOST, member.port) as client:
        for number, (name, lie) in enumerate(LIES.items()):
            controller.distort = lie
            controller.create(NewTopic(f"topic-{number}", 1, 1))
            eventually(lambda: lie.count, lambda: name)  # noqa: B023
            controller.distort = lambda _, answer: answer
            eventually(lambda: knows(client, f"topic-{number}"), lambda: f"the end of {name}")  # noqa: B023
        controller.write_raw(b"\1\x7f\0")  # a type of a later release is kept
        redirections = controller.distort = Redirections(controller.port)
        began_s = time.monotonic()
        time.sleep(1)
        controller.distort = lambda _, answer: answer
        most = 200 * (time.monotonic() - began_s)
        controller.create(NewTopic("last", 1, 1))
        eventually(lambda: knows(client, "last"))
        assert member.is_running
        assert "Traceback" not in member.output
    assert 1 < redirections.count < most


def test_snapshot_that_is_cut_or_damaged(controller: FakeController, tmp_path: Path) -> None:
    """A start waits until it gets a whole one."""
    controller.keep_only_a_snapshot()

    def cut(answer: Any) -> None:
        data = answer.topics[0].partitions[0]
        if data.position >= 100:
            data.unaligned_records = data.unaligned_records[:-1] + b"\xff"

    lie = Lie(FETCH_SNAPSHOT.name, cut)

    def later(name: str, answer: Struct) -> Struct:
        if len(controller.named(FETCH_SNAPSHOT)) > 20:
            return answer
        return lie(name, answer)

    controller.distort = later
    with MemberBroker(tmp_path, controller.port) as member, WireClient(HOST, member.port) as client:
        assert "The controller sent a damaged snapshot" in member.output
        controller.create(NewTopic("orders", 1, 1))
        eventually(lambda: knows(client, "orders"))


def test_record_of_a_later_version_ends_the_member(controller: FakeController, tmp_path: Path) -> None:
    """One line says where; nothing of it is applied, and clients are served until then."""
    with MemberBroker(tmp_path, controller.port) as member:
        end = controller.end_offset
        controller.write_raw(b"\1\2\x63")  # a TopicRecord of version 99
        assert member.wait() != 0
        lines = [line for line in member.output.splitlines() if "the metadata log cannot be applied" in line]
        assert len(lines) == 1, member.output
        assert f"after offset {end - 1}: " in lines[0]
        assert "Traceback" not in member.output
