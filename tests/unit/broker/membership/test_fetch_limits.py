"""The keys of followers and of requests to controllers: their defaults, and where they take effect."""

from __future__ import annotations

from broker.membership.controllers import ControllerClients
from broker.membership.replication import _limits
from broker.network.outbound_client import OutboundOptions
from broker.network.outbound_security import OutboundSecurity
from config import load
from config.keys import BROKER_KEYS


def test_a_follower_fetches_with_the_values_of_the_keys() -> None:
    """S21.14-S21.16."""
    limits = _limits(load())
    assert (limits.max_wait_ms, limits.min_bytes, limits.partition_max_bytes) == (500, 1, 1 << 20)
    assert (limits.max_bytes, limits.backoff_ms) == (10 << 20, 1000)
    defaults = ("replica.socket.timeout.ms", "replica.socket.receive.buffer.bytes", "num.replica.fetchers")
    assert [BROKER_KEYS[name].default for name in defaults] == [30_000, 65_536, 1]
    assert BROKER_KEYS["replica.high.watermark.checkpoint.interval.ms"].default == 5_000


def test_requests_to_controllers_are_bounded() -> None:
    """S23.8: controller.socket.timeout.ms bounds those without a shorter timeout of their own."""
    options = OutboundOptions.from_config(load(), "")
    most_ms = load().get_int("controller.socket.timeout.ms")
    assert most_ms == 30_000
    clients = ControllerClients(None, None, options, OutboundSecurity(), most_ms)  # type: ignore[arg-type]
    assert clients.options("any", None).request_timeout_ms == 30_000
    assert clients.options("any", 60_000).request_timeout_ms == 30_000
    assert clients.options("raft", 2_000).request_timeout_ms == 2_000
    assert clients.options("raft", 2_000).client_id == "raft"
