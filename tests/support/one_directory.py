"""Apache Kafka and pybroker in turn in one directory, with the same server.properties."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.brokers import HOST, KafkaBroker, RunningBroker
from tests.support.jars import kafka_classpath
from tests.support.java import QUICK, java_command

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
_LOG_LINE = re.compile(r"^\S+ .* (WARN|ERROR|FATAL) (.*)$", re.MULTILINE)


class _Kafka(KafkaBroker):
    """Apache Kafka that also prints warnings. Its directory is formatted beforehand."""

    def _own_properties(self) -> dict[str, str]:
        return {}

    def _command(self, config: Path) -> list[str]:
        options = (*QUICK, "-Xmx512m", "-Dlog4j2.level=WARN")
        return java_command("kafka.Kafka", [str(config)], [kafka_classpath()], options=options)


class _Ours(_Kafka):
    kind = "ours"
    start_timeout_s = 60

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "pybroker", str(config)]


class OneDirectory:
    """`start(kind)` starts a broker of that kind; only one runs at a time.

    `standalone`: the log names the voters, the configuration does not. `formatted`: Apache Kafka's tool formats the
    directory, with the voters in the log (kraft.version 1) or in the configuration; otherwise the first broker that
    starts formats it: ours.
    """

    def __init__(
        self, directory: Path, port: int, quorum_port: int, *, standalone: bool, formatted: bool = True
    ) -> None:
        self.directory = directory
        self.log_dir = directory / "logs"
        self._port = port
        quorum = f"{HOST}:{quorum_port}"
        voters = {"controller.quorum.bootstrap.servers": quorum} if standalone else {}
        self._properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            **(voters or {"controller.quorum.voters": f"1@{quorum}"}),
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{quorum}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "log.cleaner.backoff.ms": "100",
            "log.initial.task.delay.ms": "4000",  # earlier, Kafka fails on logs that are still being opened
            "log.flush.start.offset.checkpoint.interval.ms": "100",
            "producer.id.expiration.ms": str(2**31 - 1),
            "metadata.log.max.record.bytes.between.snapshots": "3000",
            "metadata.max.retention.bytes": "20000",
            "internal.metadata.log.segment.bytes": "4096",
        }
        directory.mkdir(parents=True)
        if formatted:
            self._format(["--standalone"] if standalone else [])
        self.running: RunningBroker | None = None

    def _format(self, arguments: Sequence[str]) -> None:
        config = self.directory / "format.properties"
        properties = {**self._properties, "log.dirs": str(self.log_dir)}
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        tool = ["format", "--cluster-id", CLUSTER_ID, "--config", str(config), *arguments]
        command = java_command("kafka.tools.StorageTool", tool, [kafka_classpath()], options=QUICK)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, kind: str) -> RunningBroker:
        """Start a broker on the data of the previous one."""
        before = self._config_text()
        broker_class = {"kafka": _Kafka, "ours": _Ours}[kind]
        (self.directory / "output.txt").write_text("")
        self.running = broker_class(self.directory, self._properties, port=self._port)
        assert before in (None, self._config_text()), "another server.properties"
        return self.running

    def _config_text(self) -> str | None:
        path = self.directory / "server.properties"
        return path.read_text() if path.exists() else None

    def end(self, *, killed: bool) -> None:
        """Stop the broker cleanly, or kill it."""
        assert self.running is not None
        if killed:
            self.running.kill()
        else:
            assert self.running.stop() in (0, 143)

    def complaints(self) -> list[str]:
        """Return the warnings of the current or last broker, without those that differ each time."""
        assert self.running is not None
        found = (match[2] for match in _LOG_LINE.finditer(self.running.output))
        found = (line for line in found if not line.startswith("broker.observability.loop_watch"))  # a busy machine
        return [re.sub(r"[\w-]{22}|\d+", "#", line) for line in found]


def properties_of(path: Path) -> Mapping[str, str]:
    """Return the values of a properties file."""
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {key: value for key, _, value in lines}
