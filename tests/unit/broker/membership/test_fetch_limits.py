"""The keys of followers and of requests to controllers: their defaults, and where they take effect."""

from __future__ import annotations

from unittest.mock import Mock, patch

import pytest

from broker.membership.replication import MemberReplication, _limits
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_connection import SYSTEM_BUFFER
from broker.network.outbound_security import OutboundSecurity
from config import BrokerConfig, load
from config.keys import BROKER_KEYS
from metadata.image import MetadataImage


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
    most_ms = load().get_int("controller.socket.timeout.ms")
    assert most_ms == 30_000
    clients = OutboundClients(load(), None, None, OutboundSecurity(), None, most_ms)  # type: ignore[arg-type]
    assert clients.options("any").request_timeout_ms == 30_000
    assert clients.options("any", 60_000).request_timeout_ms == 30_000
    assert clients.options("raft", 2_000).request_timeout_ms == 2_000
    assert clients.options("raft", 2_000).client_id == "raft"


def replication_with(**keys: str) -> tuple[MemberReplication, BrokerConfig, Mock]:
    """Return the replication of a member, its configuration, and its peers."""
    config = load(overrides={key.replace("__", "."): value for key, value in keys.items()})
    peers = Mock()
    parts = Mock(config=config, metadata=Mock(image=MetadataImage()))
    return MemberReplication(parts, peers, Mock(), Mock(), Mock(), Mock()), config, peers


@pytest.mark.parametrize(("size", "expected"), [(None, SYSTEM_BUFFER), ("8192", 8192)])
def test_connections_of_followers_have_the_limits_of_the_keys(size: str | None, expected: int) -> None:
    keys = {
        "replica__socket__timeout__ms": "1234",
        **({"replica__socket__receive__buffer__bytes": size} if size else {}),
    }
    replication, config, peers = replication_with(**keys)
    replication.fetchers._connect(2, 0)
    assert peers.client.call_args.args[:4] == (2, f"broker-{config.node_id}-fetcher-0", 1234, expected)


def test_number_of_fetchers_changes_while_the_broker_runs() -> None:
    """As kafka-configs sets it, and removes it again."""
    replication, config, _ = replication_with(num__replica__fetchers="2")
    resized = []
    with patch.object(replication.fetchers, "resize", resized.append):
        config.apply_dynamic({"num.replica.fetchers": "4"}, {})
        config.apply_dynamic({"num.replica.fetchers": "4", "log.cleaner.threads": "2"}, {})
        config.apply_dynamic({}, {})
    assert resized == [4, 2]
