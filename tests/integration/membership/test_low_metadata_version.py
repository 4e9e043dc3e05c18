"""A member of a cluster with a metadata.version from before 3.7, whose controllers know no log directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata.features import DIRECTORIES_LEVEL, METADATA_VERSION, MIN_METADATA_VERSION
from metadata.framing import new_record
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import FeatureLevelRecord
from tests.integration.membership.fake_controller import FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.integration.membership.test_refused_members import refused
from tests.support.brokers import CLUSTER_ID
from tests.support.eventually import eventually


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID, {METADATA_VERSION: MIN_METADATA_VERSION}) as controller:
        yield controller


def test_start_with_the_configured_id(controller: FakeController, tmp_path: Path) -> None:
    """The controllers do not report the cluster's id. A restart takes it from the directory."""
    with MemberBroker(tmp_path, controller.port, {"pybroker.cluster.id": CLUSTER_ID}) as member:
        member.stop()
    with MemberBroker(tmp_path, controller.port):
        assert not controller.image.brokers[1].fenced


def test_start_without_an_id(controller: FakeController, tmp_path: Path) -> None:
    assert "set pybroker.cluster.id to it" in refused(tmp_path, controller.port)
    assert not (tmp_path / "logs" / "meta.properties").exists()


def test_several_directories(controller: FakeController, tmp_path: Path) -> None:
    """As in Apache Kafka: the controllers could not replace the replicas of a directory that fails."""
    directories = f"{tmp_path}/logs,{tmp_path}/more"
    line = refused(tmp_path, controller.port, pybroker_cluster_id=CLUSTER_ID, log_dirs=directories)
    assert "They need metadata.version 3.7-IV2 or higher" in line


def test_directories_are_registered_later(controller: FakeController, tmp_path: Path) -> None:
    """Once the controllers keep them, the member registers again. Its epoch stays."""
    with MemberBroker(tmp_path, controller.port, {"pybroker.cluster.id": CLUSTER_ID}):
        before = controller.image.brokers[1]
        assert before.log_directories == ()
        level = DIRECTORIES_LEVEL
        controller.write([new_record(level, FeatureLevelRecord, name=METADATA_VERSION, feature_level=level)])
        eventually(lambda: len(controller.image.brokers[1].log_directories), equal_to=1)
        after = controller.image.brokers[1]
        assert (after.broker_epoch, after.incarnation_id) == (before.broker_epoch, before.incarnation_id)
    names = [name for name, _ in controller.requests]
    assert names.count(BROKER_REGISTRATION.name) == 2
