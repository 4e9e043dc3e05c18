"""kafka-console-producer.sh and kafka-console-consumer.sh of `pybroker kafka-home`, against a broker."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.kafka_home import tools
from pybroker.testing import Broker


def test_what_the_producer_sends_the_consumer_prints(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """With keys, a tombstone, acknowledgements that are not waited for; by a file of properties as Kafka's own."""
    (tmp_path / "consumer.properties").write_text("group.id=shop\nauto.offset.reset=earliest\nmax.poll.records=5\n")
    with Broker({"num.partitions": 1}) as broker:
        at = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders"]
        send = [*at, "--property", "parse.key=true", "--property", "key.separator=:", "--property", "null.marker=NULL"]
        send += ["--producer-property", "acks=1", "--producer-property", "buffer.memory=1000000"]
        sent = subprocess.run(
            [sys.executable, "-m", "pybroker.kafka_home.tools", "kafka-console-producer.sh", *send],
            input=b"17:two apples\n18:NULL\n",
            capture_output=True,
            timeout=60,
        )
        assert sent.returncode == 0, sent.stderr
        read = [*at, "--consumer.config", str(tmp_path / "consumer.properties"), "--max-messages", "2"]
        shown = [word for name in ("key", "partition", "offset") for word in ("--property", f"print.{name}=true")]
        assert tools.run("kafka-console-consumer.sh", [*read, *shown]) == 0
        assert capfdbinary.readouterr() == (
            b"Partition:0\tOffset:0\t17\ttwo apples\nPartition:0\tOffset:1\t18\tnull\n",
            b"",
        )
        assert tools.run("kafka-consumer-groups.sh", ["--bootstrap-server", broker.bootstrap_servers, "--list"]) == 0
        assert b"shop" in capfdbinary.readouterr().out


def test_performance_tools(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """In Kafka's words, with properties of a Java producer; what they print is Kafka's, too."""
    with Broker() as broker:
        at = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "load"]
        assert tools.run("kafka-topics.sh", ["--create", *at]) == 0
        load = [
            "--topic",
            "load",
            "--num-records",
            "10",
            "--record-size",
            "9",
            "--throughput",
            "-1",
            "--producer-props",
        ]
        properties = [f"bootstrap.servers={broker.bootstrap_servers}", "linger.ms=1", "buffer.memory=1000000"]
        assert tools.run("kafka-producer-perf-test.sh", [*load, *properties]) == 0
        assert b"\n10 records sent, " in capfdbinary.readouterr().out
        assert tools.run("kafka-consumer-perf-test.sh", [*at, "--messages", "10", "--timeout", "9000"]) == 0
        assert b", 10, " in capfdbinary.readouterr().out.splitlines()[1]


def test_records_steer_no_terminal() -> None:
    """What is piped is as it is."""
    with Broker({"num.partitions": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("odd", b"\x1b]0;title\x07")
        assert producer.flush(60) == 0
        words = ["consume", "odd", "--from-beginning", "--until-end", "--bootstrap-server", broker.bootstrap_servers]
        command = [sys.executable, "-m", "pybroker", *words]
        assert subprocess.run(command, capture_output=True, timeout=60).stdout == b"\x1b]0;title\x07\n"
        for options, expected in ([], rb"\x1b]0;title\x07"), (["--encoding", "raw"], b"\x1b]0;title\x07"):
            assert on_terminal([*command, *options]) == expected + b"\r\n"


def on_terminal(command: list[str]) -> bytes:
    """What a command prints there, which puts a carriage return before each line feed."""
    ours, its = pty.openpty()
    done = subprocess.run(command, stdout=its, timeout=60)
    os.close(its)
    assert done.returncode == 0
    with open(ours, "rb", buffering=0) as terminal:
        return terminal.read(1 << 12) or b""
