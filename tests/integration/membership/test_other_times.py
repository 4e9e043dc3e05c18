"""A member whose configuration has other times than the defaults, under a controller of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.fetch import FETCH
from protocol.schema import Struct
from tests.integration.membership.fake_controller import FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


def test_stop_without_a_controlled_shutdown(controller: FakeController, tmp_path: Path) -> None:
    """The controllers notice that its session ends."""
    with MemberBroker(tmp_path, controller.port, {"controlled.shutdown.enable": "false"}) as member:
        assert member.stop() == 0
    assert not any(each.want_shut_down for each in controller.named(BROKER_HEARTBEAT))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("controller.socket.timeout.ms", DESCRIBE_CLUSTER.name),
        ("controller.quorum.request.timeout.ms", FETCH.name),
    ],
)
def test_controller_that_is_silent_is_asked_again(
    controller: FakeController, tmp_path: Path, key: str, name: str
) -> None:
    """After the time of the key, which is shorter here than by default."""
    asked_at_s: list[float] = []
    asked_again = threading.Event()

    def hold_the_first(asked: str, answer: Struct) -> Struct:
        if asked == name:
            asked_at_s.append(time.monotonic())
            if len(asked_at_s) > 1:
                asked_again.set()
            asked_again.wait(10)
        return answer

    controller.distort = hold_the_first
    with MemberBroker(tmp_path, controller.port, {key: "600"}):
        # The lower bound is less than the time of the key: a loaded machine may note the first request late.
        assert 0.2 <= asked_at_s[1] - asked_at_s[0] < 1.9
