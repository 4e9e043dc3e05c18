"""A directory formatted by one broker's tool, with the other broker: pybroker format and kafka-storage format."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from storage.checkpoints import read_meta_properties
from storage.fs import LOCAL
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.ports import free_port

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def by_us(config: Path, *options: str) -> None:
    run([sys.executable, "-m", "pybroker", "format", "-c", str(config), "-t", CLUSTER, *options])


def by_kafka(config: Path, *options: str) -> None:
    arguments = ["format", "--config", str(config), "--cluster-id", CLUSTER, *options]
    run(java_command("kafka.tools.StorageTool", arguments, [kafka_classpath()], options=QUICK))


class KafkaOnOurFormat(KafkaBroker):
    """Apache Kafka on a directory that pybroker formatted."""

    options: tuple[str, ...] = ()

    def _own_properties(self) -> dict[str, str]:
        properties = super()._own_properties()
        if "--standalone" in self.options:
            quorum = properties.pop("controller.quorum.voters").partition("@")[2]
            properties["controller.quorum.bootstrap.servers"] = quorum
        return properties

    def _command(self, config: Path) -> list[str]:
        by_us(config, *self.options)
        return super()._command(config)


class DynamicKafkaOnOurFormat(KafkaOnOurFormat):
    """The same, where the log names the voter."""

    options = ("--standalone",)


class KafkaOfAnOlderRelease(KafkaOnOurFormat):
    """The same, with the features of an older release."""

    options = ("--standalone", "--release-version", "3.9")


class OursOnKafkasFormat(OurBroker):
    """pybroker on a directory that Apache Kafka formatted, with a configuration for both."""

    options: tuple[str, ...] = ("--standalone",)

    def _own_properties(self) -> dict[str, str]:
        quorum = free_port()
        named = f"{HOST}:{quorum}" if self.options else f"{self.node_id}@{HOST}:{quorum}"
        return {
            **super()._own_properties(),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{quorum}",
            f"controller.quorum.{'bootstrap.servers' if self.options else 'voters'}": named,
        }

    def _command(self, config: Path) -> list[str]:
        by_kafka(config, *self.options)
        return super()._command(config)


class OursOnKafkasStaticFormat(OursOnKafkasFormat):
    """The same, where the configuration names the voter."""

    options = ()


KINDS = (
    KafkaOnOurFormat,
    DynamicKafkaOnOurFormat,
    KafkaOfAnOlderRelease,
    OursOnKafkasFormat,
    OursOnKafkasStaticFormat,
)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    running: RunningBroker = request.param(tmp_path)
    yield running
    running.kill()


def test_a_broker_starts_on_the_other_ones_format(broker: RunningBroker) -> None:
    """It starts, creates a topic, stores a record and returns it; cluster and directory ids are those of the format."""
    found = read_meta_properties(LOCAL, str(broker.log_dir))
    assert found is not None
    assert found.cluster_id == CLUSTER
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert admin.describe_cluster()["cluster_id"] == CLUSTER
    admin.create_topics([NewTopic("orders", 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("orders", b"two apples").get(30)
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    assert next(consumer).value == b"two apples"
    consumer.close()
    assert broker.stop() in (0, 143)
    assert read_meta_properties(LOCAL, str(broker.log_dir)) == found
