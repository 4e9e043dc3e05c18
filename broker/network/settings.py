"""Apply the configuration of the network to `Server`, at the start and on every change."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.network.connection_limits import UNLIMITED, CreationRate
from broker.network.listener import CannotBind, Listener, bind
from broker.network.server import Server
from broker.process.loopback import localhost_addresses
from broker.process.machine_memory import memory_bytes
from config import BrokerConfig
from config import Listener as ConfiguredListener
from runtime.clock import Clock


class InheritedListener(Protocol):
    """A listener whose sockets this process has inherited."""

    @property
    def name(self) -> str:
        """The listener's name, as configured."""

    @property
    def security_protocol(self) -> str:
        """Its security protocol, as configured."""

    @property
    def handles(self) -> Iterable[int]:
        """The file descriptors of its sockets."""


log = logging.getLogger(__name__)

_MAX_CONNECTIONS = "max.connections"
_CREATION_RATE = "max.connection.creation.rate"
_LIVE = (
    _MAX_CONNECTIONS,
    _CREATION_RATE,
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "connections.max.idle.ms",
)
# The default of socket.listen.backlog.size. Kafka's default of 50 makes a burst of clients wait for seconds: each
# connection that does not fit is retried by its client's kernel a second later.
_BACKLOG = 1024
# The default of socket.receive.buffer.bytes: the system sizes each connection's buffer by its traffic.
# With Kafka's 100 KiB a request of 1 MB takes eight reads, and as many turns of the loop.
_RECEIVE_BUFFER_BYTES = -1
# The default of queued.max.request.bytes: this part of the memory. Kafka has no limit then: each connection may hold
# a request of socket.request.max.bytes.
_MEMORY_PART = 4


def bind_listeners(
    config: BrokerConfig, clock: Clock, configured: Iterable[ConfiguredListener] | None = None
) -> list[Listener]:
    """Bind the ports of all listeners, or of those `configured`, without accepting clients yet. Raises CannotBind."""
    listeners: list[Listener] = []
    rate_of_all = CreationRate(UNLIMITED, clock.monotonic_ms)
    localhost_addresses()  # cached for later requests whose answers name the broker
    try:
        for each in config.listeners if configured is None else configured:
            receive_buffer_bytes = _or(_RECEIVE_BUFFER_BYTES, config, "socket.receive.buffer.bytes")
            sockets = bind(each.host, each.port, receive_buffer_bytes)
            rates = (CreationRate(UNLIMITED, clock.monotonic_ms), rate_of_all)
            listeners.append(Listener(each.name, each.security_protocol, sockets, rates))
    except CannotBind:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def configure(server: Server, config: BrokerConfig, listeners: Sequence[Listener]) -> None:
    """Apply the configuration, and follow changes of dynamic keys."""
    server.max_request_bytes = config.get_int("socket.request.max.bytes")
    server.memory.limit_bytes = _request_memory(config)
    server.max_queued_requests = config.get_int("queued.max.requests")
    server.send_buffer_bytes = config.get_int("socket.send.buffer.bytes")
    server.widens_send_buffers = not config.is_set("socket.send.buffer.bytes")
    server.backlog = _or(_BACKLOG, config, "socket.listen.backlog.size")
    if len(listeners) > 1:
        server.limits.protected_listener = config.inter_broker_listener_name

    def refresh(config: BrokerConfig) -> None:
        limits = server.limits
        limits.max_connections = config.get_int(_MAX_CONNECTIONS)
        limits.max_connections_per_ip = config.get_int("max.connections.per.ip")
        limits.max_connections_per_ip_overrides = _by_address(config.get_str("max.connections.per.ip.overrides") or "")
        limits.max_connections_of_listener = {
            listener.name: _of_listener(config, listener, _MAX_CONNECTIONS) for listener in listeners
        }
        for listener in listeners:
            of_listener, of_all = listener.rates
            of_listener.per_second = _of_listener(config, listener, _CREATION_RATE)
            of_all.per_second = config.get_int(_CREATION_RATE)
            listener.resume()
        server.max_idle_ms = config.get_int("connections.max.idle.ms")
        server.schedule_idle_sweep()

    refresh(config)
    config.subscribe(_LIVE, refresh)


def _or(unset: int, config: BrokerConfig, key: str) -> int:
    """Return the value of a key, or another default than Kafka's if it is not set."""
    return config.get_int(key) if config.is_set(key) else unset


def _request_memory(config: BrokerConfig) -> int:
    """Return the bytes that requests may hold; negative for no limit. Workers share the machine's memory."""
    key = "queued.max.request.bytes"
    if config.is_set(key):
        return config.get_int(key)
    return max(memory_bytes() // _MEMORY_PART, config.get_int("socket.request.max.bytes"))


def _of_listener(config: BrokerConfig, listener: Listener, key: str) -> int:
    """Return a listener's own limit; the broker's limit applies, too (KIP-402)."""
    if f"listener.name.{listener.name.lower()}.{key}" not in config.originals():
        return UNLIMITED
    value = config.get_for_listener(listener.name, key)
    assert isinstance(value, int)
    return value


def _by_address(text: str) -> dict[str, int]:
    """Parse "host:count,host:count" by numeric address: names are resolved once, as in Kafka."""
    limits: dict[str, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            found = socket.getaddrinfo(host.strip().strip("[]"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError for an invalid host name
            log.warning("max.connections.per.ip.overrides: %s is not found: %s", host, error)
            continue
        limits.update((str(address[0]), int(count)) for *_, address in found)
    return limits
