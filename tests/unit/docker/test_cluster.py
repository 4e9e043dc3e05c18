"""The files of docker/cluster/: three brokers of pybroker, under Apache Kafka's controllers or its own."""

from __future__ import annotations

import runpy
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.membership.discovery import bootstrap_endpoints
from config import load

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker/cluster/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKERS = [name for name in SERVICES if name.startswith("broker-")]
CONTROLLERS = [name for name in SERVICES if name.startswith("controller-")]


def properties(service: str, tmp_path: Path, services: dict[str, dict[str, Any]] = SERVICES) -> Path:
    """Return the file that the image makes of a broker's environment."""
    environ = {name: str(value) for name, value in services[service]["environment"].items()}
    entrypoint = runpy.run_path(str(ROOT / "docker/entrypoint.py"))
    path = tmp_path / f"{service}.properties"
    path.write_text(entrypoint["configuration"](environ, tmp_path / "none", ROOT / "docker/server.properties"))
    return path


def test_there_are_three_of_each() -> None:
    assert (len(BROKERS), len(CONTROLLERS)) == (3, 3)
    ids = [each["environment"]["KAFKA_NODE_ID"] for each in SERVICES.values()]
    assert len(set(ids)) == 6
    assert len({each["environment"]["CLUSTER_ID"] for each in SERVICES.values()}) == 1
    assert {mount.split(":")[0] for each in SERVICES.values() for mount in each["volumes"]} == set(COMPOSE["volumes"])


@pytest.mark.parametrize("service", BROKERS)
def test_brokers_are_members_without_a_warning(service: str, tmp_path: Path) -> None:
    """Each finds all controllers, and clients on the host and in the network find it."""
    config = load(str(properties(service, tmp_path)), strict=True, to_serve=True)
    assert config.is_member
    assert config.warnings == ()
    assert [each.host for each in bootstrap_endpoints(config)] == CONTROLLERS
    advertised = {each.name: f"{each.host}:{each.port}" for each in config.advertised_listeners}
    port = advertised["HOST"].partition(":")[2]
    assert advertised["INSIDE"] == f"{service}:19092"
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_controllers_vote_with_their_own_ids() -> None:
    voters = {
        f"{each['environment']['KAFKA_NODE_ID']}@{name}:9093" for name, each in SERVICES.items() if name in CONTROLLERS
    }
    for service in SERVICES.values():
        assert set(service["environment"]["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")) == voters


@pytest.mark.parametrize("service", BROKERS)
def test_environment_of_a_broker_suits_apache_kafka(service: str) -> None:
    """Its image has no default for the log directory. With static voters its brokers take no bootstrap servers."""
    environment = SERVICES[service]["environment"]
    assert "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS" not in environment
    assert SERVICES[service]["volumes"] == [f"{service}:{environment['KAFKA_LOG_DIRS']}"]
    assert {"CLUSTER_ID", "KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_LISTENERS"} <= environment.keys()


def test_containers_wait_for_a_clean_stop() -> None:
    """pybroker.shutdown.timeout.ms: leadership moves away first."""
    for name in BROKERS:
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > 60


def test_unit_of_a_controller_is_restarted_after_a_failure_alone() -> None:
    """A JVM ends with 143 on SIGTERM, which is success."""
    unit = ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((ROOT / "docker/cluster/kafka-controller.service").read_text())
    service = dict(unit["Service"])
    assert (service["Restart"], service["SuccessExitStatus"]) == ("on-failure", "143")
    assert service["StateDirectory"] == "kafka-controller"
    guide = (ROOT / "docs/guides/cluster.md").read_text()
    assert "log.dirs=/var/lib/kafka-controller\n" in guide
    assert service["ExecStart"].split()[1] in guide


# -- compose-own.yaml ------------------------------------------------------------------------------------------------

OWN_SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker/cluster/compose-own.yaml").read_text())[
    "services"
]


@pytest.mark.parametrize("service", OWN_SERVICES)
def test_nodes_under_an_own_controller_start_without_a_warning(service: str, tmp_path: Path) -> None:
    config = load(str(properties(service, tmp_path, OWN_SERVICES)), strict=True, to_serve=True)
    assert config.warnings == ()
    assert config.is_controller == (service == "controller")
    if config.is_member:
        assert [each.host for each in bootstrap_endpoints(config)] == ["controller"]


def test_health_of_an_own_controller_is_its_listeners(tmp_path: Path) -> None:
    entrypoint = runpy.run_path(str(ROOT / "docker/entrypoint.py"))
    text = properties("controller", tmp_path, OWN_SERVICES).read_text()
    assert entrypoint["asked_at"](text, {}) == ("localhost", 9093, False)
