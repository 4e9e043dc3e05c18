"""A member's registration and heartbeats, and what the log says of those that fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.membership.controllers import CHECK_CONTROLLERS
from broker.membership.lifecycle import MemberLifecycle
from metadata.features import DIRECTORIES_LEVEL, METADATA_VERSION
from protocol.error_codes import ErrorCode
from replication.lifecycle import BrokerLifecycle, LifecycleTimes
from runtime.outage_log import OutageLog
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.support.images import cluster
from tests.unit.broker.membership.channels import CONTROLLER, MemoryChannel
from tests.unit.replication.test_lifecycle import IDENTITY


class Applied:
    """A member's metadata: its registration has no log directories."""

    def __init__(self) -> None:
        self.last_offset = 7
        self.image = cluster(brokers=IDENTITY.node_id, log_directories=())


def outage_of(loop: FakeLoop) -> OutageLog:
    return OutageLog(logging.getLogger("test"), "Requests", loop.clock.monotonic_ms)


@pytest.mark.parametrize("level", [DIRECTORIES_LEVEL - 1, DIRECTORIES_LEVEL])
def test_registers_again_once_directories_are_kept(level: int, caplog: pytest.LogCaptureFixture) -> None:
    loop, channel, applied = FakeLoop(), MemoryChannel(), Applied()
    life = MemberLifecycle(
        BrokerLifecycle(IDENTITY, LifecycleTimes(), loop.clock.monotonic_ms()),
        channel,  # type: ignore[arg-type]
        lambda: CONTROLLER,
        loop.clock,
        Timers(loop, loop.clock),
        lambda: None,
        pytest.fail,
        outage_of(loop),
    )
    metadata: Any = applied
    life.start()
    channel.answer(broker_epoch=55)
    applied.image.features[METADATA_VERSION] = level
    life.note_applied(metadata)  # while a heartbeat is in flight
    channel.answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert "heartbeat: another process with node.id" in caplog.text
    assert CHECK_CONTROLLERS not in caplog.text
    loop.advance(1000)
    first, heartbeat, last = channel.requests
    assert heartbeat.current_metadata_offset == -1
    assert (last == first) == (level == DIRECTORIES_LEVEL)


def test_a_controller_that_is_back_gets_a_heartbeat_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The metadata log has found it again: its sessions of brokers have just begun."""
    caplog.set_level(logging.INFO, "test")
    loop, channel, applied = FakeLoop(), MemoryChannel(), Applied()
    leaders: list[Any] = [CONTROLLER]
    life = MemberLifecycle(
        BrokerLifecycle(IDENTITY, LifecycleTimes(), loop.clock.monotonic_ms()),
        channel,  # type: ignore[arg-type]
        lambda: leaders[0],
        loop.clock,
        Timers(loop, loop.clock),
        lambda: None,
        pytest.fail,
        outage_of(loop),
    )
    metadata: Any = applied
    life.start()
    channel.answer(broker_epoch=55)
    leaders[0] = None
    life.note_applied(metadata)
    channel.lose()
    for _ in range(100):
        loop.advance(1000)  # tries fail, with growing waits
    sent = len(channel.requests)
    life.note_applied(metadata)
    assert len(channel.requests) == sent
    leaders[0] = CONTROLLER
    life.note_applied(metadata)
    life.note_applied(metadata)
    assert len(channel.requests) == sent + 1
    channel.answer()
    lines = [each.getMessage() for each in caplog.records if each.name == "test"]
    assert lines[0].startswith("Requests fail: heartbeat: ")
    assert "have failed for " in lines[1]
    assert lines[-1].startswith("Requests succeed again after ")
    assert len(lines) == 5  # 100 seconds
