"""Tiered storage in a cluster: the controller checks topics by its own switch, and a member copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST
from tests.support.data_client import Refused, batch
from tests.support.eventually import eventually, succeeds
from tests.support.tiered_brokers import remote_directory, tiered_properties
from tests.support.tiered_client import EARLIEST_LOCAL, TieredClient, await_remote

_SWITCH = {"remote.log.storage.system.enable": "true"}
_TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "1000", "local.retention.bytes": "1"}


def test_member_copies_what_its_controller_allows(tmp_path: Path) -> None:
    """A controller needs the switch, and no storage. The member reads both tiers."""
    remote = remote_directory(tmp_path / "remote")
    with (
        OwnController(tmp_path / "controller", _SWITCH) as controller,
        MemberBroker(tmp_path / "member", controller.port, tiered_properties(tmp_path / "remote")) as member,
        TieredClient(HOST, member.port) as client,
    ):
        client.create_topic("t", configs=_TOPIC)
        for offset in range(3):
            written = eventually(lambda: client.produce("t", batch(bytes(900))), retried=Refused, until=succeeds)
            assert written == offset
        await_remote(remote, "t", [0, 1])
        eventually(lambda: client.offsets("t", [EARLIEST_LOCAL])[0].split()[0], equal_to="2")
        assert len(client.fetch("t", 0).records) > 900


def test_controller_without_the_switch_refuses(tmp_path: Path) -> None:
    """Also where the member has it, as in Apache Kafka."""
    settings = tiered_properties(tmp_path / "remote")
    with (
        OwnController(tmp_path / "controller") as controller,
        MemberBroker(tmp_path / "member", controller.port, settings) as member,
        TieredClient(HOST, member.port) as client,
        pytest.raises(Refused, match="INVALID_CONFIG: Tiered Storage functionality is disabled"),
    ):
        client.create_topic("t", configs=_TOPIC)
