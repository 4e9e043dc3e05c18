"""Batches of a turn of the loop: equal items, targets, and responses that lack an item or do not come."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.membership.coordination.peer_batches import PeerBatches, results_of
from broker.network.outbound_errors import ConnectionFailed
from protocol.client_session import PendingRequest, Response
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.schema import Struct
from runtime.deferred import Deferred


def _offsets(answer: Struct) -> Iterator[tuple[int, int]]:
    for topic in answer.topics:
        for each in topic.partitions:
            yield each.partition_index, each.offset


def test_items_of_a_turn_are_sent_together() -> None:
    turns: list[Callable[[], None]] = []
    sent: list[tuple[int, dict[str, str]]] = []

    def send(target: int, items: dict[str, str]) -> Deferred[Response]:
        sent.append((target, items))
        return Deferred()

    batches: PeerBatches[int, str, str] = PeerBatches(turns.append, send, lambda items, done: None)
    assert batches.add(1, "a", "first") == "first"
    assert batches.add(1, "a", "second") == "first"
    batches.add(1, "b", "third")
    batches.add(2, "a", "fourth")
    assert (len(turns), sent) == (1, [])
    turns.pop()()
    assert sent == [(1, {"a": "first", "b": "third"}), (2, {"a": "fourth"})]
    batches.add(1, "a", "fifth")
    turns.pop()()
    assert sent[2:] == [(1, {"a": "fifth"})]


def test_error_for_one_target_touches_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Its items fail; those of the other targets are sent, and answered."""
    turns: list[Callable[[], None]] = []
    asked: dict[int, Deferred[Response]] = {}
    taken: list[tuple[dict[str, str], ErrorCode]] = []

    def send(target: int, items: dict[str, str]) -> Deferred[Response]:
        if target == 2:
            raise ValueError("cannot be encoded")
        return asked.setdefault(target, Deferred())

    def take(items: dict[str, str], done: Deferred[Response]) -> None:
        taken.append((items, results_of(done, _offsets)[1]))
        if "bad" in items:
            raise LookupError("nobody waits")

    batches: PeerBatches[int, str, str] = PeerBatches(turns.append, send, take)
    for target, item in ((1, "a"), (2, "bad"), (3, "c")):
        batches.add(target, item, "answer")
    turns.pop()()
    assert taken == [({"bad": "answer"}, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert "ValueError: cannot be encoded" in caplog.text
    for each in asked.values():
        each.fail(ConnectionFailed("broker", "lost"))
    assert taken[1:] == [({item: "answer"}, ErrorCode.NETWORK_EXCEPTION) for item in ("a", "c")]


def test_results_of_a_response() -> None:
    topic = ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(partition_index=3, offset=7)])
    answer = LIST_OFFSETS.response(topics=[topic])
    done = Deferred.resolved(Response(PendingRequest(LIST_OFFSETS, 0, 0), answer, b"", 0, 0))
    assert results_of(done, _offsets) == ({3: 7}, ErrorCode.UNKNOWN_SERVER_ERROR)
    failed: Deferred[Response] = Deferred()
    failed.fail(ConnectionFailed("broker 2", "lost"))
    assert results_of(failed, _offsets) == ({}, ErrorCode.NETWORK_EXCEPTION)
