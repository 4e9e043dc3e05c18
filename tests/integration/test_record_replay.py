"""Sessions of stock clients, recorded by a proxy and replayed against other brokers."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.testing import Broker, Cluster
from tools.wire.sessions.recording import Kind, read

_WAIT_S = 60


class Recorder:
    """A running `pybroker record`; `with` ends it as Ctrl-C does, and `lines` then has its messages to people."""

    def __init__(self, cluster: str, *options: str, listen: str = "127.0.0.1:0", stdout: int | None = None) -> None:
        command = [
            sys.executable,
            "-m",
            "tools.wire.record",
            "--listen",
            listen,
            "--bootstrap-server",
            cluster,
            *options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=stdout, text=True)
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()
        self.ports = sorted({int(port) for port in re.findall(r":(\d+)(?= and|,)", self.first_line)})
        self.lines: list[str] = []

    @property
    def address(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.ports[0]}"

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        assert self.process.stderr is not None
        code = self.process.wait(_WAIT_S)
        self.lines += self.process.stderr.read().splitlines()
        self.process.stderr.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()


class Replayed(NamedTuple):
    """The outcome of a replay."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the objects of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


def replay(file: Path, broker: str, *options: str) -> Replayed:
    """Replay a recording against a broker."""
    command = [sys.executable, "-m", "tools.wire.replay", str(file), "--bootstrap-server", broker, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S)
    return Replayed(done.returncode, done.stdout, done.stderr)


_WAIT_S = 60


@pytest.fixture
def fresh() -> Iterator[Broker]:
    """A second broker without topics."""
    with Broker() as running:
        yield running


def write(servers: str, topic: str, **properties: object) -> None:
    producer = Producer({"bootstrap.servers": servers, **properties})
    transactional = "transactional.id" in properties
    if transactional:
        producer.init_transactions(_WAIT_S)
        producer.begin_transaction()
    for number in range(20):
        producer.produce(topic, f"v{number}", f"k{number}", partition=0)
    assert producer.flush(_WAIT_S) == 0
    if transactional:
        producer.commit_transaction(_WAIT_S)


def consume(servers: str, topic: str, group: str, count: int = 20, **properties: object) -> None:
    options = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "isolation.level": "read_committed", **properties})
    consumer.subscribe([topic])
    received = 0
    while received < count:
        message = consumer.poll(_WAIT_S)
        assert message is not None
        received += message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


def apis(file: Path) -> set[str]:
    """Return the names of the APIs that the recording has requests of."""
    with file.open("rb") as opened:
        return {each.api for each in read(opened) if each.kind is Kind.REQUEST}


@pytest.mark.parametrize("properties", [{"enable.idempotence": True}, {"transactional.id": "t"}], ids=str)
def test_replay_of_a_librdkafka_session_is_equal(
    broker: Broker, fresh: Broker, tmp_path: Path, properties: dict[str, object]
) -> None:
    """A producer, and a group that reads and commits. The new broker answers the same but for ids."""
    file, topic = tmp_path / "session", f"rd-{len(properties)}-{'transactional.id' in properties}"
    with Recorder(broker.bootstrap_servers, "-o", str(file)) as recorder:
        write(recorder.address, topic, **properties)
        consume(recorder.address, topic, f"group-{topic}")
    assert {"Produce", "Fetch", "JoinGroup", "SyncGroup", "OffsetCommit", "InitProducerId"} <= apis(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Give producers of the replay other ids and epochs than the recorded ones.
    write(fresh.bootstrap_servers, "another", **{**properties, "enable.idempotence": True})
    done = replay(file, fresh.bootstrap_servers)
    assert (done.code, done.err) == (0, ""), done.out
    assert done.out.endswith(" answers: no difference\n")


def test_replay_of_a_kafka_python_session_is_equal(broker: Broker, fresh: Broker, tmp_path: Path) -> None:
    """A second replay differs, as the broker then has the topics and records already."""
    file = tmp_path / "session"
    with Recorder(broker.bootstrap_servers, "-o", str(file), listen="localhost:0") as recorder:
        servers = f"localhost:{recorder.ports[0]}"
        producer = kafka.KafkaProducer(bootstrap_servers=servers)
        for number in range(5):
            producer.send("kp", b"%d" % number).get(_WAIT_S)
        producer.close()
        consumer = kafka.KafkaConsumer(
            "kp", bootstrap_servers=servers, group_id="kp", auto_offset_reset="earliest", consumer_timeout_ms=30_000
        )
        assert [next(consumer).value for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        consumer.close()
    assert {"Produce", "Fetch", "JoinGroup", "OffsetCommit", "LeaveGroup"} <= apis(file)
    done = replay(file, fresh.bootstrap_servers)
    assert (done.code, done.err) == (0, ""), done.out
    summary = replay(file, fresh.bootstrap_servers, "--json").rows[-1]  # the topics exist now
    assert summary["differ"] > 0


def test_replay_of_a_consumer_protocol_group_is_equal(broker: Broker, fresh: Broker, tmp_path: Path) -> None:
    """KIP-848: heartbeats have epochs and member ids that clients choose. Assignments have other topic ids."""
    file = tmp_path / "session"
    with Recorder(broker.bootstrap_servers, "-o", str(file)) as recorder:
        write(recorder.address, "kip848")
        consume(recorder.address, "kip848", "kip848", **{"group.protocol": "consumer"})
    assert "ConsumerGroupHeartbeat" in apis(file)
    done = replay(file, fresh.bootstrap_servers)
    assert (done.code, done.err) == (0, ""), done.out


def loopback() -> str:
    """Return the loopback address of IPv6 if the machine has it, else that of IPv4."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "[::1]"
    except OSError:
        return "127.0.0.1"


@contextmanager
def placed_cluster() -> Iterator[Cluster]:
    """Yield two brokers whose partitions are placed as in every other such cluster."""
    placed = {"spread": [[0], [1], [0], [1]], "__consumer_offsets": [[1]]}
    with Cluster(brokers=2, config={"offsets.topic.num.partitions": 1}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic(name, len(replicas), replica_assignment=replicas) for name, replicas in placed.items()]
        for created in admin.create_topics(topics).values():
            created.result(_WAIT_S)
        for name in placed:
            cluster.wait_until_in_sync(name)
        yield cluster


def test_each_broker_of_a_cluster_gets_a_port(tmp_path: Path) -> None:
    """The recorder also listens on IPv6."""
    host, file = loopback(), tmp_path / "session"
    with (
        placed_cluster() as cluster,
        Recorder(cluster.bootstrap_servers, "-o", str(file), listen=f"{host}:0") as recorder,
    ):
        servers = f"{host}:{recorder.ports[0]}"
        producer = Producer({"bootstrap.servers": servers})
        for number in range(40):
            producer.produce("spread", f"v{number}", partition=number % 4)
        assert producer.flush(_WAIT_S) == 0
        consume(servers, "spread", "spread", count=40)
    with file.open("rb") as opened:
        assert {each.node for each in read(opened) if each.kind is Kind.OPEN} == {None, 0, 1}
    with placed_cluster() as other:
        done = replay(file, other.bootstrap_servers)
    assert (done.code, done.err) == (0, ""), done.out


def test_replay_reports_responses_that_differ(broker: Broker, tmp_path: Path) -> None:
    """Differences have an API, a version and a path; the exit code is 1. `--ignore` leaves fields out."""
    file = tmp_path / "session"
    with Recorder(broker.bootstrap_servers, "-o", str(file)) as recorder:
        write(recorder.address, "small")
    with Broker({"message.max.bytes": 50}) as other:
        done = replay(file, other.bootstrap_servers, "--json")
        assert done.code == 1
        *differences, summary = done.rows
        produced = [each for each in differences if each["api"] == "Produce"]
        codes = {(each["path"], each["recorded"], each["now"]) for each in produced}
        assert ("responses[small].partition_responses[0].error_code", 0, 10) in codes
        assert summary["differ"] == len({(each["connection"], each["request"]) for each in differences})
        text = replay(file, other.bootstrap_servers).out
        assert "    responses[small].partition_responses[0].error_code: recorded 0, now 10\n" in text
    with Broker({"num.partitions": 3}) as other:
        assert replay(file, other.bootstrap_servers).code == 1
        assert replay(file, other.bootstrap_servers, "--ignore", "partitions", "--ignore", "base_offset").code == 0


def test_unreadable_recording_is_refused(fresh: Broker, tmp_path: Path) -> None:
    """The command prints one line and exits with code 2."""
    file = tmp_path / "session"
    assert replay(file, fresh.bootstrap_servers).err == f"pybroker replay: {file}: No such file or directory\n"
    file.write_text("{}\n")
    done = replay(file, fresh.bootstrap_servers)
    assert (done.code, done.err) == (2, f"pybroker replay: {file}: it does not begin like a recording\n")


def test_json_lines_name_requests_and_responses(broker: Broker, tmp_path: Path) -> None:
    """Recorded Metadata has the cluster's addresses, although clients get those of the recorder."""
    with (tmp_path / "lines").open("w+") as lines:
        with Recorder(broker.bootstrap_servers, "--json", stdout=lines.fileno()) as recorder:
            write(recorder.address, "shown")
        lines.seek(0)
        rows = [json.loads(line) for line in lines]
    assert rows[0]["type"] == "recording"
    (produced, *_) = [each for each in rows if each.get("api") == "Produce"]
    batch = produced["body"]["topic_data"][0]["partition_data"][0]["records"][0]
    assert batch["records"][0] | {"timestamp": 0} == {"offset": 0, "timestamp": 0, "key": "k0", "value": "v0"}
    assert batch["crc_valid"]
    brokers = [each["body"]["brokers"] for each in rows if each["type"] == "answer" and each["api"] == "Metadata"]
    assert f"{brokers[0][0]['host']}:{brokers[0][0]['port']}" == broker.bootstrap_servers
    assert {each["node"] for each in rows if each["type"] == "open"} == {None, 1}
    assert any("is at port" in line for line in recorder.lines)


def test_recorder_ends_quietly_when_its_pipe_closes(broker: Broker) -> None:
    """As with `| head -1`."""
    with Recorder(broker.bootstrap_servers, "--json", stdout=subprocess.PIPE) as recorder:
        assert recorder.process.stdout is not None
        assert json.loads(recorder.process.stdout.readline())["type"] == "recording"
        recorder.process.stdout.close()
        assert recorder.wait() == 0
    assert recorder.lines == []


def test_unread_pipe_blocks_clients_but_not_signals(broker: Broker) -> None:
    """Requests wait for the pipe, so that memory does not grow. SIGTERM still ends the recorder."""
    with Recorder(broker.bootstrap_servers, "--json", stdout=subprocess.PIPE) as recorder:
        producer = Producer({"bootstrap.servers": recorder.address, "message.timeout.ms": 10_000})
        failed: list[object] = []
        for _ in range(2_000):
            producer.produce("held", b"x" * 1_000, on_delivery=lambda error, _: failed.append(error))
        producer.flush(_WAIT_S)
        assert any(error is not None for error in failed)
        assert recorder.end(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in recorder.lines)


def test_full_disk_ends_the_recorder(broker: Broker) -> None:
    """It prints one line and closes its connections."""
    with (
        Recorder(broker.bootstrap_servers, "-o", "/dev/full") as recorder,
        socket.create_connection(("127.0.0.1", recorder.ports[0]), _WAIT_S) as client,
    ):
        assert client.recv(1) == b""
        assert recorder.wait() == 1
    assert recorder.lines[-1] == "pybroker record: No space left on device"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_recorder_and_keeps_the_file(broker: Broker, tmp_path: Path, number: int) -> None:
    """A client is connected at that time. The file has its request, response and close."""
    file = tmp_path / "session"
    with (
        Recorder(broker.bootstrap_servers, "-o", str(file)) as recorder,
        socket.create_connection(("127.0.0.1", recorder.ports[0])) as client,
    ):
        client.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")  # ApiVersions v0
        assert client.recv(8)[4:] == b"\0\0\0\x07"
        assert recorder.end(number) == 0
        while client.recv(4096):
            pass
    assert recorder.lines == []
    with file.open("rb") as opened:
        kinds = [each.kind for each in read(opened)]
    assert kinds == [Kind.OPEN, Kind.REQUEST, Kind.ANSWER, Kind.CLOSE]


def test_bad_frames_and_a_missing_broker_close_clients(broker: Broker) -> None:
    """The recorder prints the reason. Other clients continue."""
    with Recorder(broker.bootstrap_servers, "-o", "/dev/null") as recorder:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\x02ab"):
            with socket.create_connection(("127.0.0.1", recorder.ports[0])) as client:
                client.sendall(data)
                assert client.recv(1) == b""
        write(recorder.address, "after")
    assert sum("is closed: " in line for line in recorder.lines) == 3
    assert not any("Traceback" in line for line in recorder.lines)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        unused = f"127.0.0.1:{taken.getsockname()[1]}"
    with (
        Recorder(unused, "-o", "/dev/null") as recorder,
        socket.create_connection(("127.0.0.1", recorder.ports[0])) as client,
    ):
        assert client.recv(1) == b""
    assert recorder.lines == [f"pybroker record: {unused}: Connection refused"]


def test_port_in_use_ends_the_recorder(broker: Broker) -> None:
    """It prints one line and exits with code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        recorder = Recorder(broker.bootstrap_servers, "--json", listen=f"127.0.0.1:{taken.getsockname()[1]}")
        assert recorder.wait() == 1
    assert recorder.first_line == "pybroker record: Address already in use\n"
