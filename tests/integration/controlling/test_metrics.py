"""Metrics and health of a controller alone, over HTTP."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.observability.metrics.metric_table import METRICS
from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.ports import free_port

_KAFKA = "kafka_controller_kafkacontroller_"


class Watched(OwnController):
    """A controller with a metrics endpoint."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        super().__init__(directory, {"metrics.listeners": f"http://{HOST}:{self.metrics_port}"})

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}{path}", timeout=60) as answer:
            return str(answer.read(), "utf-8")

    def values(self) -> dict[str, float]:
        """Return the values of the metrics without labels."""
        families = list(text_string_to_metric_families(self.get("/metrics")))
        return {each.name: each.value for family in families for each in family.samples if not each.labels}


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Watched]:
    with Watched(tmp_path / "controller") as running:
        yield running


def test_controller_has_kafkas_metrics_of_the_cluster(controller: Watched, tmp_path: Path) -> None:
    """They count a broker that serves, and one whose heartbeats have stopped."""
    assert controller.get("/live") == "live\n"
    assert controller.get("/ready") == "ready\n"
    assert f"http://{HOST}:{controller.metrics_port}/metrics" in controller.output
    with MemberBroker(tmp_path / "member", controller.port):
        found = eventually(controller.values, until=lambda values: values[f"{_KAFKA}activebrokercount"] == 1)
        assert found[f"{_KAFKA}activecontrollercount"] == 1
        assert found[f"{_KAFKA}lastcommittedrecordoffset"] <= found[f"{_KAFKA}lastappliedrecordoffset"]
        assert found[f"{_KAFKA}lastappliedrecordtimestamp"] > 0
        assert found["kafka_server_raft_metrics_current_epoch"] == 1
    found = eventually(controller.values, until=lambda values: values[f"{_KAFKA}fencedbrokercount"] == 1)
    assert found[f"{_KAFKA}timedoutbrokerheartbeatcount"] == 1
    missing = {each.name for each in METRICS if each.of_controllers} - found.keys()
    assert missing == set()


def test_controller_has_no_pages_of_brokers(controller: Watched) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        controller.get("/clients")
    assert refused.value.code == 404
    assert refused.value.read() == b"There are /metrics, /live, /ready\n"


def test_taken_port_is_one_line(controller: Watched, tmp_path: Path) -> None:
    config = tmp_path / "second.properties"
    config.write_text(
        "process.roles=controller\nnode.id=101\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://{HOST}:0\nlog.dirs={tmp_path}/second\n"
        f"metrics.listeners=http://{HOST}:{controller.metrics_port}\n"
    )
    done = subprocess.run([sys.executable, "-m", "pybroker", str(config)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("pybroker: ")
    assert str(controller.metrics_port) in done.stderr.splitlines()[-1]
