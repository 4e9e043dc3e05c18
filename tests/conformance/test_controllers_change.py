"""A member of a cluster of three controllers, one of which is killed, or frozen."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.membership.kafka_nodes import QUIET, Voter, voters_of
from tests.integration.membership.member_broker import MemberBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.full_size  # three controllers of Apache Kafka

_IDS = (101, 102, 103)


class MemberOfVoters(MemberBroker):
    """A member that knows the controllers by controller.quorum.voters."""

    def _own_properties(self) -> dict[str, str]:
        own = super()._own_properties()
        del own["controller.quorum.bootstrap.servers"]
        return own


@pytest.fixture(scope="module")
def voters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Voter]]:
    ports = {node_id: free_port() for node_id in _IDS}
    homes = {node_id: tmp_path_factory.mktemp("voter") for node_id in _IDS}
    with ThreadPoolExecutor() as pool:
        started = pool.map(lambda each: Voter(homes[each], each, ports), _IDS)
        controllers = dict(zip(_IDS, started, strict=True))
    yield controllers
    for each in controllers.values():
        each.kill()


@pytest.fixture(scope="module")
def member(voters: dict[int, Voter], tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberBroker]:
    named = voters_of({node_id: each.port for node_id, each in voters.items()})
    with MemberOfVoters(tmp_path_factory.mktemp("member"), 0, {"controller.quorum.voters": named}) as member:
        yield member


def create(member: MemberBroker) -> None:
    """Create a topic, and wait until the member knows it."""
    admin, name = AdminClient({**QUIET, "bootstrap.servers": member.bootstrap}), uuid.uuid4().hex
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    eventually(lambda: name in admin.list_topics(timeout=10).topics)


def leader(member: MemberBroker) -> int:
    """Return the controller that the member has followed last."""
    lines = [line for line in member.output.splitlines() if "leads the metadata log" in line]
    return int(lines[-1].partition("Controller ")[2].split()[0])


def test_killed_controller(member: MemberBroker, voters: dict[int, Voter]) -> None:
    create(member)
    first = leader(member)
    voters[first].kill()
    create(member)
    assert leader(member) != first
    voters[first].start()
    assert "The controller has fenced this broker" not in member.output


def test_frozen_controller(member: MemberBroker, voters: dict[int, Voter]) -> None:
    """Its connections stay open, and it does not answer. Then it comes back, and leads no more."""
    create(member)
    first = leader(member)
    os.kill(voters[first].pid, signal.SIGSTOP)
    try:
        create(member)
        assert leader(member) != first
    finally:
        os.kill(voters[first].pid, signal.SIGCONT)
    create(member)


def test_member_writes_down_who_leads(member: MemberBroker, voters: dict[int, Voter]) -> None:
    """As the voters do, with their ids, which the log does not have (kraft.version 0)."""

    def written(directory: Path) -> list[object]:
        (path,) = directory.glob("*/__cluster_metadata-0/quorum-state")
        state = json.loads(path.read_bytes())
        voter_ids = sorted(each["voterId"] for each in state["currentVoters"])
        return [voter_ids, *(state[each] for each in ("leaderId", "leaderEpoch", "data_version"))]

    leading = voters[leader(member)]
    eventually(lambda: written(member.directory) == written(leading.directory))
