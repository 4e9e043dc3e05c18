"""`pybroker.testing`, its pytest plugin, and `pybroker serve`: the tools for tests of other projects."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pybroker.testing import Broker, BrokerError

LAUNCHER = """
import subprocess, time
from pybroker import engine_process
command = engine_process.command("broker.main", ["--ephemeral", "--print-json", "--until-stdin-ends"])
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
print(child.stdout.readline().decode(), end="", flush=True)
time.sleep(600)
"""


# The broker that the tests of this file share.
pytestmark = pytest.mark.broker(Broker, {"auto.create.topics.enable": False})


def write(broker: Broker, topic: str, count: int, key: bytes | None = None) -> None:
    """Write `count` records of 1,000 bytes, a batch each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 1})
    for _ in range(count):
        producer.produce(topic, bytes(1_000), key, partition=0)
    assert producer.flush(60) == 0


def end_offset(broker: Broker, topic: str) -> int:
    """The offset after the last record of partition 0."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    consumer.close()
    return end


def record_count(broker: Broker, topic: str) -> int:
    """Return the number of records in partition 0."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    count = 0
    while (message := consumer.poll(60)) is not None and message.error() is None:
        count += 1
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    return count


def test_restart_and_kill_keep_records_and_address(broker: Broker) -> None:
    """Clients reconnect, although the broker is another process."""
    broker.create_topic("kept", partitions=2)
    address, pid = broker.bootstrap_servers, broker.pid
    write(broker, "kept", 5)

    broker.restart()
    assert end_offset(broker, "kept") == 5
    write(broker, "kept", 5)
    broker.kill()
    assert not broker.is_running
    broker.start()

    assert end_offset(broker, "kept") == 10
    assert broker.bootstrap_servers == address
    assert broker.pid != pid


def test_forks_share_records_and_diverge(broker: Broker) -> None:
    """Two forks of one broker, which is unchanged."""
    broker.create_topic("loaded", config={"internal.segment.bytes": 10_000})
    write(broker, "loaded", 35)
    with pytest.raises(BrokerError, match="pause"):
        broker.fork()
    broker.pause()
    with broker.fork() as one, broker.fork({"num.partitions": 2}) as two:
        segments = sorted((one.data_directory / "loaded-0").glob("*.log"))
        assert [os.stat(each).st_nlink for each in segments] == [3, 3, 3, 1]
        write(one, "loaded", 7)
        assert (end_offset(one, "loaded"), end_offset(two, "loaded")) == (42, 35)
        directories = one.directory, two.directory
    assert not any(each.exists() for each in directories)
    broker.start()
    assert end_offset(broker, "loaded") == 35


class NeverUp(Broker):
    """A broker whose process prints nothing."""

    def _command(self) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(600)"]


def test_interrupted_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C arrives before the `with` block, which would have stopped it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = NeverUp()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            broker.start()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not broker.is_running
    assert list(tmp_path.iterdir()) == []


def test_faults_reach_the_client_and_end(broker: Broker) -> None:
    """Retriable errors, broken connections and a lost response. No record is lost or doubled."""
    broker.create_topic("faulty")
    broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2)
    broker.disconnect_next("Produce", carried_out=True)
    broker.disconnect_next("Produce")
    began = time.monotonic()
    broker.delay("Produce", seconds=0.3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("faulty", b"one")
    assert producer.flush(60) == 0
    assert time.monotonic() - began >= 0.3
    assert end_offset(broker, "faulty") == 1

    broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    failures: list[object] = []
    producer.produce("faulty", b"two", on_delivery=lambda error, _: failures.append(error.name()))
    assert producer.flush(60) == 0
    assert failures == ["TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(BrokerError, match="no API 'Prodcue'"):
        broker.delay("Prodcue", 1)


def test_cut_off_broker_answers_afterwards(broker: Broker) -> None:
    """No request fails meanwhile, and all of them are carried out."""
    broker.create_topic("apart")
    broker.cut_off()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("apart", b"one")
    assert producer.flush(0.3) == 1
    broker.reconnect()
    assert producer.flush(60) == 0
    assert end_offset(broker, "apart") == 1


def test_fenced_producer_can_not_commit(broker: Broker) -> None:
    """Its successor has called InitProducerId."""
    broker.create_topic("fenced")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "fenced"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("fenced", b"lost")
    assert producer.flush(60) == 0
    broker.fence("fenced")
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(60)


def test_time_moves_and_survives_a_restart() -> None:
    """Retention deletes records of eight days ago. A restart keeps the clock, and a fork has the same time."""
    with Broker() as broker:
        before = datetime.now(UTC)
        stamped = {"message.timestamp.type": "LogAppendTime"}  # timestamps of the broker, whose clock the test moves
        for name, config in (("aged", stamped), ("table", {"cleanup.policy": "compact"})):
            broker.create_topic(name, config=config)
            write(broker, name, 5, key=b"k")
        broker.roll("aged")
        broker.clean("table")
        broker.run_retention()
        assert [record_count(broker, each) for each in ("aged", "table")] == [5, 1]

        assert broker.move_time_on(days=8) - before >= timedelta(days=8)
        broker.run_retention()
        assert record_count(broker, "aged") == 0
        broker.restart()
        assert broker.move_time_on() - before >= timedelta(days=8)
        write(broker, "aged", 2)
        broker.run_retention()
        assert record_count(broker, "aged") == 2
        broker.pause()
        with pytest.raises(BrokerError, match="not running"):
            broker.run_retention()
        with broker.fork() as fork:
            assert fork.move_time_on() - before >= timedelta(days=8)


def test_errors_have_the_brokers_message(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("twice")
    with pytest.raises(BrokerError, match="already exists"):
        broker.create_topic("twice")
    with pytest.raises(BrokerError, match=r"num\.partitions"):
        Broker({"num.partitions": "many"}, directory=tmp_path).start()
    with pytest.raises(BrokerError, match="not been started"):
        _ = Broker().bootstrap_servers


def test_chosen_directory_is_kept(tmp_path: Path) -> None:
    """Data and log can be inspected afterwards."""
    with Broker(directory=tmp_path / "here") as broker:
        broker.create_topic("orders")
    assert (tmp_path / "here" / "data" / "orders-0").is_dir()
    assert "Stopped in" in broker.log


def test_broker_ends_with_its_parent() -> None:
    """A kill of the parent closes standard input, so the broker ends and removes its data directory."""
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    started = json.loads(launcher.stdout.readline())
    watched = os.pidfd_open(started["pid"])
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()

    signalled = _ends_within(watched, 60)
    os.close(watched)
    assert signalled
    assert not Path(started["data_directory"]).exists()


def test_serve_for_other_languages(tmp_path: Path) -> None:
    """It prints one line of JSON and takes a properties file. SIGTERM ends it with exit code 0."""
    (tmp_path / "server.properties").write_text("num.partitions=5\nlog.dirs=/nowhere\n")
    command = [
        sys.executable,
        "-m",
        "pybroker",
        "serve",
        str(tmp_path / "server.properties"),
        "--ephemeral",
        "--print-json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        assert started["pid"] == process.pid
        assert started["listeners"] == {"PLAINTEXT": started["bootstrap_servers"]}
        assert (Path(started["data_directory"]) / "meta.properties").exists()
        process.send_signal(signal.SIGTERM)
        rest, log = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, ""), log
    assert not Path(started["data_directory"]).exists()


def test_unusable_standard_input_is_refused() -> None:
    """The broker would stop at once."""
    command = [sys.executable, "-m", "pybroker", "serve", "--ephemeral", "--until-stdin-ends"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--until-stdin-ends" in done.stderr


def _ends_within(process: int, seconds: float) -> bool:
    """Return whether the process of this descriptor ends within the time."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(seconds * 1000))
