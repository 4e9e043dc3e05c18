"""Partitions ask the coordinator of a transaction on another broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinators.transaction.verifier import FirstBatch
from broker.membership.coordination.peer_verifier import PeerVerifier
from coordinator.shard import Producer
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = [FirstBatch(each, Producer(7, 3), 0, False) for each in (T0, T1)]
VERIFIES, JOINS = 11, 12
NEWER_CODE = 9_999
Codes = Mapping[TopicPartition, ErrorCode]


class Leader:
    """This broker, 1, leads partitions of t. Broker 2 has the coordinator."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {
            "transaction.partition.verification.enable": True,
            "add.partitions.to.txn.retry.backoff.ms": 20,
            "add.partitions.to.txn.retry.backoff.max.ms": 100,
            "request.timeout.ms": 30_000,
        }
        config = SimpleNamespace(node_id=1, get_int=self.settings.__getitem__, get_bool=self.settings.__getitem__)
        self.image = Leaders(__transaction_state=[2])
        self.peers = MemoryRequests()
        self.producers: dict[int, Any] = {}
        state = SimpleNamespace(producer_state=SimpleNamespace(producers=self.producers))
        partition = SimpleNamespace(find_log=lambda: state)
        partitions = SimpleNamespace(get=lambda topic, index: partition)
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        timers = Timers(self.loop, self.clock)  # type: ignore[arg-type]
        self._verifier = PeerVerifier(
            config,  # type: ignore[arg-type]
            self.image,  # type: ignore[arg-type]
            self,
            self.peers,
            partitions,  # type: ignore[arg-type]
            self.clock,
            timers,
        )

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Codes:
        """Answer as the coordinator of this broker."""
        return {T0: ErrorCode.NOT_COORDINATOR}

    def ask(self, version: int) -> Codes | Deferred[Codes]:
        return self._verifier.verify("x", BATCHES, version)

    def answer(self, *codes: int, whole: int = ErrorCode.NONE) -> None:
        partitions = [
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index, code in enumerate(codes)
        ]
        topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
        found = AddPartitionsToTxnResult(transactional_id="x", topic_results=topics)
        self.peers.answer(error_code=whole, results_by_transaction=[found])


def asked(leader: Leader, version: int) -> Deferred[Codes]:
    codes = leader.ask(version)
    assert isinstance(codes, Deferred)
    return codes


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.mark.parametrize(("version", "verify_only"), [(VERIFIES, True), (JOINS, False)])
def test_the_coordinator_is_asked_for_all_partitions(leader: Leader, version: int, verify_only: bool) -> None:
    codes = asked(leader, version)
    ((broker_id, request),) = leader.peers.sent
    (transaction,) = request.transactions
    assert (broker_id, transaction.transactional_id, transaction.verify_only) == (2, "x", verify_only)
    assert (transaction.producer_id, transaction.producer_epoch) == (7, 3)
    assert [(each.name, each.partitions) for each in transaction.topics] == [("t", [0, 1])]
    leader.answer(ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE)
    assert codes.result() == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}


def test_errors_of_the_request_are_those_of_all_partitions(leader: Leader) -> None:
    codes = asked(leader, VERIFIES)
    leader.answer(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert set(codes.result().values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    codes = asked(leader, VERIFIES)
    leader.peers.lose()
    assert codes.result() == dict.fromkeys((T0, T1), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    codes = asked(leader, VERIFIES)
    leader.answer(ErrorCode.NONE)
    assert codes.result()[T1] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_code_of_a_newer_release_is_an_unknown_error(leader: Leader) -> None:
    """The producer gets an answer."""
    codes = asked(leader, VERIFIES)
    leader.answer(NEWER_CODE, ErrorCode.NONE)
    assert codes.result() == {T0: ErrorCode.UNKNOWN_SERVER_ERROR, T1: ErrorCode.NONE}
    codes = asked(leader, VERIFIES)
    leader.answer(whole=NEWER_CODE)
    assert set(codes.result().values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_own_coordinator_and_none_are_asked_here(leader: Leader) -> None:
    leader.image.topics["__transaction_state"] = [1]
    assert leader.ask(JOINS) == {T0: ErrorCode.NOT_COORDINATOR}
    leader.image.topics.clear()
    assert leader.ask(JOINS) == {T0: ErrorCode.NOT_COORDINATOR}
    assert leader.peers.sent == []


def test_verification_may_be_off_but_joining_not(leader: Leader) -> None:
    leader.settings["transaction.partition.verification.enable"] = False
    assert leader.ask(VERIFIES) == {}
    assert isinstance(leader.ask(JOINS), Deferred)


def test_a_transaction_that_is_still_ending_is_asked_again(leader: Leader) -> None:
    codes = asked(leader, JOINS)
    leader.answer(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (codes.done, leader.peers.sent) == (False, [])
    leader.image.topics["__transaction_state"] = [3]  # it moves meanwhile
    leader.loop.advance(20)
    assert [broker_id for broker_id, _ in leader.peers.sent] == [3]
    leader.answer(ErrorCode.NONE, ErrorCode.NONE)
    assert set(codes.result().values()) == {ErrorCode.NONE}
    codes = asked(leader, JOINS)
    leader.clock.advance(100)
    leader.answer(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert set(codes.result().values()) == {ErrorCode.CONCURRENT_TRANSACTIONS}


def test_older_producers_are_asked_once(leader: Leader) -> None:
    codes = asked(leader, VERIFIES)
    leader.answer(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    assert codes.result()[T0] is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_marker_that_comes_before_the_answer_ends_the_transaction(leader: Leader) -> None:
    """The answer was true when it was given; the batch would open a transaction that nobody ends."""
    codes = asked(leader, VERIFIES)
    leader.producers[7] = SimpleNamespace(
        producer_epoch=3, coordinator_epoch=1, last_timestamp=5, transaction_offset=-1
    )
    leader.answer(ErrorCode.NONE, ErrorCode.NONE)
    assert set(codes.result().values()) == {ErrorCode.INVALID_TXN_STATE}
