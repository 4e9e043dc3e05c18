"""The image's scripts, run as Testcontainers' modules run them, but with other paths."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pybroker.kafka_home.home import make_home
from tests.support.brokers import HOST
from tests.support.ports import free_port

DOCKER = Path(__file__).resolve().parents[2] / "docker"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LIMIT_S = 60


@dataclass
class Container:
    """A directory with the image's scripts and the programs that they find on PATH."""

    root: Path
    port: int = field(default_factory=free_port)
    broker_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        make_home(self.root / "opt/kafka", self.root / "usr/bin")
        for folder, place in (("apache", "etc/kafka/docker"), ("confluent", "etc/confluent/docker")):
            shutil.copytree(DOCKER / folder, self.root / place)
            for path in (self.root / place).iterdir():
                path.write_text(self.with_own_paths(path.read_text()))
        (self.root / "opt/pybroker").mkdir(parents=True)
        shutil.copy(DOCKER / "entrypoint.py", self.root / "opt/pybroker")

    def with_own_paths(self, script: str) -> str:
        """Return a script with the container's paths replaced by those of this directory."""
        return re.sub(r"(?<![\w/.])/(etc|opt)/(?=kafka|confluent|pybroker)", rf"{self.root}/\1/", script)

    def environment(self, *, kraft: bool) -> dict[str, str]:
        """Return the variables that Testcontainers' modules set, for listeners on loopback."""
        listeners = f"PLAINTEXT://{HOST}:{self.port},BROKER://{HOST}:{self.broker_port}"
        protocols = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
        variables = {
            "KAFKA_LISTENERS": listeners,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": protocols,
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
        }
        if kraft:
            variables |= {
                "KAFKA_LISTENERS": f"{listeners},CONTROLLER://0.0.0.0:9094",
                "KAFKA_REST_BOOTSTRAP_SERVERS": listeners,
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{protocols},CONTROLLER:PLAINTEXT",
                "KAFKA_NODE_ID": "1",
                "KAFKA_PROCESS_ROLES": "broker,controller",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
                "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
            }
        else:
            variables["KAFKA_ZOOKEEPER_CONNECT"] = "localhost:2181"
        return variables

    def start(self, script: str, variables: dict[str, str]) -> subprocess.Popen[str]:
        """Run a start script as the container's shell does; its standard output is the log."""
        path = self.root / "testcontainers_start.sh"
        path.write_text(self.with_own_paths(script))
        own = {
            "PATH": f"{self.root}/usr/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KAFKA_LOG_DIRS": str(self.root / "data"),
            "ENTRYPOINT_CONFIG_DIR": str(self.root / "opt/kafka/config"),
            "ENTRYPOINT_MOUNTED_DIR": str(self.root),
            "ENTRYPOINT_DEFAULT_CONFIG": str(DOCKER / "server.properties"),
        }
        return subprocess.Popen(
            ["bash", str(path)],
            env=variables | own,
            cwd=self.root,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended after the test, with their children."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(process: subprocess.Popen[str], expression: str) -> str:
    """Read standard output until a line matches; return all of it."""
    assert process.stdout is not None
    lines = []
    ended = threading.Timer(LIMIT_S, process.kill)
    ended.start()
    try:
        for line in process.stdout:
            lines.append(line)
            if re.search(expression, line):
                return "".join(lines)
    finally:
        ended.cancel()
    assert process.stderr is not None
    raise AssertionError("".join([*lines, process.stderr.read()]))


ADVERTISED = "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://127.0.0.1:{broker_port}"

# The start scripts of Testcontainers' modules: Java with the images of Apache and of Confluent, Go, Python, .NET
SCRIPTS = {
    "apache": (
        f"#!/bin/bash\n{ADVERTISED}\n/etc/kafka/docker/run \n",
        True,
        r".*Transitioning from RECOVERY to RUNNING.*",
    ),
    "confluent": (
        f"#!/bin/bash\n{ADVERTISED}\n/etc/confluent/docker/run \n",
        True,
        r".*Transitioning from RECOVERY to RUNNING.*",
    ),
    "confluent-zookeeper": (
        f"#!/bin/bash\n{ADVERTISED}\necho '' > /etc/confluent/docker/ensure \n/etc/confluent/docker/run \n",
        False,
        r".*\[KafkaServer id=\d+\] started.*",
    ),
    "go": (
        f"#!/bin/bash\nsource /etc/confluent/docker/bash-config\n{ADVERTISED}\n"
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        'echo \'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)"'
        " -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        True,
        r".*Transitioning from RECOVERY to RUNNING.*",
    ),
    "python": (
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        f"echo 'kafka-storage format --ignore-formatted -t {CLUSTER_ID} -c /etc/kafka/kafka.properties'"
        f" >> /etc/confluent/docker/configure\n{ADVERTISED}\n. /etc/confluent/docker/bash-config\n"
        "/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n",
        True,
        r".*Kafka Server started.*",
    ),
    "dotnet": (f"#!/bin/bash\n{ADVERTISED},\nexec /etc/kafka/docker/run\n", True, r"\[KafkaServer id=\d+\] started"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_start_scripts_of_testcontainers_work(
    name: str, container: Container, started: list[subprocess.Popen[str]]
) -> None:
    """The log has the line that the module waits for. Clients get the script's address."""
    script, kraft, awaited = SCRIPTS[name]
    script = script.replace("{port}", str(container.port)).replace("{broker_port}", str(container.broker_port))
    variables = container.environment(kraft=kraft) | ({"CLUSTER_ID": CLUSTER_ID} if kraft and name != "go" else {})
    started.append(container.start(script, variables))

    wait_for(started[0], awaited)

    metadata = AdminClient({"bootstrap.servers": f"{HOST}:{container.port}"}).list_topics(timeout=LIMIT_S)
    assert [str(each) for each in metadata.brokers.values()] == [f"{HOST}:{container.port}/1"]
    assert metadata.cluster_id is not None
    assert (metadata.cluster_id == CLUSTER_ID) == (kraft and name != "go")


def test_user_is_created_before_the_start(container: Container, started: list[subprocess.Popen[str]]) -> None:
    """By a line that Testcontainers for Node appends to Confluent's configure script."""
    listener = f"SECURE://{HOST}:{container.port},BROKER://{HOST}:{container.broker_port}"
    variables = container.environment(kraft=True) | {
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_LISTENERS": f"{listener},CONTROLLER://0.0.0.0:9094",
        "KAFKA_ADVERTISED_LISTENERS": listener,
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": "org.apache.kafka.common.security.scram."
        "ScramLoginModule required;",
    }
    script = (
        "echo 'kafka-storage format --ignore-formatted -t \"" + CLUSTER_ID + '" -c /etc/kafka/kafka.properties'
        ' --add-scram "SCRAM-SHA-512=[name=app-user,password=userPassword]"\' >> /etc/confluent/docker/configure\n'
        "/etc/confluent/docker/run \n"
    )
    started.append(container.start(script, variables))

    log = wait_for(started[0], r"Kafka Server started")

    assert "creating new entry for app-user" in log
    client = {
        "bootstrap.servers": f"{HOST}:{container.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app-user",
        "sasl.password": "userPassword",
    }
    assert AdminClient(client).list_topics(timeout=LIMIT_S).cluster_id == CLUSTER_ID
