"""Listeners: `listeners`, `advertised.listeners` and related keys, parsed and checked as in Kafka 4.4.

There is one addition. If no advertised listener is set and the listener has no fixed host (it is empty or a wildcard),
the advertised host is None: the address to which the client connected. Kafka would use the machine's name, or reject
0.0.0.0. Controller listeners are checked like others, but not opened.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from .errors import ConfigError, Problem, rule

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: Apache Kafka's pattern: the brackets of an IPv6 address may be missing, also one of them.
_LISTENER = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


#: 0.0.0.0, ::, and 0.0.0.0 as an IPv6 address (::ffff:0.0.0.0).
_UNSPECIFIED = (bytes(4), bytes(16), bytes(10) + b"\xff\xff" + bytes(4))


class Listener(msgspec.Struct, frozen=True):
    """An address to open, or to advertise to clients.

    `host` is without brackets; None is every interface to open, or the address of the connection to advertise. `port` 0
    is any free port to open, or the opened port to advertise.
    """

    name: str
    security_protocol: str
    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"{self.name}://{f'[{host}]' if ':' in host else host}:{self.port}"


def is_wildcard(host: str | None) -> bool:
    """Return whether a host stands for all interfaces: it is empty, 0.0.0.0 or ::, however the address is written."""
    plain = (host or "").partition("%")[0]
    with suppress(OSError):
        return socket.inet_aton(plain) in _UNSPECIFIED
    with suppress(OSError):
        return socket.inet_pton(socket.AF_INET6, plain) in _UNSPECIFIED
    return not host


def parse_protocol_map(entries: Iterable[str]) -> dict[str, str]:
    """Parse `listener.security.protocol.map`.

    Return upper-case listener name -> security protocol. Raises ConfigError.
    """
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in entries:
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ConfigError(Problem(key, entry, "not a pair", "LISTENER_NAME:PROTOCOL, separated by commas"))
        if protocol.upper() not in SECURITY_PROTOCOLS:
            sentence = f"Invalid security protocol `{protocol}` defined in {key}"
            raise ConfigError(Problem(key, entry, sentence, ", ".join(SECURITY_PROTOCOLS), sentence=sentence))
        if name.upper() in protocols:
            raise ConfigError(Problem(key, entry, f"listener {name.upper()} is duplicate", "each listener once"))
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    key: str, entries: Iterable[str], protocols: dict[str, str], unique_ports: bool
) -> tuple[Listener, ...]:
    """Return the listeners of one key. Raises ConfigError for syntax errors and for duplicate names or ports."""
    entries = tuple(entries)
    problems: list[Problem] = []
    listeners: tuple[Listener, ...] = ()
    for entry in entries:
        try:
            listeners += (_listener(key, entry, protocols),)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(Problem(key, ",".join(entries), "Each listener must have a different name"))
    if unique_ports:
        for port in {listener.port for listener in listeners} - {0}:
            _check_hosts_of_port(key, [listener for listener in listeners if listener.port == port])
    return listeners


def _listener(key: str, entry: str, protocols: dict[str, str]) -> Listener:
    match = _LISTENER.fullmatch(entry)
    if match is None:
        raise ConfigError(Problem(key, entry, "not a listener", "NAME://host:port, an IPv6 host in brackets"))
    name, port = match[1].upper(), int(match[3])
    if not 0 <= port <= 65535:
        raise ConfigError(Problem(key, entry, f"port {port} does not exist", "0 to 65535; 0 is any free port"))
    if name not in protocols:
        allowed = ", ".join(protocols) + "; or name it in listener.security.protocol.map"
        raise ConfigError(Problem(key, entry, f"No security protocol defined for listener {name}", allowed))
    return Listener(name, protocols[name], match[2] or None, port)


def _check_hosts_of_port(key: str, listeners: list[Listener]) -> None:
    """Allow two listeners to share a port if one has an IPv4 address and the other an IPv6 address (KIP-797)."""
    if len(listeners) == 1:
        return
    if len(listeners) == 2 and {_ip_version(listener.host) for listener in listeners} == {4, 6}:
        return
    value = ",".join(str(listener) for listener in listeners)
    reason = "Each listener must have a different port"
    raise ConfigError(Problem(key, value, reason, "the same port only for one IPv4 and one IPv6 address"))


def _ip_version(host: str | None) -> int | None:
    for version, family in ((4, socket.AF_INET), (6, socket.AF_INET6)):
        with suppress(OSError):
            socket.inet_pton(family, (host or "").partition("%")[0])
            return version
    return None


def default_protocols(controller_names: Iterable[str], listener_names: Iterable[str]) -> dict[str, str]:
    """Return the default map: each protocol's own name, and PLAINTEXT for controllers if all others are PLAINTEXT."""
    controllers = {name.upper() for name in controller_names}
    protocols = {protocol: protocol for protocol in SECURITY_PROTOCOLS}
    others = {name.upper() for name in listener_names} - controllers
    if not controllers & set(SECURITY_PROTOCOLS) and others <= {"PLAINTEXT"}:
        protocols.update(dict.fromkeys(controllers, "PLAINTEXT"))
    return protocols


def derive_advertised(opened: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Return the listeners to advertise if `advertised.listeners` is not set."""
    return tuple(
        Listener(listener.name, listener.security_protocol, None, listener.port)
        if is_wildcard(listener.host)
        else listener
        for listener in opened
    )


def check_advertised(advertised: tuple[Listener, ...], opened: tuple[Listener, ...], inter_broker_name: str) -> None:
    """Raise ConfigError unless there is one, all are open, none is 0.0.0.0, and the inter-broker one is among them."""
    key = "advertised.listeners"
    names = [listener.name for listener in advertised]
    if not names:
        raise ConfigError(
            rule(
                "There must be at least one broker advertised listener. "
                "Perhaps all listeners appear in controller.listener.names?",
                key,
            )
        )
    missing = set(names) - {listener.name for listener in opened}
    if missing:
        valid = ", ".join(listener.name for listener in opened)
        raise ConfigError(Problem(key, ",".join(sorted(missing)), "not among the names in listeners", valid))
    for listener in advertised:
        if listener.host == "0.0.0.0":
            reason = f"{key} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            raise ConfigError(Problem(key, str(listener), reason, "a name or address that clients can reach"))
    if inter_broker_name not in names:
        reason = f"inter.broker.listener.name must be a listener name defined in {key}"
        raise ConfigError(Problem("inter.broker.listener.name", inter_broker_name, reason, ", ".join(names)))
