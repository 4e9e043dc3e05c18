"""A member that cannot join its cluster ends with one line, and leaves its directories as they were."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.formatting import quorum_of
from metadata.image import Endpoint
from protocol.error_codes import ErrorCode
from tests.integration.membership import run_member
from tests.integration.membership.fake_controller import FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.launch import picture
from tests.support.ports import free_port


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


def refused(directory: Path, controller_port: int, **changes: str) -> str:
    """Start a member that does not start; return the line with the reason."""
    settings = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:0",
        "log.dirs": str(directory / "logs"),
        "initial.broker.registration.timeout.ms": "1500",
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    config = directory / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    done = subprocess.run(
        [sys.executable, str(run_member.__file__), str(config)], capture_output=True, text=True, timeout=60
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("pybroker: ")]
    assert (done.returncode, len(lines)) == (1, 1), done.stderr
    return lines[0]


def test_other_cluster(controller: FakeController, tmp_path: Path) -> None:
    with MemberBroker(tmp_path, controller.port) as member:
        member.stop()
    before = picture(tmp_path / "logs")
    controller.cluster_id = "another-cluster-id-abc"
    line = refused(tmp_path, controller.port)
    assert f"belongs to cluster {CLUSTER_ID}, but the controllers are of cluster another-cluster-id-abc" in line
    assert picture(tmp_path / "logs") == before


def test_no_controller(tmp_path: Path) -> None:
    port = free_port()
    line = refused(tmp_path, port)
    assert f"no controller answered for 1500 ms ({HOST}:{port}): " in line
    assert "Connection refused" in line
    assert not (tmp_path / "logs" / "meta.properties").exists()


def test_no_active_controller(controller: FakeController, tmp_path: Path) -> None:
    controller.is_active = False
    assert "no controller answered for 1500 ms" in refused(tmp_path, controller.port)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, "a feature level that this broker does not support"),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "the controller is of another cluster"),
        (ErrorCode.INVALID_REGISTRATION, "found the registration invalid"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "needs CLUSTER_ACTION"),
    ],
)
def test_registration_that_is_never_accepted(
    controller: FakeController, tmp_path: Path, code: ErrorCode, reason: str
) -> None:
    controller.refusals = [code]
    assert reason in refused(tmp_path, controller.port)


def test_node_id_that_another_broker_keeps(controller: FakeController, tmp_path: Path) -> None:
    controller.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 100
    line = refused(tmp_path, controller.port)
    assert "no controller registered this broker for 1500 ms" in line
    assert "another broker with node.id 1 is registered and alive" in line


def test_voter_of_the_quorum(controller: FakeController, tmp_path: Path) -> None:
    """Its fetches would count as those of the voter."""
    controller.write_voters(quorum_of(1, bytes(16), [Endpoint("CONTROLLER", HOST, 9093, 0)]))
    assert "node.id 1 is a voter of the controllers' quorum, but process.roles is broker" in refused(
        tmp_path, controller.port
    )


def test_credentials_for_the_controllers_are_missing(controller: FakeController, tmp_path: Path) -> None:
    line = refused(
        tmp_path,
        controller.port,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        sasl_mechanism_controller_protocol="PLAIN",
    )
    assert "listener.name.controller.plain.sasl.jaas.config" in line
