"""Stops are clean and in time in every state of clients; a later second signal ends the broker at once."""

from __future__ import annotations

import json
import operator
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.launch import broker_command
from tests.support.ports import free_port
from tests.support.wire import Closed, WireClient

# shorter than a clean stop may take while clients delay it, and longer than it needs
BOUND_S = 30


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    """Run a broker with the topic `events` of one partition."""
    running = OurBroker(tmp_path)
    with WireClient(HOST, running.port) as client:
        topic = CreatableTopic(name="events", num_partitions=1, replication_factor=1)
        answer = client.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=10_000)
        assert answer.topics[0].error_code == 0
    yield running
    running.stop()


def produce(client: WireClient, value: bytes) -> int:
    """Append one record to `events`; return its offset."""
    builder = BatchBuilder()
    builder.append(0, None, value)
    data = TopicProduceData(name="events", partition_data=[PartitionProduceData(index=0, records=builder.build())])
    answer = client.call(PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=[data])
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == 0
    return int(partition.base_offset)


def fetch_fields(max_wait_ms: int, *, offset: int, min_bytes: int = 1) -> dict[str, object]:
    """Return the fields of a Fetch of `events`, v12."""
    topic = FetchTopic(
        topic="events", partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)]
    )
    return {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": 1 << 30, "topics": [topic]}


def is_marked_clean(broker: RunningBroker) -> bool:
    """Return whether the directory has a valid clean-shutdown file."""
    marker = broker.log_dir / ".kafka_cleanshutdown"
    return marker.exists() and json.loads(marker.read_text())["brokerEpoch"] > 0


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGHUP)])
def test_stop_with_clients_in_every_state(numbers: tuple[signal.Signals, ...], broker: OurBroker) -> None:
    """Idle connections, half a request, parked long polls, a client that does not read.

    Parked requests are answered, connections closed, the directory is clean, and acknowledged records are there. Two
    signals together count once: `timeout` signals its child and then the child's group.
    """
    with WireClient(HOST, broker.port) as client:
        offsets = [produce(client, b"%d" % number * 1000) for number in range(50)]
    idle = [WireClient(HOST, broker.port) for _ in range(20)]
    half = WireClient(HOST, broker.port)
    half.socket.sendall(half.request_frame(FETCH, 12, fetch_fields(0, offset=0))[:-3])
    barely = socket.create_connection((HOST, broker.port))
    barely.sendall(b"\x00\x00")
    polling = WireClient(HOST, broker.port)
    polling.send(FETCH, 12, fetch_fields(60_000, offset=50))
    deaf = WireClient(HOST, broker.port)
    for _ in range(200):  # 10 MB of unread answers
        deaf.send(FETCH, 12, fetch_fields(0, offset=0))
    broker.catch_up()

    began = time.monotonic()
    for number in numbers:
        os.kill(broker.pid, number)
        time.sleep(0.01)
    answer = polling.receive()
    assert answer.error_code == 0
    for client in (polling, half, *idle):
        assert client.is_closed()
    assert broker.wait(BOUND_S) == 0
    assert time.monotonic() - began < BOUND_S
    assert is_marked_clean(broker)
    assert "Traceback" not in broker.output
    for client in (*idle, half, polling, deaf):
        client.close()
    barely.close()

    broker.start()
    with WireClient(HOST, broker.port) as client:
        assert offsets[-1] + 1 == produce(client, b"next")


def test_waiting_members_get_not_coordinator(broker: OurBroker) -> None:
    """A parked JoinGroup is answered NOT_COORDINATOR, so that its client retries once the broker is back."""
    first, second = WireClient(HOST, broker.port), WireClient(HOST, broker.port)
    first.call(FIND_COORDINATOR, 2, key="group", key_type=0)
    fields: dict[str, object] = {
        "group_id": "group",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")],
    }
    assert first.call(JOIN_GROUP, 3, fields).error_code == 0
    second.send(JOIN_GROUP, 3, fields)  # waits for the first to join again
    broker.catch_up()
    os.kill(broker.pid, signal.SIGTERM)
    assert second.receive().error_code == 16
    assert broker.wait(BOUND_S) == 0


def test_a_later_second_signal_ends_the_broker_at_once(broker: OurBroker) -> None:
    """Acknowledged records survive, after a recovery.

    A clean stop takes two seconds: on a machine that pauses for one, the second signal comes too late.
    """
    for _ in range(5):
        with WireClient(HOST, broker.port) as client:
            offset = produce(client, b"value")
        deaf = deaf_client(broker)
        stops = broker.output.count("SIGTERM: shutting down")
        os.kill(broker.pid, signal.SIGTERM)
        eventually(lambda: broker.output.count("SIGTERM: shutting down"), until=partial(operator.lt, stops))
        time.sleep(1.1)
        os.kill(broker.pid, signal.SIGTERM)
        exit_code = broker.wait(BOUND_S)
        deaf.close()
        if exit_code != 0:
            break
        broker.start()
    assert exit_code == 128 + signal.SIGTERM
    assert not is_marked_clean(broker)
    broker.start()
    with WireClient(HOST, broker.port) as client:
        assert offset + 51 == produce(client, b"next")


def deaf_client(broker: OurBroker) -> WireClient:
    """A client that requests more than its connection holds and never reads: a stop waits two seconds for it."""
    with WireClient(HOST, broker.port) as client:
        for _ in range(50):
            produce(client, bytes(1_000_000 // 50))
    deaf = WireClient(HOST, broker.port)
    for _ in range(30):
        deaf.send(FETCH, 12, fetch_fields(0, offset=0))
    broker.catch_up()
    return deaf


def test_stop_under_load_answers_or_closes(broker: OurBroker) -> None:
    """A producer at full speed gets the answer of every stored record, or a closed connection; nothing else."""
    acknowledged: list[int] = []

    def produce_until_closed() -> None:
        with WireClient(HOST, broker.port) as client:
            try:
                while True:
                    acknowledged.append(produce(client, b"value"))
            except (Closed, OSError):
                pass

    loads = [threading.Thread(target=produce_until_closed) for _ in range(3)]
    for load in loads:
        load.start()
    eventually(lambda: len(acknowledged) >= 100, timeout_s=BOUND_S, interval_s=0.01)
    assert broker.stop(BOUND_S) == 0
    for load in loads:
        load.join(BOUND_S)
    assert is_marked_clean(broker)
    broker.start()
    with WireClient(HOST, broker.port) as client:
        end = produce(client, b"next")
    # For each of the three, one request may have been answered without its client getting the answer.
    assert sorted(acknowledged) == [offset for offset in range(end) if offset in set(acknowledged)]
    assert len(acknowledged) <= end <= len(acknowledged) + len(loads)


def test_start_that_is_interrupted_ends_clean(tmp_path: Path) -> None:
    """A signal before the ports are open takes effect when they are."""
    (tmp_path / "server.properties").write_text(f"listeners=PLAINTEXT://{HOST}:{free_port()}\nlog.dirs=data\n")
    process = subprocess.Popen(broker_command("server.properties"), stderr=subprocess.PIPE, cwd=tmp_path)
    eventually((tmp_path / "data" / "meta.properties").exists, timeout_s=BOUND_S, interval_s=0.001)
    process.terminate()
    _, errors = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
