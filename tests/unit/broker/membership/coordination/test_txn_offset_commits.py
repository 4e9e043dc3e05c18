"""Offsets in a transaction whose coordinator is another broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinators.transaction.verifier import FirstBatch
from broker.membership.coordination.txn_offset_commits import VerifiedCommits
from broker.requests.served_api import discover
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from tests.support.group_broker import GroupBroker

Codes = Mapping[TopicPartition, ErrorCode]
VERIFIES, JOINS = 4, 5


class SplitBroker(GroupBroker):
    """Broker 1 has the groups, broker 2 the transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.controller.add("t")
        for each in self.hosted.values():
            each.producer_state = SimpleNamespace(producers={})  # type: ignore[attr-defined]
            each.queue = None  # type: ignore[attr-defined]
        self.config.get_bool = lambda key: True
        self.coordinator: int | None = 2
        self.asked: list[tuple[FirstBatch, int]] = []
        self.answered: Deferred[Codes] | Codes = Deferred()
        self.verifier = self
        self.transactions = SimpleNamespace(
            join=lambda *_: ErrorCode.NOT_COORDINATOR,
            verify=lambda _, __, places: dict.fromkeys(places, ErrorCode.NOT_COORDINATOR),
            once_committed=lambda *_: None,
        )

    def coordinator_of(self, transactional_id: str) -> int | None:
        return self.coordinator

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], version: int) -> Deferred[Codes] | Codes:
        self.asked.append((batches[0], version))
        return self.answered

    def handler(self, api: Api) -> Any:
        if api is not TXN_OFFSET_COMMIT:
            return super().handler(api)
        served = VerifiedCommits(discover()[api.key], 1, lambda: self.names)
        return served.load().handler

    @property
    def names(self) -> dict[str, object]:
        names = ("groups", "transactions", "config", "metadata", "verifier")
        return {name: getattr(self, name) for name in names}

    def commit(self, version: int = JOINS) -> Deferred[Struct]:
        partitions = [{"partition_index": 0, "committed_offset": 42}]
        return self.send(
            TXN_OFFSET_COMMIT,
            version,
            transactional_id="x",
            group_id="g",
            producer_id=7,
            producer_epoch=0,
            topics=[{"name": "t", "partitions": partitions}],
        )

    def answer(self, code: ErrorCode) -> None:
        assert isinstance(self.answered, Deferred)
        place = TopicPartition("__consumer_offsets", self.partition_of("g").index)
        self.answered.resolve({place: code})

    def pending(self) -> int:
        """Return the error that a fetch of stable offsets gets: UNSTABLE_OFFSET_COMMIT while they are pending."""
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
        answer = self.call(OFFSET_FETCH, 8, groups=[group], require_stable=True)
        return int(answer.groups[0].topics[0].partitions[0].error_code)


def code_of(reply: Deferred[Struct]) -> int:
    return int(reply.result().topics[0].partitions[0].error_code)


@pytest.fixture
def broker() -> SplitBroker:
    return SplitBroker()


@pytest.mark.parametrize(("version", "produce"), [(VERIFIES, 11), (JOINS, 12)])
def test_offsets_are_written_once_the_coordinator_agrees(broker: SplitBroker, version: int, produce: int) -> None:
    reply = broker.commit(version)
    ((batch, asked_as),) = broker.asked
    assert (batch.place.partition, batch.producer.producer_id, asked_as) == (broker.partition_of("g").index, 7, produce)
    assert (reply.done, broker.pending()) == (False, 0)
    broker.answer(ErrorCode.NONE)
    assert (code_of(reply), broker.pending()) == (0, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
@pytest.mark.parametrize("version", [VERIFIES, JOINS])
def test_refusals_write_nothing(broker: SplitBroker, version: int, answer: ErrorCode, code: ErrorCode) -> None:
    reply = broker.commit(version)
    broker.answer(answer)
    assert (code_of(reply), broker.pending()) == (code, 0)


def test_a_client_that_leaves_has_its_offsets_written(broker: SplitBroker) -> None:
    broker.commit().cancel()
    broker.answer(ErrorCode.NONE)
    assert broker.pending() == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_verification_that_is_off_asks_nobody(broker: SplitBroker) -> None:
    broker.answered = {}
    assert code_of(broker.commit(VERIFIES)) == ErrorCode.NONE


@pytest.mark.parametrize("coordinator", [1, None])
def test_own_coordinator_decides_here(broker: SplitBroker, coordinator: int | None) -> None:
    broker.coordinator = coordinator
    assert code_of(broker.commit()) == ErrorCode.NOT_COORDINATOR
    assert broker.asked == []


def test_an_open_transaction_needs_no_verification(broker: SplitBroker) -> None:
    entry = SimpleNamespace(producer_epoch=0, transaction_offset=3)
    broker.partition_of("g").producer_state.producers[7] = entry  # type: ignore[attr-defined]
    assert code_of(broker.commit()) == ErrorCode.NONE
    assert broker.asked == []


def test_a_group_elsewhere_is_refused_first(broker: SplitBroker) -> None:
    lost = broker.hosted.pop(broker.partition_of("g").index)
    broker.groups.partition_lost(lost)  # type: ignore[arg-type]
    assert code_of(broker.commit()) == ErrorCode.NOT_COORDINATOR
    assert broker.asked == []
