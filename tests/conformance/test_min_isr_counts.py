"""Partitions under and at min.insync.replicas, which is above the number of their replicas: metrics and kafka-topics.

The metrics of Apache Kafka never ask for more replicas than there are (KIP-966); its kafka-topics does.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner, java_command, kafka_classpath
from tests.support.ports import free_port
from tests.support.recorded_answers import RecordedAnswers, plain
from tests.support.tools import start_tool

COUNTS = ("UnderMinIsrPartitionCount", "AtMinIsrPartitionCount", "UnderReplicatedPartitions")
CREATED = ("--create --topic above --config min.insync.replicas=2", "--create --topic equal --partitions 2")
OPTIONS = ("--under-min-isr-partitions", "--at-min-isr-partitions", "--under-replicated-partitions")


class KafkaWithJmx(KafkaBroker):
    """Apache Kafka whose metrics can be read from this machine."""

    jmx_port = 0

    def _command(self, config: Path) -> list[str]:
        self.jmx_port = self.jmx_port or free_port()
        java, *rest = super()._command(config)
        jmx = "-Dcom.sun.management.jmxremote"
        options = [f"{jmx}.port={self.jmx_port}", f"{jmx}.host={HOST}", f"{jmx}.authenticate=false", f"{jmx}.ssl=false"]
        return [java, *options, f"-Djava.rmi.server.hostname={HOST}", *rest]

    def counts(self) -> list[int]:
        """Return the values of the metrics."""
        names = [f"kafka.server:type=ReplicaManager,name={name}" for name in COUNTS]
        url = f"service:jmx:rmi:///jndi/rmi://{HOST}:{self.jmx_port}/jmxrmi"
        words = ["--jmx-url", url, "--one-time", "--report-format", "properties"]
        words += [word for name in names for word in ("--object-name", name)]
        command = java_command("org.apache.kafka.tools.JmxTool", words, [kafka_classpath()])
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [int(re.findall(rf"{name}:Value=(\d+)$", output, re.MULTILINE)[0]) for name in names]


class OursWithMetrics(OurBroker):
    """pybroker with its endpoint for metrics."""

    metrics_port = 0

    def counts(self) -> list[int]:
        """Return the values of the metrics."""
        with urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        names = [f"kafka_server_replicamanager_{name.lower()} " for name in COUNTS]
        return [int(float(line.split()[1])) for name in names for line in lines if line.startswith(name)]


def answers(broker: KafkaWithJmx | OursWithMetrics, java: JavaRunner) -> dict[str, Any]:
    """Create the topics; return the counts, and the partitions that Kafka's tool lists."""
    for line in CREATED:
        assert _output(broker, java, line)
    return {
        "counts": eventually(broker.counts, until=lambda found: sum(found) > 0),
        "listed": [
            sorted(re.findall(r"Topic: (\w+)\s+Partition: (\d+)", _output(broker, java, f"--describe {option}")))
            for option in OPTIONS
        ],
    }


def _output(broker: RunningBroker, java: JavaRunner, line: str) -> str:
    tool = start_tool(java, broker.bootstrap, "kafka-topics", *line.split()).wait()
    assert tool.exit_code == 0, tool.stderr
    return tool.stdout


def test_counts_are_those_of_kafka(recorded: RecordedAnswers, java: JavaRunner, tmp_path: Path) -> None:
    def of_kafka() -> dict[str, Any]:
        with KafkaWithJmx(tmp_path / "kafka") as broker:
            return answers(broker, java)

    expected = recorded.of("counts", of_kafka)
    assert expected["counts"] == [0, 3, 0]
    assert expected["listed"] == [[["above", "0"]], [["equal", "0"], ["equal", "1"]], []]
    metrics = free_port()
    with OursWithMetrics(tmp_path / "ours", {"metrics.listeners": f"http://{HOST}:{metrics}"}) as broker:
        broker.metrics_port = metrics
        found = answers(broker, java)
    assert plain(found) == expected
