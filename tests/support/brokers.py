"""Brokers that tests talk to, each a process of its own on loopback: ours, and Apache Kafka as the reference.

Both start from the same few properties, so that a test runs against either.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from metadata.releases import DEFAULT_RELEASE
from tests.support.eventually import eventually
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.ports import HOST as HOST
from tests.support.ports import free_port, listens

if TYPE_CHECKING:
    import pytest

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

# ApiVersions v0, correlation id 0, no client id: every running broker answers it
_ARE_YOU_UP = bytes.fromhex("0000000a00120000000000000000")

_COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # tests write records with old timestamps, which retention would remove during a slow test
    "log.initial.task.delay.ms": "86400000",
}


class RunningBroker(ABC):
    """A broker in `directory`: its properties file, its output, its log directory. The constructor starts it.

    As a context manager it is killed at the end.
    """

    kind: str
    node_id = 1
    start_timeout_s: float

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.directory = directory
        self.log_dir = directory / "logs"
        self.port = port or free_port()
        self._properties = {**_COMMON, **(properties or {})}
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        """Return the address for bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """Return what the broker printed since its first start."""
        return (self.directory / "output.txt").read_text(errors="replace")

    def start(self, *, port: int | None = None) -> None:
        """Start the broker, perhaps on another port, and wait until it answers."""
        self.spawn(port=port)
        assert self._process is not None
        eventually(
            lambda: (
                (self._answers() and listens(self.pid, self.port))
                or (self._process is not None and self._process.poll() is not None)
            ),
            lambda: f"an answer of the broker:\n{self.output}",
            timeout_s=self.start_timeout_s,
            interval_s=0.01,
        )
        assert self._process.poll() is None, f"the broker ended by itself:\n{self.output}"

    def catch_up(self) -> None:
        """Wait until the broker has received all that was sent before: a new connection is served after it."""
        assert self._answers(timeout_s=60)

    def spawn(self, *, port: int | None = None) -> None:
        """Start the broker without waiting."""
        self.port = port or self.port
        config = self.directory / "server.properties"
        lines = {**self._own_properties(), "log.dirs": str(self.log_dir), **self._properties}
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        with (self.directory / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                self._command(config), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory
            )

    def stop(self, timeout_s: float = 90) -> int:
        """Stop the broker with SIGTERM; return its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def wait(self, timeout_s: float = 90) -> int:
        """Wait until the broker ends by itself; return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """Kill the broker with SIGKILL: it flushes nothing and marks no log as clean."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self, timeout_s: float = 5) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=timeout_s) as connection:
                connection.sendall(_ARE_YOU_UP)
                return len(connection.recv(4)) == 4
        except OSError:
            return False

    @abstractmethod
    def _own_properties(self) -> dict[str, str]:
        """Return the properties that only this kind of broker needs."""

    @abstractmethod
    def _command(self, config: Path) -> list[str]:
        """Return the command line that starts it."""


class OurBroker(RunningBroker):
    """pybroker, as its console command starts it."""

    kind = "ours"
    start_timeout_s = 60

    def _own_properties(self) -> dict[str, str]:
        listener = f"PLAINTEXT://{HOST}:{self.port}"
        return {"node.id": str(self.node_id), "listeners": listener, "pybroker.legacy.versions": "false"}

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "pybroker", str(config)]


class KafkaBroker(RunningBroker):
    """Apache Kafka, one node that is broker and controller (KRaft), at the feature levels of a new pybroker."""

    kind = "kafka"
    start_timeout_s = 180
    _quorum_port: int | None = None
    _format_options: tuple[str, ...] = ("--release-version", DEFAULT_RELEASE)

    def _own_properties(self) -> dict[str, str]:
        if self._quorum_port is None:
            self._quorum_port = free_port()
        quorum = self._quorum_port
        return {
            "node.id": str(self.node_id),
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"{self.node_id}@{HOST}:{quorum}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
        }

    def _command(self, config: Path) -> list[str]:
        options = (*QUICK, "-Xmx512m", *self._where_keys_of_tokens_may_be())
        if not (self.log_dir / "meta.properties").exists():
            tool = ["format", "--cluster-id", CLUSTER_ID, "--config", str(config), *self._format_options]
            command = java_command("kafka.tools.StorageTool", tool, [self._classpath()], options=options)
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        return java_command("kafka.Kafka", [str(config)], [self._classpath()], options=options)

    def _classpath(self) -> Path:
        """Return the jars that it runs, as one entry of a class path."""
        return kafka_classpath()

    def _where_keys_of_tokens_may_be(self) -> list[str]:
        """Return the JVM's option for the keys of tokens: it reads them from no other place."""
        urls = [value for key, value in self._properties.items() if key.endswith("oauthbearer.jwks.endpoint.url")]
        files = [url.removeprefix("file://") for url in urls if url.startswith("file:")]
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return [f"{allowed}.urls={','.join(urls)}", f"{allowed}.files={','.join(files)}"] if urls else []


class StandaloneKafka(KafkaBroker):
    """An Apache Kafka whose metadata log names its voter (kraft.version 1), as that of a new pybroker does."""

    _format_options = (*KafkaBroker._format_options, "--standalone")

    def _own_properties(self) -> dict[str, str]:
        own = super()._own_properties()
        quorum = own.pop("controller.quorum.voters").partition("@")[2]
        return {
            **own,
            "controller.quorum.bootstrap.servers": quorum,
            "advertised.listeners": f"{own['advertised.listeners']},CONTROLLER://{quorum}",
        }


def marked_broker(request: pytest.FixtureRequest, directory: Path, default: type[Any]) -> Any:
    """Start the broker that the marker `broker` of a test or file names: its class, and the class's arguments.

    A RunningBroker is in `directory`. Without the marker it is a broker of the class `default`.
    """
    marker = request.node.get_closest_marker("broker")
    kind, *arguments = marker.args if marker else (default,)
    return kind(directory, *arguments) if issubclass(kind, RunningBroker) else kind(*arguments)


BROKERS: dict[str, type[RunningBroker]] = {broker.kind: broker for broker in (OurBroker, KafkaBroker)}
