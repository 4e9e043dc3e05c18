"""The metadata observer: what the log says while no controller is active."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.membership.controllers import CHECK_CONTROLLERS
from broker.membership.metadata_observer import MetadataObserver
from metadata.image import MetadataImage
from protocol.messages.fetch import FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData
from replication.observing import Observer
from runtime.outage_log import OutageLog
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.unit.broker.membership.channels import CONTROLLER, MemoryChannel
from tests.unit.replication.test_observing import Log

LEADER, EPOCH = 100, 3


class Applied:
    """A member's metadata, which nothing changes."""

    image = MetadataImage()
    is_current = False
    last_offset = -1

    def advance(self, high_watermark: int) -> None:
        """Apply nothing."""


class Stage:
    """An observer, and the controller that answers it."""

    def __init__(self) -> None:
        self.loop, self.channel = FakeLoop(), MemoryChannel()
        metadata: Any = Applied()
        log: Any = Log()
        clock = self.loop.clock
        MetadataObserver(
            Observer(1, None, bytes(16), [CONTROLLER], log),
            metadata,
            self.channel,
            clock,
            Timers(self.loop, clock),
            lambda: None,
            pytest.fail,
            OutageLog(logging.getLogger("test"), "Requests", clock.monotonic_ms),
        ).start()

    def answer(self, leader: int, epoch: int) -> None:
        """Answer the request in flight: this controller leads, or nobody does."""
        current = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        topic = FetchableTopicResponse(partitions=[PartitionData(partition_index=0, current_leader=current)])
        endpoints = [NodeEndpoint(node_id=LEADER, host=CONTROLLER.host, port=CONTROLLER.port)]
        self.channel.answer(responses=[topic], node_endpoints=endpoints)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("is_reachable", [True, False])
def test_minutes_without_an_active_controller_are_few_lines(
    stage: Stage, is_reachable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The requests fail, or the controllers answer that nobody leads."""
    caplog.set_level(logging.INFO, "test")
    stage.answer(LEADER, EPOCH)
    assert caplog.messages == []
    stage.channel.lose()
    for _ in range(100):
        stage.loop.advance(1000)
        if is_reachable:
            stage.answer(-1, EPOCH + 1)
        else:
            stage.channel.lose()
    stage.loop.advance(1000)
    stage.answer(LEADER, EPOCH + 2)
    first, *repeated, last = caplog.messages
    assert first == f"Requests fail: metadata: controller:9093: lost. They are retried. {CHECK_CONTROLLERS}"
    reason = "controller: no active controller is known" if is_reachable else "controller:9093: lost"
    assert len(repeated) == 3
    assert all(
        each.endswith(f"failures): metadata: {reason}. They are retried. {CHECK_CONTROLLERS}") for each in repeated
    )
    assert last == "Requests succeed again after 101.0 s"
