"""The file quorum-state of a member: written as an observer of Apache Kafka 4.4 writes it, and read at a start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.formatting import quorum_of
from metadata.image import Endpoint
from protocol.messages.fetch import FETCH
from tests.integration.membership.fake_controller import NODE_ID, FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.eventually import eventually


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


def state_file(directory: Path) -> Path:
    return directory / "logs" / "__cluster_metadata-0" / "quorum-state"


def member(directory: Path, controller: FakeController) -> MemberBroker:
    """Start a member that knows the voters by its configuration."""
    voters = f"{NODE_ID}@{HOST}:{controller.port},101@{HOST}:9"
    return MemberBroker(directory, controller.port, {"controller.quorum.voters": voters})


def first_epoch(controller: FakeController, before: int) -> int:
    """Return the leader epoch of the first fetch after so many."""
    epoch: int = controller.named(FETCH)[before].topics[0].partitions[0].current_leader_epoch
    return epoch


def test_voters_of_the_configuration(controller: FakeController, tmp_path: Path) -> None:
    """kraft.version 0, as recorded of Apache Kafka 4.4; a restart begins with the epoch in the file."""
    with member(tmp_path, controller) as running:
        assert state_file(tmp_path).read_text() == (
            '{"clusterId":"","leaderId":100,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":100},{"voterId":101}],"data_version":0}'
        )
        controller.forget_from(controller.end_offset)  # an election
        eventually(lambda: '"leaderEpoch":2' in state_file(tmp_path).read_text())
        running.stop()
    before = len(controller.named(FETCH))
    with member(tmp_path, controller):
        assert first_epoch(controller, before) == 2


def test_voters_of_the_log(controller: FakeController, tmp_path: Path) -> None:
    """kraft.version 1."""
    controller.write_voters(quorum_of(NODE_ID, bytes(16), [Endpoint("CONTROLLER", HOST, controller.port, 0)]))
    with MemberBroker(tmp_path, controller.port):
        assert state_file(tmp_path).read_text() == (
            '{"leaderId":100,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
        )


def test_damaged_file(controller: FakeController, tmp_path: Path) -> None:
    """The log has the epoch of its last record, and the file is written again."""
    with member(tmp_path, controller) as running:
        running.stop()
    written = state_file(tmp_path).read_bytes()
    state_file(tmp_path).write_text("{")
    before = len(controller.named(FETCH))
    with member(tmp_path, controller) as again:
        assert first_epoch(controller, before) == 1
        assert state_file(tmp_path).read_bytes() == written
        assert "The leader epoch is taken from the metadata log" in again.output
