"""A member that cannot join its cluster ends with one line, and leaves its directories as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.formatting import quorum_of
from metadata.features import METADATA_VERSION
from metadata.framing import new_record
from metadata.image import Endpoint
from protocol.error_codes import ErrorCode
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import FeatureLevelRecord
from tests.integration.membership.fake_controller import NODE_ID, FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST, OurBroker
from tests.support.launch import Ended, picture, run_broker
from tests.support.ports import free_port


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


def ended(directory: Path, controller_port: int, **changes: str) -> Ended:
    """Start a member that does not start; wait for its end."""
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
    return run_broker(directory, {key: value for key, value in settings.items() if value})


def refused(directory: Path, controller_port: int, **changes: str) -> str:
    """Start a member that does not start; return the line with the reason."""
    done = ended(directory, controller_port, **changes)
    lines = [line for line in done.stderr.splitlines() if line.startswith("pybroker: ")]
    assert (done.exit_code, len(lines)) == (1, 1), done.stderr
    return lines[0]


def test_other_cluster(controller: FakeController, tmp_path: Path) -> None:
    with MemberBroker(tmp_path, controller.port) as member:
        member.stop()
    before = picture(tmp_path / "logs")
    controller.cluster_id = "another-cluster-id-abc"
    line = refused(tmp_path, controller.port)
    assert f"belongs to cluster {CLUSTER_ID}, but the controllers are of cluster another-cluster-id-abc" in line
    assert picture(tmp_path / "logs") == before


def test_cluster_id_of_the_configuration(controller: FakeController, tmp_path: Path) -> None:
    """As CLUSTER_ID of a container: nothing is written for the wrong cluster."""
    line = refused(tmp_path, controller.port, pybroker_cluster_id="another-cluster-id-abc")
    assert f"pybroker.cluster.id is another-cluster-id-abc, but the controllers are of cluster {CLUSTER_ID}" in line
    assert not (tmp_path / "logs" / "meta.properties").exists()


def test_no_controller(tmp_path: Path) -> None:
    port = free_port()
    line = refused(tmp_path, port)
    assert f"no controller answered for 1500 ms ({HOST}:{port}): " in line
    assert "Connection refused" in line
    assert not (tmp_path / "logs" / "meta.properties").exists()


def test_wait_for_a_controller_is_logged(tmp_path: Path) -> None:
    """Once, with the reason: users see why the start takes so long."""
    port = free_port()
    done = ended(tmp_path, port)
    lines = [line for line in done.stderr.splitlines() if "Waiting up to 1500 ms for a controller" in line]
    assert len(lines) == 1, done.stderr
    assert f"({HOST}:{port}): " in lines[0]
    assert "Connection refused" in lines[0]


def test_no_active_controller(controller: FakeController, tmp_path: Path) -> None:
    controller.is_active = False
    assert "no controller answered for 1500 ms" in refused(tmp_path, controller.port)


@pytest.mark.parametrize("level", [6, 34])
def test_metadata_version_of_another_release(controller: FakeController, tmp_path: Path, level: int) -> None:
    """Older or newer than this broker knows: it registers nowhere, and only the copy of the metadata log grows."""
    with MemberBroker(tmp_path, controller.port) as member:
        member.stop()

    def others() -> dict[str, object]:
        found = picture(tmp_path / "logs")
        return {name: data for name, data in found.items() if not name.startswith("__cluster_metadata-0/")}

    before, registrations = others(), len(controller.named(BROKER_REGISTRATION))
    controller.write([new_record(30, FeatureLevelRecord, name=METADATA_VERSION, feature_level=level)])
    line = refused(tmp_path, controller.port)
    assert f"the cluster is at metadata.version {level}, and this broker knows 7 to 33" in line
    assert others() == before
    assert len(controller.named(BROKER_REGISTRATION)) == registrations


def test_metadata_version_that_a_running_member_does_not_know(controller: FakeController, tmp_path: Path) -> None:
    """Controllers refuse it while such a broker is registered. It ends, with one line."""
    with MemberBroker(tmp_path, controller.port) as member:
        controller.write([new_record(30, FeatureLevelRecord, name=METADATA_VERSION, feature_level=34)])
        assert member.wait() != 0
        assert member.output.count("the cluster is at metadata.version 34, and this broker knows 7 to 33") == 1


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


@pytest.mark.parametrize("refusal", ["registration", "voter"])
def test_corrected_configuration_has_the_same_directory(
    controller: FakeController, tmp_path: Path, refusal: str
) -> None:
    """A first start that was refused has left nothing of its node id."""
    if refusal == "registration":
        controller.refusals = [ErrorCode.INVALID_REGISTRATION]
    else:
        controller.static_voters = (NODE_ID, 1)
    refused(tmp_path, controller.port)
    assert picture(tmp_path / "logs").keys() <= {".", ".lock"}
    with MemberBroker(tmp_path, controller.port, {"node.id": "7"}):
        assert "node.id=7\n" in (tmp_path / "logs" / "meta.properties").read_text()


def test_voter_of_the_quorum(controller: FakeController, tmp_path: Path) -> None:
    """Its fetches would count as those of the voter."""
    controller.write_voters(quorum_of(1, bytes(16), [Endpoint("CONTROLLER", HOST, 9093, 0)]))
    assert "node.id 1 is a voter of the controllers' quorum, but process.roles is broker" in refused(
        tmp_path, controller.port
    )


def test_voter_that_only_the_controllers_configuration_names(controller: FakeController, tmp_path: Path) -> None:
    """controller.quorum.voters, without voters in the metadata log."""
    controller.static_voters = (NODE_ID, 1)
    assert "node.id 1 is a voter of the controllers' quorum, but process.roles is broker" in refused(
        tmp_path, controller.port
    )


def test_node_id_of_the_active_controller(controller: FakeController, tmp_path: Path) -> None:
    line = refused(tmp_path, controller.port, node_id=str(NODE_ID))
    assert f"a controller has node.id {NODE_ID}. Choose another node.id" in line


def test_credentials_for_the_controllers_are_missing(controller: FakeController, tmp_path: Path) -> None:
    line = refused(
        tmp_path,
        controller.port,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        sasl_mechanism_controller_protocol="PLAIN",
    )
    assert "listener.name.controller.plain.sasl.jaas.config" in line


def test_controllers_speak_another_security_protocol(controller: FakeController, tmp_path: Path) -> None:
    """The controllers' listener is plaintext, and this broker tries TLS."""
    line = refused(
        tmp_path,
        controller.port,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
    )
    assert f"no controller answered for 1500 ms ({HOST}:{controller.port}): " in line
    assert "Check that they run, and that SSL is the protocol of their listener CONTROLLER" in line


def test_start_that_fails_before_all_parts_exist(controller: FakeController, tmp_path: Path) -> None:
    """The selector is found unusable once the cluster is known."""
    line = refused(tmp_path, controller.port, replica_selector_class="com.example.Selector")
    assert "com.example.Selector: classes are not supported" in line


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controller_quorum_bootstrap_servers": ""}, "set controller.quorum.bootstrap.servers to the addresses"),
        ({"controller_listener_names": ""}, "controller.listener.names must contain at least one value"),
        ({"controller_quorum_voters": f"1@{HOST}:9"}, "the node id 1 must not be included in the set of voters"),
        ({"listeners": f"PLAINTEXT://{HOST}:0,CONTROLLER://{HOST}:0"}, "must not contain a value appearing in"),
        ({"process_roles": "controller"}, "must only contain values appearing in the 'listeners'"),
    ],
)
def test_configuration_of_no_member(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    """One line with key and reason; nothing is written."""
    done = ended(tmp_path, 9, **changes)
    problems = [line for line in done.stderr.splitlines() if reason in line]
    assert (done.exit_code, len(problems)) == (2, 1), done.stderr
    assert not (tmp_path / "logs").exists()


def test_directories_of_another_node(controller: FakeController, tmp_path: Path) -> None:
    with MemberBroker(tmp_path, controller.port) as member:
        member.stop()
    before = picture(tmp_path / "logs")
    line = refused(tmp_path, controller.port, node_id="7")
    assert "node.id" in line
    assert str(tmp_path / "logs") in line
    assert picture(tmp_path / "logs") == before


def test_directory_of_a_single_node(controller: FakeController, tmp_path: Path) -> None:
    """A directory of a cluster of its own: its records stay as they are."""
    with OurBroker(tmp_path) as single:
        single.stop()
    before = picture(tmp_path / "logs")
    assert "but the controllers are of cluster" in refused(tmp_path, controller.port)
    assert picture(tmp_path / "logs") == before
