"""The Helm chart docker/chart, by its manifests with the default values: tests/data/chart/default.yaml.

They are what `helm template events docker/chart --namespace data` renders, in any order; kubernetes-validate accepts
them (1.28 to 1.37). Their first line has the digest of the chart's files, so that a change of the chart without new
manifests is noticed where there is no Helm.
"""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import load
from tests.support.image_entrypoint import DOCKER, entrypoint

CHART = DOCKER / "chart"
MANIFESTS = DOCKER.parent / "tests/data/chart/default.yaml"
SETS = {
    each["metadata"]["name"]: each
    for each in yaml.safe_load_all(MANIFESTS.read_text())
    if each["kind"] == "StatefulSet"
}
#: What Kubernetes puts in the place of references.
POD = {"metadata.name": "events-broker-2", "metadata.labels['apps.kubernetes.io/pod-index']": "2"}


def by_name(manifests: str) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(manifests) if each}


def digest() -> str:
    files = sorted(each for each in CHART.rglob("*") if each.is_file())
    return sha256(b"".join(each.name.encode() + each.read_bytes() for each in files)).hexdigest()


def environ(name: str) -> dict[str, str]:
    """Return the variables of the containers of a StatefulSet, as its third pod has them."""
    (container,) = pod(name)["containers"]
    found: dict[str, str] = {}
    for each in container["env"]:
        value = each["value"] if "value" in each else POD[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for known, replaced in found.items():
            value = value.replace(f"$({known})", replaced)
        found[each["name"]] = value
    return found


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = SETS[name]["spec"]["template"]["spec"]
    return found


def properties(name: str, tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(entrypoint.configuration(environ(name), tmp_path / "none", DOCKER / "server.properties"))
    return path


def test_manifests_are_those_of_the_chart() -> None:
    assert MANIFESTS.read_text().splitlines()[0] == f"# {digest()}"


@pytest.mark.full_size
@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not on PATH")
def test_helm_renders_the_manifests() -> None:
    command = ["helm", "template", "events", str(CHART), "--namespace", "data"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert by_name(done.stdout) == by_name(MANIFESTS.read_text())


def test_controller_starts_without_a_warning(tmp_path: Path) -> None:
    config = load(str(properties("events-controller", tmp_path)), strict=True, to_serve=True)
    assert (config.warnings, config.is_controller, config.node_id) == ((), True, 100)
    assert config.get_int("default.replication.factor") == 3
    assert SETS["events-controller"]["spec"]["replicas"] == 1


def test_broker_is_a_member_with_the_number_of_its_pod(tmp_path: Path) -> None:
    """It finds the controller where that one says it is, and clients find the broker by the name of its pod."""
    config = load(str(properties("events-broker", tmp_path)), strict=True, to_serve=True)
    assert (config.warnings, config.is_member, config.node_id) == ((), True, 2)
    controller = environ("events-controller")["KAFKA_ADVERTISED_LISTENERS"].removeprefix("CONTROLLER://")
    assert config.get_list("controller.quorum.bootstrap.servers") == (controller,)
    assert [each.host for each in config.advertised_listeners] == ["events-broker-2.events-brokers.data.svc"]


@pytest.mark.parametrize("name", sorted(SETS))
def test_pods_are_as_the_image_needs_them(name: str) -> None:
    """They run as the image's user, are stopped in order, and keep their data."""
    found = pod(name)
    (container,) = found["containers"]
    assert found["securityContext"]["runAsUser"] == 1000
    assert found["securityContext"]["fsGroup"] == 1000
    assert found["enableServiceLinks"] is False
    assert found["terminationGracePeriodSeconds"] > 60
    assert container["readinessProbe"]["exec"]["command"][1:] == ["/opt/pybroker/entrypoint.py", "health"]
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == environ(name)["KAFKA_LOG_DIRS"]
    assert [each["metadata"]["name"] for each in SETS[name]["spec"]["volumeClaimTemplates"]] == [mount["name"]]
