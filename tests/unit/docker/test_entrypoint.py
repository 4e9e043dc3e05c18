"""The image's entry point: what it makes of environment variables and mounted files."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCKER = Path(__file__).resolve().parents[3] / "docker"


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entrypoint", DOCKER / "entrypoint.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


entrypoint = _module()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A mounted file, not there yet, and the image's default."""
    default = tmp_path / "default.properties"
    default.write_text("listeners=HOST://:9092\nlog.dirs=/default\n")
    return tmp_path / "mounted.properties", default


def test_variables_are_properties_as_in_kafkas_image() -> None:
    """Dots as _, underscores as __, dashes as ___; not what its scripts and Kubernetes put there."""
    environ = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LISTENER_NAME_PLAINTEXT__HOST_MAX_CONNECTIONS": "5",
        "KAFKA_A___B": "dash",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_SERVICE_PORT_CLIENT": "9092",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "PATH": "/bin",
    }
    assert entrypoint.properties_from(environ) == {
        "num.partitions": "3",
        "listener.name.plaintext_host.max.connections": "5",
        "a-b": "dash",
        "pybroker.cluster.id": "4L6g3nShT-eMCtK--X86sw",
    }


def test_nothing_given_is_the_images_own_file(files: tuple[Path, Path]) -> None:
    """Its log directory stays; a cluster id alone changes nothing else."""
    text = entrypoint.configuration({"CLUSTER_ID": "id"}, *files)

    assert text == "listeners=HOST://:9092\nlog.dirs=/default\n\npybroker.cluster.id=id\n"


def test_variables_win_over_a_mounted_file(files: tuple[Path, Path]) -> None:
    """They stand after it: the last one counts."""
    files[0].write_text("num.partitions=1\nlog.dir=/mounted")

    text = entrypoint.configuration({"KAFKA_NUM_PARTITIONS": "3"}, *files)

    assert text == "num.partitions=1\nlog.dir=/mounted\nnum.partitions=3\n"


def test_variables_alone_leave_the_default_file_out(files: tuple[Path, Path]) -> None:
    """As Kafka's image does; only the log directory is put in."""
    assert entrypoint.configuration({"KAFKA_NODE_ID": "7"}, *files) == "\nnode.id=7\nlog.dirs=/var/lib/kafka/data\n"


def test_volume_where_kafkas_image_writes_is_used(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A compose file for Kafka's image keeps its data where it had it."""
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/tmp/kraft-combined-logs")

    assert "log.dirs=/tmp/kraft-combined-logs\n" in entrypoint.configuration({"KAFKA_NODE_ID": "7"}, *files)


@pytest.mark.parametrize(
    ("given", "option"), [("DEBUG", ["--log-level=debug"]), ("warn", ["--log-level=warning"]), ("", [])]
)
def test_log_level_of_kafkas_image(given: str, option: list[str]) -> None:
    """KAFKA_LOG4J_ROOT_LOGLEVEL; what it does not know is left out."""
    command = entrypoint.broker_command({"KAFKA_LOG4J_ROOT_LOGLEVEL": given}, Path("x"), ["--strict"])

    assert command == ["pybroker", "x", *option, "--strict"]


@pytest.mark.parametrize(
    ("config", "port"),
    [
        ("", 9092),
        ("listeners=HOST://:9093,CONTAINERS://:19092", 9093),
        (
            "listeners=A://:1\nlisteners = CONTROLLER://:29093, PLAINTEXT://[::]:9094\ncontroller.listener.names=CONTROLLER",
            9094,
        ),
    ],
)
def test_health_is_asked_at_the_first_listener_of_the_broker(config: str, port: int) -> None:
    """Not at a controller's, which is not opened."""
    assert entrypoint.first_port(config) == port


def test_other_commands_are_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """docker run IMAGE pybroker --version."""
    ran: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "pybroker", "--version"])
    monkeypatch.setattr(os, "execvp", lambda _, command: ran.append(command))

    entrypoint.main()

    assert ran == [["pybroker", "--version"]]


def test_configuration_of_a_container_is_its_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be passwords in its variables."""
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "run"])
    monkeypatch.setattr(os, "execvp", lambda *_: None)
    monkeypatch.setenv("ENTRYPOINT_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_PASSWORD", "hidden")
    entrypoint.main()

    assert "ssl.keystore.password=hidden" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "server.properties").stat().st_mode & 0o777 == 0o600
