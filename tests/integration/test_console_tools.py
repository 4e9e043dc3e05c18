"""kafka-console-producer.sh and kafka-console-consumer.sh of `pybroker kafka-home`, against a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.kafka_home import tools
from pybroker.testing import Broker
from tests.support.shell import on_terminal


def test_consumer_prints_records_of_the_producer(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """With keys, headers, a tombstone, acks=0, and a properties file of Kafka.

    A malformed line ends the producer; the lines before it are sent.
    """
    (tmp_path / "consumer.properties").write_text("group.id=shop\nauto.offset.reset=earliest\nmax.poll.records=5\n")
    with Broker({"num.partitions": 1}) as broker:
        at = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders"]
        send = [*at, "--producer-property", "acks=1", "--producer-property", "buffer.memory=1000000"]
        for each in ("parse.key=true", "parse.headers=true", "key.separator=:", "null.marker=NULL"):
            send += ["--property", each]
        sent = subprocess.run(
            [sys.executable, "-m", "pybroker.kafka_home.tools", "kafka-console-producer.sh", *send],
            input=b"by:ann,to:bob\t17:two apples\nNULL\t18:NULL\nlast\n",
            capture_output=True,
            timeout=60,
        )
        problem = b"-: the line at byte 41: there is no headers delimiter in it"
        message = b"pybroker produce: %b: 2 lines are acknowledged, not the others\n" % problem
        assert (sent.returncode, sent.stderr) == (1, message)
        read = [*at, "--consumer.config", str(tmp_path / "consumer.properties"), "--max-messages", "2"]
        for name in ("key", "partition", "offset", "headers"):
            read += ["--property", f"print.{name}=true"]
        assert tools.run("kafka-console-consumer.sh", read) == 0
        lines = (
            b"Partition:0\tOffset:0\tby:ann,to:bob\t17\ttwo apples\n",
            b"Partition:0\tOffset:1\tNO_HEADERS\t18\tnull\n",
        )
        assert capfdbinary.readouterr() == (b"".join(lines), b"Processed a total of 2 messages\n")
        assert tools.run("kafka-consumer-groups.sh", ["--bootstrap-server", broker.bootstrap_servers, "--list"]) == 0
        assert b"shop" in capfdbinary.readouterr().out


def test_perf_tools_print_lines_of_kafka(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """They take properties of a Java producer."""
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


def test_control_characters_are_escaped_on_terminals_only() -> None:
    """A pipe gets the bytes unchanged."""
    with Broker({"num.partitions": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("odd", b"\x1b]0;title\x07")
        assert producer.flush(60) == 0
        words = ["consume", "odd", "--from-beginning", "--until-end", "--bootstrap-server", broker.bootstrap_servers]
        command = [sys.executable, "-m", "pybroker", *words]
        assert subprocess.run(command, capture_output=True, timeout=60).stdout == b"\x1b]0;title\x07\n"
        for options, expected in ([], rb"\x1b]0;title\x07"), (["--encoding", "raw"], b"\x1b]0;title\x07"):
            assert on_terminal([*command, *options]) == expected + b"\r\n"
