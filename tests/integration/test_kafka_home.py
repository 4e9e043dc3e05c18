"""A broker started by the scripts of `pybroker kafka-home`, with settings of other projects' test suites."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pybroker.kafka_home.home import make_home
from tests.support.brokers import HOST
from tests.support.ports import free_port

STORES = Path(__file__).resolve().parents[1] / "data" / "keystores"
LIMIT_S = 60

# Rendered by kafka-python's fixture. The TLS listeners use stores of keytool
# whose types are not given.
KAFKA_PYTHON = """\
process.roles=broker,controller
node.id=0
controller.quorum.bootstrap.servers={host}:9
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:9
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN

ssl.keystore.location={stores}/server.jks
ssl.keystore.password=store-password
ssl.key.password=key-password
ssl.truststore.location={stores}/trusted.jks
ssl.truststore.password=store-password
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
advertised.listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:9
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={data}
num.partitions=4
default.replication.factor=1
replica.lag.time.max.ms=1000
log.cleaner.enable=false
offsets.commit.timeout.ms=500
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
group.min.session.timeout.ms=1000
"""

KAFKA_PYTHON_JAAS = """\
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
      username="alice" password="secret" user_alice="secret";

};
Client {};
"""

# Rendered by trivup for the suites of librdkafka and its bindings
TRIVUP = """\
broker.id=3
port={port}
reserved.broker.max.id=65536
listeners=SASL_PLAINTEXT://0.0.0.0:{port},PLAINTEXT://0.0.0.0:{other},CONTROLLER://0.0.0.0:9,DOCKER://0.0.0.0:{docker}
advertised.listeners=SASL_PLAINTEXT://localhost:{port},PLAINTEXT://localhost:{other},DOCKER://localhost:{docker},CONTROLLER://localhost:9
log.dir={data}
log.dirs={data}
num.partitions=4
auto.create.topics.enable=true
delete.topic.enable=true
default.replication.factor=1
offsets.topic.replication.factor=1
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.mechanism.controller.protocol=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
super.users=User:admin
allow.everyone.if.no.acl.found=true
broker.rack=RACK3
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
group.share.min.record.lock.duration.ms=1000
connections.max.reauth.ms=10000
process.roles=broker,controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,DOCKER:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
ssl.keystore.type = JKS
controller.quorum.voters=3@localhost:9
"""

TRIVUP_JAAS = """\
KafkaServer {
org.apache.kafka.common.security.scram.ScramLoginModule required debug=true
  username="admin"
  password="admin"
  username="testuser" password="testpass"
  username="admin" password="admin";
org.apache.kafka.common.security.plain.PlainLoginModule required debug=true
  username="admin"
  password="admin"
  user_testuser="testpass"
  user_admin="admin";
};
"""

# For brokers with a ZooKeeper
ZOOKEEPER = """\
broker.id=0
listeners=PLAINTEXT://{host}:{port}
security.inter.broker.protocol=PLAINTEXT
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
allow.everyone.if.no.acl.found=true
inter.broker.protocol.version=2.8
log.message.format.version=2.8
log.dirs={data}
default.replication.factor=1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
zookeeper.connect={host}:{other}/kafka-python_0123
zookeeper.connection.timeout.ms=30000
zookeeper.session.timeout.ms=500
"""


@dataclass
class Home:
    """The scripts' directory, a broker's properties, and the processes started by the scripts."""

    root: Path
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("port", "other", "docker")})
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        make_home(self.root / "kafka")

    def write(self, template: str) -> Path:
        path = self.root / "server.properties"
        path.write_text(template.format(host=HOST, stores=STORES, data=self.root / "data", **self.ports))
        return path

    def run(self, script: str, *arguments: object) -> str:
        """Run a script to its end; return its output."""
        command = [str(self.root / "kafka" / "bin" / script), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, script: str, *arguments: object, environment: Mapping[str, str] | None = None) -> str:
        """Start a script that keeps running; return the first line that the suites wait for."""
        command = [str(self.root / "kafka" / "bin" / script), *map(str, arguments)]
        process = subprocess.Popen(
            command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True
        )
        self.started.append(process)
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.search(r"Kafka Server started|There is no ZooKeeper", line):
                timer.cancel()
                return line
        raise AssertionError("".join(lines))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    for process in made.started:
        process.send_signal(signal.SIGTERM)
    for process in made.started:
        process.communicate(timeout=LIMIT_S)


def jaas(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return {"KAFKA_OPTS": f" -Djava.security.auth.login.config={path}"}


def send(client: Mapping[str, str | int | float | bool]) -> None:
    """Send a record and wait for its acknowledgement."""
    errors: list[object] = []
    producer = Producer(dict(client))
    producer.produce("topic", b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None]


def test_suite_of_kafka_python_starts_a_broker(home: Home) -> None:
    """The suite starts it with kafka-run-class kafka.Kafka, a JAAS file with users, and stores of keytool."""
    properties = home.write(KAFKA_PYTHON)
    cluster_id = home.run("kafka-storage.sh", "random-uuid").strip()
    home.run("kafka-storage.sh", "format", "--standalone", "-t", cluster_id, "-c", properties)
    environment = jaas(home.root / "jaas.conf", KAFKA_PYTHON_JAAS)

    line = home.start("kafka-run-class.sh", "kafka.Kafka", properties, environment=environment)

    assert re.search(r"\[KafkaRaftServer nodeId=0\] Kafka Server started", line)
    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": f"{HOST}:{home.ports['port']}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": False,
    }
    send(client)
    assert AdminClient(client).list_topics(timeout=LIMIT_S).cluster_id == cluster_id


def test_trivup_starts_a_broker(home: Home) -> None:
    """trivup starts it with kafka-storage and kafka-server-start. kafka-configs then adds users over all listeners."""
    properties = home.write(TRIVUP)
    home.run("kafka-storage.sh", "format", "-t", "c2d3b0d6-1e0a-11ee-be56-0242ac120002", "-c", properties)
    home.start("kafka-server-start.sh", properties, environment=jaas(home.root / "jaas.conf", TRIVUP_JAAS))
    port, other = home.ports["port"], home.ports["other"]
    advertised = f"SASL_PLAINTEXT://localhost:{port},PLAINTEXT://localhost:{other},CONTROLLER://localhost:9"
    users = ("--entity-type", "users", "--entity-name", "testuser")
    password = "SCRAM-SHA-256=[iterations=4096,password=testpass]"
    home.run("kafka-configs.sh", "--bootstrap-server", advertised, "--alter", "--add-config", password, *users)

    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        send(
            {
                "bootstrap.servers": f"SASL_PLAINTEXT://localhost:{port}",
                "broker.address.family": "v4",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "testuser",
                "sasl.password": "testpass",
            }
        )
    at = ("--bootstrap-server", f"localhost:{other}")
    assert home.run("kafka-topics.sh", *at, "--list") == "topic\n"
    denied = ("--add", "--deny-principal", "User:*", "--operation", "All", "--deny-host", "*", "--topic", "denied")
    assert "User:*" in home.run("kafka-acls.sh", *at, *denied)
    client = ("--entity-type", "clients", "--entity-name", "throttled")
    home.run("kafka-configs.sh", *at, "--alter", "--add-config", "consumer_byte_rate=1024", *client)
    assert "1024" in home.run("kafka-configs.sh", *at, "--describe", *client)


def test_zookeeper_script_answers_and_broker_ignores_it(home: Home) -> None:
    """Keys of former versions only cause warnings."""
    (home.root / "zookeeper.properties").write_text(f"clientPort={home.ports['other']}\n")
    home.start("zookeeper-server-start.sh", home.root / "zookeeper.properties")
    with socket.create_connection((HOST, home.ports["other"]), LIMIT_S) as connection:
        connection.sendall(b"srvr")
        assert connection.makefile().read().startswith("Zookeeper version")

    home.start("kafka-run-class.sh", "kafka.Kafka", home.write(ZOOKEEPER))

    send({"bootstrap.servers": f"{HOST}:{home.ports['port']}"})


def test_log_is_on_stdout_and_stderr_stays_open(home: Home) -> None:
    """kafka-python's suite polls both pipes and would spin at end of file."""
    script = home.root / "kafka" / "bin" / "kafka-server-start.sh"
    command = [script, "--ephemeral", "--until-stdin-ends"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        assert any(b"Kafka Server started" in line for line in process.stdout)
        os.set_blocking(process.stderr.fileno(), False)
        assert process.stderr.read() is None  # no output, and not closed
        process.stdin.close()
        assert b"Stopped in" in process.stdout.read()


def test_wrong_store_password_refuses_the_start(home: Home) -> None:
    """The message has line, key and file, but not the password."""
    properties = home.write(KAFKA_PYTHON.replace("=key-password", "=hidden"))
    script = home.root / "kafka" / "bin" / "kafka-server-start.sh"

    done = subprocess.run(
        [script, properties],
        env={**os.environ, **jaas(home.root / "jaas.conf", KAFKA_PYTHON_JAAS)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )

    assert done.returncode == 1
    message = (
        r":\d+: ssl\.key\.password: wrong password for the key localhost in "
        rf"{re.escape(str(STORES))}/server\.jks"
    )
    assert re.search(message, done.stdout)
    assert "hidden" not in done.stdout


def test_daemon_inherits_no_pipe_of_its_caller(tmp_path: Path) -> None:
    """It creates the directory of its log."""
    make_home(tmp_path / "home")
    port, logs = free_port(), tmp_path / "logs"
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://{HOST}:{port}\nlog.dirs={tmp_path}/data\n")
    start = [str(tmp_path / "home" / "bin" / "kafka-server-start.sh"), "-daemon", str(properties)]
    environ = {**os.environ, "LOG_DIR": str(logs)}
    done = subprocess.run(start, stdin=subprocess.PIPE, capture_output=True, timeout=LIMIT_S, env=environ)
    running = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, str(properties))]
    try:
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert AdminClient({"bootstrap.servers": f"{HOST}:{port}"}).list_topics(timeout=LIMIT_S).brokers
        assert "Started in" in (logs / "kafkaServer.out").read_text()
    finally:
        for process in running:
            os.kill(int(process.name), signal.SIGKILL)
    assert len(running) == 1


def _names(command_line: Path, word: str) -> bool:
    try:
        return word.encode() in command_line.read_bytes().split(b"\0")
    except OSError:  # the process has ended
        return False
