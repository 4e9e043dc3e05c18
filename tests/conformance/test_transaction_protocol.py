"""Transactions frame by frame: our broker and Apache Kafka give the same answers to the same requests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.end_txn import END_TXN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.settled import wait_for_topic
from tests.support.txn_client import TxnClient

PATIENCE_S = 60


class Producer:
    """A transactional id of its own, and a topic of two partitions; steps are given by epoch."""

    def __init__(self, broker: RunningBroker, name: str) -> None:
        self.broker = broker
        self.client = TxnClient(HOST, broker.port)
        self.name = name
        self.group = f"{name}-g"
        self.client.create_topic(name, 2)
        wait_for_topic(broker, name, 2)
        self.client.wait_for_coordinator(name)
        assert self.client.init_with_retries(name) == "NONE P0 0"

    def close(self) -> None:
        self.client.close()

    @property
    def places(self) -> tuple[tuple[str, int], tuple[str, int]]:
        return (self.name, 0), (self.name, 1)

    def wait_for_group(self) -> None:
        self.client.wait_for_group(self.group, self.places[0])

    def init(self, producer: tuple[str, int] = ("-", -1), **options: int) -> str:
        return self.client.init_with_retries(self.name, producer, **options)

    def write(self, epoch: int, partition: int, sequence: int, *values: bytes, version: int = 12) -> str:
        return self.client.write(self.name, ("P0", epoch), self.places[partition], sequence, *values, version=version)

    def end(self, epoch: int, commit: bool, version: int = 5) -> str:
        """Send an EndTxn, and wait for the markers."""
        answer = self.client.end(self.name, ("P0", epoch), commit, version)
        self.client.settled(self.name)
        return answer

    def state(self) -> str:
        """Return state and epoch."""
        words = self.client.settled(self.name).split()
        return f"{words[0]} {words[2]}"


@pytest.fixture
def producer(reference: RunningBroker, name: str) -> Iterator[Producer]:
    made = Producer(reference, name)
    yield made
    made.close()


@pytest.fixture
def client(reference: RunningBroker) -> Iterator[TxnClient]:
    with TxnClient(HOST, reference.port) as made:
        yield made


# -- InitProducerId ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31), 900_001, 2**31 - 1])
def test_absurd_timeouts(producer: Producer, timeout_ms: int):
    assert producer.init(timeout_ms=timeout_ms) == "INVALID_TRANSACTION_TIMEOUT - -1"
    assert producer.state() == "Empty 0"


def test_ids_without_a_character_and_of_the_greatest_length(client: TxnClient, name: str):
    assert client.init("") == "INVALID_REQUEST - -1"
    assert client.describe("") == "INVALID_REQUEST"
    longest = f"{name}-".ljust(32_767, "x")
    client.wait_for_coordinator(longest)
    assert client.init_with_retries(longest).startswith("NONE")
    assert client.settled(longest).startswith("Empty")


def test_coordinator_of_an_id(producer: Producer):
    """S20.2, S20.3, S20.5: the coordinator is a broker with a topic of 50 partitions."""
    client = producer.client
    [found] = client.call(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[producer.name]).coordinators
    assert (found.error_code, found.node_id, found.port) == (0, producer.broker.node_id, producer.broker.port)
    assert client.topics()["__transaction_state"] == 50


def test_newcomers_fence(producer: Producer):
    """S20.6, S20.17: the previous producer's transaction is aborted."""
    producer.write(0, 0, 0)
    assert producer.init() == "NONE P0 2"
    assert producer.write(0, 0, 1) == "INVALID_PRODUCER_EPOCH -1"
    assert producer.write(0, 0, 1, version=10) == "INVALID_PRODUCER_EPOCH -1"
    assert producer.end(0, True) == "PRODUCER_FENCED - -1"
    assert producer.end(0, True, 2) == "PRODUCER_FENCED"
    assert producer.end(0, True, 1) == "INVALID_PRODUCER_EPOCH"
    assert producer.client.aborted(producer.name) == "NONE 2 ['P0@0']"
    assert producer.state() == "Empty 2"


def test_a_producer_continues(producer: Producer):
    """KIP-360."""
    assert producer.init(("P0", 0)) == "NONE P0 1"
    assert producer.init(("P0", 0)) == "NONE P0 1"
    assert producer.init(("P0", 1)) == "NONE P0 2"
    assert producer.init(("P0", 0)) == "PRODUCER_FENCED - -1"
    assert producer.init(("P0", 0), version=3) == "INVALID_PRODUCER_EPOCH - -1"
    assert producer.init(("P0", 7)) == "PRODUCER_FENCED - -1"
    assert producer.init(("P0", -1)) == "INVALID_REQUEST - -1"
    assert producer.init(("-", 2)) == "INVALID_REQUEST - -1"
    assert producer.init() == "NONE P0 3"


# -- the older protocol ------------------------------------------------------------------------------------------------


def test_older_protocol(producer: Producer):
    """Requests add partitions; the epoch stays."""
    client, (first, second) = producer.client, producer.places
    assert producer.write(0, 0, 0, version=11) == "TRANSACTION_ABORTABLE -1"
    assert producer.write(0, 0, 0, version=10) == "INVALID_TXN_STATE -1"
    assert client.add(producer.name, ("P0", 0), first) == f"{first[0]}-0 NONE"
    assert producer.write(0, 0, 0, b"a", b"b", version=11) == "NONE 0"
    assert producer.write(0, 1, 0, version=11) == "TRANSACTION_ABORTABLE -1"
    assert (client.latest(producer.name, committed=True), client.latest(producer.name, committed=False)) == (0, 2)
    assert producer.end(0, False, 4) == "NONE"
    assert producer.end(0, False, 4) == "NONE"
    assert producer.end(0, True, 4) == "INVALID_TXN_STATE"
    assert client.aborted(producer.name) == "NONE 3 ['P0@0']"
    assert producer.write(0, 0, 2, version=11) == "TRANSACTION_ABORTABLE -1"
    assert client.add(producer.name, ("P0", 0), first, second).count("NONE") == 2
    assert producer.write(0, 0, 2, b"c", version=3) == "NONE 3"
    assert producer.end(0, True, 0) == "NONE"
    assert producer.state() == "CompleteCommit 0"
    assert client.committed_values(producer.name) == [b"c"]


def test_adding_what_cannot_be_added(producer: Producer):
    client, name, (first, second) = producer.client, producer.name, producer.places
    assert (
        client.add(name, ("P0", 5), first, second, version=2) == f"{name}-0 PRODUCER_FENCED, {name}-1 PRODUCER_FENCED"
    )
    assert client.add(name, ("P0", 5), first, version=1) == f"{name}-0 INVALID_PRODUCER_EPOCH"
    assert client.add(name, ("-", 0), first) == f"{name}-0 INVALID_PRODUCER_ID_MAPPING"
    assert client.add("", ("P0", 0), first) == f"{name}-0 INVALID_REQUEST"
    assert client.add(name, ("P0", 0), first, (name, 7)) == (
        f"{name}-0 OPERATION_NOT_ATTEMPTED, {name}-7 UNKNOWN_TOPIC_OR_PARTITION"
    )
    assert client.add(name, ("P0", 0), ("no-such-topic", 0)) == "no-such-topic-0 UNKNOWN_TOPIC_OR_PARTITION"
    assert client.add(name, ("P0", 0), first, ("__transaction_state", 0)) == (
        f"__transaction_state-0 TOPIC_AUTHORIZATION_FAILED, {name}-0 OPERATION_NOT_ATTEMPTED"
    )
    assert client.add(name, ("P0", 0), ("__transaction_state", 9_999)) == (
        "__transaction_state-9999 TOPIC_AUTHORIZATION_FAILED"
    )
    twice = client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name, name])
    assert [each.transactional_id for each in twice.transaction_states] == [name, name]
    assert producer.state() == "Empty 0"
    assert producer.end(0, True, 4) == "INVALID_TXN_STATE"
    assert producer.end(0, False, 4) == "INVALID_TXN_STATE"


def test_partitions_are_added_again_after_a_lost_answer(producer: Producer):
    """A repetition changes nothing; a producer that was fenced meanwhile gets that error."""
    client, name, (first, second) = producer.client, producer.name, producer.places
    with TxnClient(HOST, producer.broker.port) as lost:
        lost.name(client.producer_id("P0"))
        lost.send_add(name, ("P0", 0), first)
        eventually(lambda: client.describe(name).startswith("Ongoing"), timeout_s=PATIENCE_S)
    joined = client.describe(name)
    assert joined == f"Ongoing P0 0 60000 started ['{name}-0']"
    assert client.add(name, ("P0", 0), first) == f"{name}-0 NONE"
    assert client.describe(name) == joined
    assert client.add(name, ("P0", 0), first, second) == f"{name}-0 NONE, {name}-1 NONE"
    assert client.add(name, ("P0", 0), second) == f"{name}-1 NONE"
    assert client.describe(name) == f"Ongoing P0 0 60000 started ['{name}-0', '{name}-1']"
    with TxnClient(HOST, producer.broker.port) as newcomer:
        newcomer.init_with_retries(name)
    assert client.add(name, ("P0", 0), first) == f"{name}-0 PRODUCER_FENCED"


def test_nothing_is_added_while_a_transaction_ends(producer: Producer):
    """CONCURRENT_TRANSACTIONS until its markers are written; the same request, repeated until then, is accepted.

    Both requests are sent at once, so that the second one is served right after the first; now and then the markers are
    faster.
    """
    client, name, (first, second) = producer.client, producer.name, producer.places
    early = f"{name}-0 CONCURRENT_TRANSACTIONS, {name}-1 CONCURRENT_TRANSACTIONS"
    taken = f"{name}-0 NONE, {name}-1 NONE"
    assert client.add(name, ("P0", 0), first, second) == taken
    deadline = time.monotonic() + PATIENCE_S
    met = 0
    while met < 3:
        assert time.monotonic() < deadline, "markers are always faster"
        client.send(
            END_TXN,
            4,
            transactional_id=name,
            producer_id=client.producer_id("P0"),
            producer_epoch=0,
            committed=met % 2 == 0,
        )
        client.send_add(name, ("P0", 0), first, second)
        assert client.receive().error_code == ErrorCode.NONE
        told = client.added()
        met += told == early
        while told == early:
            assert time.monotonic() < deadline, "it never ends"
            time.sleep(0.01)
            told = client.add(name, ("P0", 0), first, second)
        assert told == taken
        assert client.describe(name) == f"Ongoing P0 0 60000 started ['{name}-0', '{name}-1']"
    assert producer.end(0, True, 4) == "NONE"


@pytest.mark.parametrize("version", [4, 5])
def test_many_transactions_at_a_time(producer: Producer, version: int):
    """Between brokers: added, or only verified."""
    client, name, (first, second) = producer.client, producer.name, producer.places
    assert client.add_many((name, ("P0", 0), [first], False), version=version) == [f"{name}: {name}-0 NONE"]
    stranger = f"{name}z"
    client.wait_for_coordinator(stranger)
    assert client.add_many(
        (name, ("P0", 0), [first, second], True), (stranger, ("P0", 0), [first], True), version=version
    ) == [f"{name}: {name}-0 NONE, {name}-1 TRANSACTION_ABORTABLE", f"{stranger}: {name}-0 INVALID_PRODUCER_ID_MAPPING"]
    assert producer.end(0, True) == "NONE P0 1"


# -- the newer protocol ------------------------------------------------------------------------------------------------


def test_newer_protocol(producer: Producer):
    """KIP-890: a write adds its partition; each transaction has its epoch."""
    client = producer.client
    assert producer.write(3, 0, 0) == "INVALID_PRODUCER_EPOCH -1"
    assert client.write(f"{producer.name}", ("-", 0), producer.places[0], 0, version=12) == "NONE 0"  # has no id at all
    assert producer.write(0, 0, 5) == "OUT_OF_ORDER_SEQUENCE_NUMBER -1"
    assert producer.write(0, 0, 0, b"a") == "NONE 1"
    assert producer.write(0, 0, 0, b"a") == "NONE 1"
    assert (
        client.write(None, ("P0", 0), producer.places[0], 1, version=12, transactional=False) == "INVALID_TXN_STATE -1"
    )
    assert producer.end(0, True) == "NONE P0 1"
    assert producer.end(0, True) == "NONE P0 1"
    assert producer.end(0, False) == "INVALID_TXN_STATE - -1"
    assert producer.end(1, True) == "INVALID_TXN_STATE - -1"
    assert producer.write(0, 0, 1) == "INVALID_PRODUCER_EPOCH -1"
    assert producer.write(1, 0, 0, b"b") == "NONE 3"
    assert producer.end(1, False) == "NONE P0 2"
    assert producer.end(1, False) == "NONE P0 2"
    assert producer.end(1, True) == "INVALID_TXN_STATE - -1"
    assert client.aborted(producer.name) == "NONE 5 ['P0@3']"


def test_transaction_without_a_partition_can_be_aborted(producer: Producer):
    """It has an epoch, too; a commit would have no effect."""
    assert producer.end(0, True) == "INVALID_TXN_STATE - -1"
    assert producer.end(0, False) == "NONE P0 1"
    assert producer.end(0, False) == "NONE P0 1"
    assert producer.end(1, False) == "NONE P0 2"
    assert producer.state() == "CompleteAbort 2"
    assert producer.write(2, 0, 0) == "NONE 0"


# -- offsets -----------------------------------------------------------------------------------------------------------


def test_offsets_join_by_request_or_by_themselves(producer: Producer):
    producer.wait_for_group()
    client, name, group, place = producer.client, producer.name, producer.group, producer.places[0]
    assert client.commit_offset(name, ("P0", 0), group, place, 5, version=3) == "INVALID_TXN_STATE"
    assert client.commit_offset(name, ("P0", 0), group, place, 5, version=4) == "TRANSACTION_ABORTABLE"
    assert client.commit_offset(name, ("P0", 0), group, place, 5, version=5) == "NONE"
    assert client.committed_offset(group, place) == "NONE -1"
    assert client.committed_offset(group, place, stable=True) == "UNSTABLE_OFFSET_COMMIT -1"
    assert producer.end(0, True) == "NONE P0 1"
    assert client.committed_offset(group, place, stable=True) == "NONE 5"
    assert client.add_offsets(name, ("P0", 1), group) == "NONE"
    assert client.commit_offset(name, ("P0", 1), group, place, 7, version=0) == "NONE"
    assert producer.end(1, False, 4) == "NONE"
    assert client.committed_offset(group, place, stable=True) == "NONE 5"


def test_offsets_that_are_refused(producer: Producer):
    producer.wait_for_group()
    client, name, group, place = producer.client, producer.name, producer.group, producer.places[0]

    def commit(epoch: int = 0, version: int = 5, group: str = group, **options: object) -> str:
        return client.commit_offset(name, ("P0", epoch), group, place, 5, version=version, **options)  # type: ignore[arg-type]

    assert client.add_offsets(name, ("P0", 9), group, version=1) == "INVALID_PRODUCER_EPOCH"
    assert client.add_offsets(name, ("P0", 9), group, version=2) == "PRODUCER_FENCED"
    assert client.add_offsets("", ("P0", 0), group) == "INVALID_REQUEST"
    assert client.add_offsets(name, ("P0", 0), group) == "NONE"
    assert commit() == "NONE"
    assert commit(group="") == "INVALID_GROUP_ID"
    assert commit(generation=3, member="m") == "UNKNOWN_MEMBER_ID"
    assert commit(group=f"{group}-none", generation=3, member="m") == "ILLEGAL_GENERATION"
    assert commit(metadata="x" * 4_097) == "OFFSET_METADATA_TOO_LARGE"
    assert commit(metadata="x" * 4_096) == "NONE"
    assert [commit(epoch=8, version=version) for version in (2, 3, 4, 5)] == ["INVALID_PRODUCER_EPOCH"] * 4
    assert client.commit_offset(name, ("-", 0), group, place, 5) == "INVALID_PRODUCER_ID_MAPPING"
    assert client.commit_offset(name, ("P0", 0), group, ("no-such-topic", 0), 5) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert client.commit_offset("", ("P0", 3), group, place, 5, version=5) == "INVALID_REQUEST"


# -- markers and the tools ---------------------------------------------------------------------------------------------


def test_markers_by_request(producer: Producer):
    """The request of kafka-transactions that aborts a hanging transaction (KIP-664); v2 has protocols (KIP-1228)."""
    client, name, (first, _) = producer.client, producer.name, producer.places
    client.add(name, ("P0", 0), first)
    assert producer.write(0, 0, 0, version=11) == "NONE 0"
    assert client.markers(("P0", 0), False, first, ("zz-no-such-topic", 0)) == (
        f"{name}-0 NONE, zz-no-such-topic-0 UNKNOWN_TOPIC_OR_PARTITION"
    )
    assert client.aborted(name) == "NONE 2 ['P0@0']"
    assert client.markers(("P0", 0), False, first) == f"{name}-0 NONE"
    assert client.markers(("P0", 0), False, first, coordinator_epoch=-1) == f"{name}-0 TRANSACTION_COORDINATOR_FENCED"
    assert client.markers(("P0", -1), False, first) == f"{name}-0 UNKNOWN_SERVER_ERROR"
    assert client.markers(("-", 0), False, first) == f"{name}-0 UNKNOWN_SERVER_ERROR"
    newer = {"version": 2, "transaction_version": 2}
    assert client.markers(("P0", 0), False, first, **newer) == f"{name}-0 NONE"
    assert producer.write(0, 0, 1, version=11) == "NONE 4"
    assert client.markers(("P0", 0), False, first, **newer) == f"{name}-0 INVALID_PRODUCER_EPOCH"
    assert client.markers(("P0", 1), True, first, **newer) == f"{name}-0 NONE"
    assert client.markers(("P0", 1), True, first, **newer) == f"{name}-0 NONE"
    assert client.markers(("P0", 0), True, first) == f"{name}-0 INVALID_PRODUCER_EPOCH"
    assert client.latest(name, committed=True) == client.latest(name, committed=False) == 7


def test_transactions_are_listed(producer: Producer):
    client, name = producer.client, producer.name
    assert client.transactions(transactional_id_pattern=f"{name}.*") == f"NONE ['{name} Empty'] []"
    assert client.transactions(transactional_id_pattern=name[:-1]) == "NONE [] []"
    assert client.transactions(transactional_id_pattern="(") == "INVALID_REGULAR_EXPRESSION [] []"
    of_it = {"producer_id_filters": [client.producer_id("P0")]}
    assert client.transactions(version=0, **of_it) == f"NONE ['{name} Empty'] []"
    assert client.transactions(state_filters=["Ongoing", "Nope"], **of_it) == "NONE [] ['Nope']"
    assert client.transactions(state_filters=["empty"], **of_it) == "NONE [] ['empty']"
    assert client.transactions(state_filters=["Dead", "Empty"], **of_it) == f"NONE ['{name} Empty'] []"
    assert client.transactions(transactional_id_pattern="", **of_it) == f"NONE ['{name} Empty'] []"
    producer.write(0, 0, 0)
    assert client.transactions(duration_filter=100_000, **of_it) == "NONE [] []"
    assert client.transactions(duration_filter=-1, **of_it) == f"NONE ['{name} Ongoing'] []"
    assert client.describe(name) == f"Ongoing P0 0 60000 started ['{name}-0']"
    assert client.describe(f"{name}-none") in ("TRANSACTIONAL_ID_NOT_FOUND", "NOT_COORDINATOR")
