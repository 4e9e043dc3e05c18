"""The configuration of the network: from keys to attributes of `Server`, at the start and on every change."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.network.connection_limits import CreationRate
from broker.network.listener import CannotBind, Listener, bind
from broker.network.server import Server

log = logging.getLogger(__name__)

_LIVE = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
    "connections.max.idle.ms",
)
# Where socket.listen.backlog.size is not set. Kafka's default of 50 makes a burst of clients wait for seconds: each
# connection that does not fit is tried again by its client's kernel a second later.
_BACKLOG = 1024


def bind_listeners(config: BrokerConfig, clock: Clock) -> list[Listener]:
    """Take the ports of all listeners, without letting anybody in yet. Raises CannotBind."""
    listeners: list[Listener] = []
    try:
        for each in config.listeners:
            if each.security_protocol != "PLAINTEXT":
                raise CannotBind(f"{each.name}: listeners of {each.security_protocol} are not served yet")
            sockets = bind(each.host, each.port, config.get_int("socket.receive.buffer.bytes"))
            rate = CreationRate(config.get_int("max.connection.creation.rate"), clock.monotonic_ms)
            listeners.append(Listener(each.name, each.security_protocol, sockets, rate))
    except CannotBind:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def configure(server: Server, config: BrokerConfig, listeners: Iterable[Listener]) -> None:
    """Set what the configuration says, and keep what may change up to date."""
    listeners = list(listeners)
    server.max_request_bytes = config.get_int("socket.request.max.bytes")
    server.max_held_bytes = config.get_int("queued.max.request.bytes")
    server.max_queued_requests = config.get_int("queued.max.requests")
    server.send_buffer_bytes = config.get_int("socket.send.buffer.bytes")
    backlog_key = "socket.listen.backlog.size"
    server.backlog = config.get_int(backlog_key) if config.is_set(backlog_key) else _BACKLOG
    if len(listeners) > 1:
        server.limits.protected_listener = config.inter_broker_listener_name

    def refresh(config: BrokerConfig) -> None:
        limits = server.limits
        limits.max_connections = config.get_int("max.connections")
        limits.max_connections_per_ip = config.get_int("max.connections.per.ip")
        limits.max_connections_per_ip_overrides = _by_address(config.get_str("max.connections.per.ip.overrides") or "")
        for listener in listeners:
            listener.rate.per_second = config.get_int("max.connection.creation.rate")
            listener.resume()
        server.max_idle_ms = config.get_int("connections.max.idle.ms")
        server.schedule_idle_sweep()

    refresh(config)
    config.subscribe(_LIVE, refresh)


def _by_address(text: str) -> dict[str, int]:
    """ "host:count,host:count" by numeric address: names are resolved once, as Kafka does."""
    limits: dict[str, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            found = socket.getaddrinfo(host.strip().strip("[]"), None, type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("max.connections.per.ip.overrides: %s is not found: %s", host, error.strerror)
            continue
        limits.update((str(address[0]), int(count)) for *_, address in found)
    return limits
