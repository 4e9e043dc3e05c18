"""Every key of the network's configuration has an effect."""

import socket

import pytest

from broker.network import settings
from broker.network.connection_limits import UNLIMITED
from broker.network.listener import CannotBind
from broker.network.settings import bind_listeners, configure
from config import load
from tests.support.fake_loop import FakeClock
from tests.support.network import Link

ANY = "PLAINTEXT://127.0.0.1:0"
TWO = {
    "listeners": f"{ANY},INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def configured(**settings):
    """Return (server, listeners, configuration) with these keys set."""
    config = load(overrides={"listeners": ANY, **settings})
    server = Link({}).server
    listeners = bind_listeners(config, FakeClock())
    configure(server, config, listeners)
    for listener in listeners:
        listener.close()
    return server, listeners, config


@pytest.mark.parametrize(
    ("key", "value", "attribute", "default"),
    [
        ("socket.request.max.bytes", 1_000_000_000, "max_request_bytes", 104_857_600),
        ("queued.max.requests", 7, "max_queued_requests", 500),
        ("socket.send.buffer.bytes", 65_536, "send_buffer_bytes", 102_400),
        ("socket.listen.backlog.size", 17, "backlog", 1024),
        ("connections.max.idle.ms", 1234, "max_idle_ms", 600_000),
    ],
)
def test_keys_of_the_server_have_kafkas_defaults(key, value, attribute, default):
    """Except for the backlog: Kafka's 50 are too few for a burst."""
    assert getattr(configured()[0], attribute) == default
    assert getattr(configured(**{key: str(value)})[0], attribute) == value


def test_configured_send_buffer_is_not_adapted():
    """A configured size stays, even if it is the default or the client's window is small."""
    assert configured()[0].widens_send_buffers
    assert not configured(**{"socket.send.buffer.bytes": "102400"})[0].widens_send_buffers


@pytest.mark.parametrize(
    ("keys", "limit_bytes"),
    [
        ({}, 2_000_000_000),
        ({"socket.request.max.bytes": "2000000001"}, 2_000_000_001),
        ({"queued.max.request.bytes": "123456789"}, 123_456_789),
        ({"queued.max.request.bytes": "-1"}, -1),
    ],
)
def test_queued_max_request_bytes_has_a_limit_by_memory(monkeypatch, keys, limit_bytes):
    """By default a quarter of the memory, but at least one request of maximal size."""
    monkeypatch.setattr(settings, "memory_bytes", lambda: 8_000_000_000)

    assert configured(**keys)[0].memory.limit_bytes == limit_bytes


def test_receive_buffer_is_set_on_the_listening_socket():
    """Connections inherit it (the kernel doubles it)."""
    config = load(overrides={"listeners": ANY, "socket.receive.buffer.bytes": "20000"})
    (listener,) = bind_listeners(config, FakeClock())
    size = listener._sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    listener.close()

    assert size == 40_000


def test_kernel_sizes_receive_buffers_by_default(monkeypatch):
    """With a fixed size, requests of 1 MB arrive in eight pieces."""
    sizes = []
    monkeypatch.setattr(settings, "bind", lambda host, port, size: sizes.append(size) or [])
    bind_listeners(load(overrides={"listeners": ANY}), FakeClock())

    assert sizes == [-1]


def test_connection_limits_of_broker_and_listener():
    """A prefixed key limits its listener in addition to the broker's limit (KIP-402, KIP-612)."""
    server, listeners, _ = configured(
        **TWO,
        **{
            "max.connections": "10",
            "max.connections.per.ip": "5",
            "max.connections.per.ip.overrides": "127.0.0.9:3,no..name:7,[::1]:4",
            "max.connection.creation.rate": "100",
            "listener.name.internal.max.connections": "2",
            "listener.name.internal.max.connection.creation.rate": "20",
        },
    )
    limits = server.limits
    assert (limits.max_connections, limits.max_connections_per_ip) == (10, 5)
    assert limits.max_connections_per_ip_overrides == {"127.0.0.9": 3, "::1": 4}
    assert limits.max_connections_of_listener == {"PLAINTEXT": UNLIMITED, "INTERNAL": 2}
    assert limits.protected_listener == "INTERNAL"
    assert [[rate.per_second for rate in each.rates] for each in listeners] == [[UNLIMITED, 100], [20, 100]]
    assert listeners[0].rates[1] is listeners[1].rates[1]


def test_single_listener_is_not_protected():
    """No other listener has connections to close instead."""
    assert configured()[0].limits.protected_listener is None


def test_live_changes_reach_the_server():
    """Connection limits are cluster-wide dynamic keys (KIP-402)."""
    server, listeners, config = configured()
    config.apply_dynamic({"max.connections": "3", "max.connection.creation.rate": "9"}, {})
    assert server.limits.max_connections == 3
    assert listeners[0].rates[1].per_second == 9

    config.apply_dynamic({}, {})
    assert server.limits.max_connections == UNLIMITED


def test_port_in_use_frees_the_other_ports():
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        taken = other.getsockname()[1]
        listeners = f"PLAINTEXT://127.0.0.1:{free},INTERNAL://127.0.0.1:{taken}"
        with pytest.raises(CannotBind):
            bind_listeners(load(overrides={**TWO, "listeners": listeners}), FakeClock())
        socket.create_server(("127.0.0.1", free)).close()
