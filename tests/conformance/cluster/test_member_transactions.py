"""Transactions in a cluster of members and a broker of Apache Kafka, whose coordinators are stopped and killed."""

from __future__ import annotations

import logging
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from metadata.topic_names import TRANSACTION_STATE
from tests.conformance.cluster.mixed_cluster import OURS, PREFERRED, THEIRS, THIRD, MixedCluster
from tests.integration.membership.kafka_nodes import QUIET
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.txn_client import TxnClient

COUNT = 10
_OURS = pytest.mark.parametrize("coordinator", [OURS, pytest.param(THEIRS, marks=pytest.mark.full_size)])
#: A member is the next coordinator when the broker of Apache Kafka is killed.
_OURS_FOLLOWS = pytest.mark.parametrize("coordinator", [pytest.param(OURS, marks=pytest.mark.full_size), THEIRS])


def place_coordinator(cluster: MixedCluster, *replicas: int) -> None:
    """Let the first of the replicas be the coordinator of all transactions. The next one follows when it is killed."""
    with TxnClient(HOST, cluster[THIRD].port) as client:
        client.wait_for_coordinator("any")  # it creates the topic
    eventually(lambda: cluster.state(TRANSACTION_STATE, THIRD)[2], equal_to=[OURS, THEIRS, THIRD])
    assert cluster.reassign(TRANSACTION_STATE, replicas) == 0
    cluster.elect(TRANSACTION_STATE, PREFERRED)  # an error if it leads already
    for node_id in replicas:
        eventually(
            lambda at=node_id: cluster.state(TRANSACTION_STATE, at)[:2],  # type: ignore[misc]
            equal_to=(replicas[0], list(replicas)),
        )


def written(producer: Producer, topic: str, turn: int) -> list[bytes]:
    """Produce some records in the open transaction, and return their values."""
    values = [b"%d-%d" % (turn, number) for number in range(COUNT)]
    for value in values:
        producer.produce(topic, value)
    return values


def read_committed(cluster: MixedCluster, topic: str, count: int) -> list[bytes | None]:
    """Return all records of committed transactions: `count`, or those before the last stable offset if there are more.

    Raises AssertionError if there are fewer.
    """
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer({**QUIET, **settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    found: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def at_end() -> bool:
            message = consumer.poll(0.1)
            error = message.error() if message is not None else None
            if message is not None and error is None:
                found.append(message.value())
            return error is not None and error.code() == KafkaError._PARTITION_EOF and len(found) >= count

        eventually(at_end, lambda: f"{len(found)} of {count} records")
    finally:
        consumer.close()
    return found


def indexed(cluster: MixedCluster, topic: str, at: int) -> bytes:
    """Return the aborted transactions by the index files of a broker."""
    (home,) = cluster.directories_of(topic, at)
    files: list[Path] = sorted(home.glob("*.txnindex"))
    return b"".join(each.read_bytes() for each in files)


@_OURS
def test_transactions_survive_their_leader_and_coordinator(cluster: MixedCluster, coordinator: int) -> None:
    """Some are committed and some aborted, before and after the broker with both roles is killed.

    The transaction that is open at that time has a record in its partition: so its coordinator knows of it.
    """
    follows = OURS + THEIRS - coordinator
    topic = cluster.create(coordinator, follows, THIRD, config={"min.insync.replicas": "2"})
    place_coordinator(cluster, coordinator, follows, THIRD)
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    committed: list[bytes] = []
    for turn in range(12):
        producer.begin_transaction()
        values = written(producer, topic, turn)
        if turn == 5:
            assert producer.flush(60) == 0
            written(producer, topic, turn)
            cluster[coordinator].kill()
        if turn % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += values
        if turn == 8:
            cluster.start_all()
    eventually(lambda: cluster.state(topic, THIRD)[2], equal_to=[OURS, THEIRS, THIRD])
    assert read_committed(cluster, topic, len(committed)) == committed
    eventually(partial(cluster.are_equal, topic, OURS, THEIRS, THIRD))
    assert len({indexed(cluster, topic, at) for at in (OURS, THEIRS, THIRD)}) == 1


class Sent(logging.Handler):
    """Notes the requests that librdkafka has sent, by its debug log."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = ""

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "Sent " in line:
            self.requests += line

    def begins_another(self) -> bool:
        """Return whether partitions were added after the end of a transaction was requested."""
        return "Sent AddPartitionsToTxnRequest" in self.requests.partition("Sent EndTxnRequest")[2]


@_OURS_FOLLOWS
def test_abort_that_no_coordinator_knows_of(cluster: MixedCluster, coordinator: int) -> None:
    """The request that would begin a transaction is lost with the coordinator. Then librdkafka asks to abort what may
    have begun, and the next coordinator, which knows only the transaction before, answers INVALID_TXN_STATE.

    Coordinators of both kinds do that, also of a cluster of Apache Kafka alone. For librdkafka the error is fatal (its
    issue 4849): another producer continues.
    """
    answers = OURS + THEIRS - coordinator
    topic = cluster.create(answers, THIRD)
    place_coordinator(cluster, coordinator, answers, THIRD)
    sent, logger = Sent(), logging.Logger(topic)
    logger.addHandler(sent)
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic}
    producer = Producer({**QUIET, **settings, "debug": "protocol", "logger": logger})
    producer.init_transactions(60)
    producer.begin_transaction()
    committed = written(producer, topic, 0)
    producer.commit_transaction(60)
    with TxnClient(HOST, cluster[coordinator].port) as client:
        assert client.settled(topic).startswith("CompleteCommit")
    os.kill(cluster[coordinator].pid, signal.SIGSTOP)
    try:
        producer.begin_transaction()
        written(producer, topic, 1)
        eventually(partial(producer.poll, 0), until=lambda _: sent.begins_another())
        with pytest.raises(KafkaException):  # it waits for the frozen coordinator
            producer.abort_transaction(1)
    finally:
        cluster[coordinator].kill()
    try:
        with pytest.raises(KafkaException) as refused:
            producer.abort_transaction(60)
        assert (refused.value.args[0].name(), refused.value.args[0].fatal()) == ("INVALID_TXN_STATE", True)
        other = Producer(settings)
        other.init_transactions(60)
        other.begin_transaction()
        committed += written(other, topic, 2)
        other.commit_transaction(60)
    finally:
        cluster.start_all()
    assert read_committed(cluster, topic, len(committed)) == committed


@_OURS
@pytest.mark.parametrize("version", [4, 5])
def test_answers_while_markers_wait(cluster: MixedCluster, coordinator: int, version: int) -> None:
    """A follower of the partition is frozen, so its transaction is decided and not complete.

    Whatever a producer asks for then, it has to ask again, also for the opposite end.
    """
    frozen = OURS + THEIRS - coordinator
    topic = cluster.create(THIRD, frozen, config={"min.insync.replicas": "2"})
    place_coordinator(cluster, coordinator, THIRD, frozen)
    epoch = 0 if version < 5 else 1
    with TxnClient(HOST, cluster[coordinator].port) as client:
        assert client.init_with_retries(topic) == "NONE P0 0"
        unknown = client.name(10**9)
        assert client.add(topic, ("P0", 0), (topic, 0)) == f"{topic}-0 NONE"
        os.kill(cluster[frozen].pid, signal.SIGSTOP)
        try:
            assert client.end(topic, ("P0", 0), True, version).startswith("NONE")
            assert "PrepareCommit" in client.describe(topic)
            again = [client.end(topic, ("P0", 0), commit, version) for commit in (True, False)]
            again += [client.init(topic, (name, 7)) for name in ("P0", unknown)]
            again.append(client.add(topic, ("P0", epoch), (topic, 0)).removeprefix(f"{topic}-0 "))
            assert "PrepareCommit" in client.describe(topic), again
        finally:
            os.kill(cluster[frozen].pid, signal.SIGCONT)
        assert [each.split()[0] for each in again] == ["CONCURRENT_TRANSACTIONS"] * 5
        assert client.settled(topic).startswith("CompleteCommit")
        assert client.end(topic, ("P0", 0), False, version).startswith("INVALID_TXN_STATE")
    eventually(lambda: cluster.state(TRANSACTION_STATE, THIRD)[2], equal_to=[OURS, THEIRS, THIRD])


@_OURS
def test_a_marker_waits_for_a_leader(cluster: MixedCluster, coordinator: int) -> None:
    """A transaction is decided while a partition has no leader: its end is written there once it has one.

    Apache Kafka's coordinator (since 4.1) takes such a partition for a deleted one, as KRaftMetadataCache has no
    endpoint of the leader -1. It completes the transaction without the marker, and the partition's one hangs.
    """
    topic = cluster.create(THIRD)
    is_kafka = cluster[coordinator].kind == "kafka"
    place_coordinator(cluster, coordinator, OURS + THEIRS - coordinator, THIRD)
    producer = ("P0", 0)
    with TxnClient(HOST, cluster[coordinator].port) as client, TxnClient(HOST, cluster[THIRD].port) as leader:
        assert client.init_with_retries(topic) == "NONE P0 0"
        leader.share_names(client)
        assert client.add(topic, producer, (topic, 0)) == f"{topic}-0 NONE"
        assert leader.write(topic, producer, (topic, 0), 0) == "NONE 0"
        cluster[THIRD].kill()
        try:
            eventually(lambda: cluster.state(topic, coordinator)[0], equal_to=-1)
            assert client.end(topic, producer, True).startswith("NONE")
            if is_kafka:
                assert client.settled(topic).startswith("CompleteCommit")
            else:
                assert "PrepareCommit" in client.describe(topic)
        finally:
            cluster.start_all()
        assert client.settled(topic).startswith("CompleteCommit")
    with TxnClient(HOST, cluster[THIRD].port) as leader:
        eventually(lambda: cluster.state(topic)[0], equal_to=THIRD)
        hangs = leader.latest(topic, committed=True) < leader.latest(topic, committed=False)
    assert hangs == is_kafka
