"""TxnOffsetCommit: topics by name and by id, and the error codes of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct
from tests.support.txn_broker import TxnBroker

STRANGE_ID = b"strange topic id"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    broker = TxnBroker(tmp_path)
    broker.create("t", 2)
    assert broker.client.init("x") == "NONE P0 0"
    yield broker
    broker.close()


def commit(broker: TxnBroker, version: int, topics: list[Struct], **fields: Any) -> list[Struct]:
    """Commit in the transaction of x; return the topics of the answer."""
    named = {"transactional_id": "x", "group_id": "g", "producer_id": 0, "producer_epoch": 0}
    answer = broker.call(TXN_OFFSET_COMMIT, version, **{**named, **fields}, topics=topics)
    found: list[Struct] = answer.topics
    return found


def topic(*partitions: int, name: str = "", topic_id: bytes = ZERO_UUID) -> Struct:
    return TxnOffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
            for index in partitions
        ],
    )


def codes(topics: list[Struct]) -> list[tuple[str, bytes, list[tuple[int, int]]]]:
    return [
        (each.name, each.topic_id, [(one.partition_index, one.error_code) for one in each.partitions])
        for each in topics
    ]


def test_topics_by_id(broker: TxnBroker) -> None:
    """KIP-1319: the answer names them by id, too. Unknown ids have an error of their own."""
    known = broker.controller.image.topic("t").topic_id
    asked = [topic(0, 9, topic_id=known), topic(0, topic_id=STRANGE_ID), topic(0)]
    assert codes(commit(broker, 6, asked)) == [
        ("", known, [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.NONE)]),
        ("", STRANGE_ID, [(0, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ("", ZERO_UUID, [(0, ErrorCode.UNKNOWN_TOPIC_ID)]),
    ]
    assert broker.client.end("x", ("P0", 0), True) == "NONE"
    broker.settle()
    shard = broker.groups.at("g")
    assert not isinstance(shard, ErrorCode)
    assert [(each.offset, each.topic_id) for each in shard.offsets.of_group("g")["t"].values()] == [(7, known)]


@pytest.mark.parametrize("version", [0, 3, 5])
def test_topics_by_name(broker: TxnBroker, version: int) -> None:
    """Older versions have no id in the answer."""
    if version < 5:
        assert broker.client.add_offsets("x", ("P0", 0), "g") == "NONE"
    assert codes(commit(broker, version, [topic(0, 9, name="t"), topic(0, name="none")])) == [
        ("t", ZERO_UUID, [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.NONE)]),
        ("none", ZERO_UUID, [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_missing_group_with_a_member(broker: TxnBroker, version: int, code: ErrorCode) -> None:
    """Older clients know only the first of the codes."""
    found = topic(0, name="t", topic_id=broker.controller.image.topic("t").topic_id)
    member = {"member_id": "m", "generation_id_or_member_epoch": 3}
    (answer,) = commit(broker, version, [found], **member)
    assert answer.partitions[0].error_code == code
