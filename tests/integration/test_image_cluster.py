"""docker/cluster/compose-own.yaml outside of containers: its environments make a controller and three members."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.eventually import eventually
from tests.support.ports import HOST, free_port

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker/cluster/compose-own.yaml").read_text())["services"]
_ENTRYPOINT = [sys.executable, str(ROOT / "docker/entrypoint.py")]
_QUIET = {"log_level": 0}


class Container:
    """A service of the compose file as a process on loopback. `ports` are those of all services, by host and port."""

    def __init__(self, service: str, home: Path, ports: dict[str, int]) -> None:
        home.mkdir()
        self.environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ENTRYPOINT_CONFIG_DIR": str(home),
            "ENTRYPOINT_MOUNTED_DIR": str(home / "nothing-mounted"),
        }
        for name, value in SERVICES[service]["environment"].items():
            self.environ[name] = _on_loopback(str(value), service, ports)
        self.environ["KAFKA_LOG_DIRS"] = str(home / "data")
        self._output = (home / "output").open("w")
        self._process = subprocess.Popen([*_ENTRYPOINT, "run"], env=self.environ, stdout=self._output)

    def is_healthy(self) -> bool:
        assert self._process.poll() is None, Path(self._output.name).read_text()
        return subprocess.run([*_ENTRYPOINT, "health"], env=self.environ).returncode == 0

    def stop(self) -> int:
        self._process.terminate()
        self._output.close()
        return self._process.wait(90)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()


def _on_loopback(value: str, service: str, ports: dict[str, int]) -> str:
    for place, port in ports.items():
        host, _, number = place.partition(":")
        value = value.replace(place, f"{HOST}:{port}")
        if host == service:
            value = value.replace(f"//:{number}", f"//{HOST}:{port}").replace(f"localhost:{number}", f"{HOST}:{port}")
    return value


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[dict[str, Container]]:
    ports = {"controller:9093": free_port()}
    for number in (1, 2, 3):
        ports[f"broker-{number}:19092"] = free_port()
        ports[f"broker-{number}:{9091 + number}"] = free_port()
    running = {service: Container(service, tmp_path / service, ports) for service in SERVICES}
    yield running
    for each in running.values():
        each.kill()


def test_compose_file_makes_a_replicated_cluster(containers: dict[str, Container]) -> None:
    """All are healthy; a topic has three replicas by default; the controller stops last, and in order."""
    for each in containers.values():
        eventually(each.is_healthy, timeout_s=120, interval_s=0.2)
    advertised = containers["broker-2"].environ["KAFKA_ADVERTISED_LISTENERS"]
    bootstrap = advertised.rpartition("HOST://")[2]
    admin = AdminClient({**_QUIET, "bootstrap.servers": bootstrap})
    eventually(lambda: len(admin.list_topics(timeout=10).brokers), equal_to=3)
    assert admin.list_topics(timeout=10).cluster_id == SERVICES["controller"]["environment"]["CLUSTER_ID"]
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
    producer = Producer({**_QUIET, "bootstrap.servers": bootstrap, "acks": "all"})
    failed: list[object] = []
    producer.produce("orders", "value", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []
    (partition,) = admin.list_topics("orders", timeout=10).topics["orders"].partitions.values()
    assert sorted(partition.replicas) == [1, 2, 3]
    codes = {service: containers[service].stop() for service in sorted(SERVICES)}
    assert set(codes.values()) == {0}, codes
