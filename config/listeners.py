"""Listeners: what `listeners`, `advertised.listeners` and their kin say, parsed and checked as Kafka 4.3 does.

One convenience beyond Kafka: where no advertised listener is given and the listener has no fixed host (it is empty or
a wildcard), the advertised host is None, "the address that the client came in on". Kafka would take the machine's name,
or refuse 0.0.0.0. Controller listeners are checked like the others, then left out: they are not opened.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable

import msgspec

from .errors import ConfigError, Problem, rule

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARDS = ("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")

_LISTENER = re.compile(r"([^:/]+)://(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._:]*)):(-?[0-9]+)")


class Listener(msgspec.Struct, frozen=True):
    """An address to open, or one to tell clients.

    `host` is without brackets. None means every interface for one to open, and the address of the connection for one to
    tell. `port` 0 means any free port for one to open, and the port that was opened for one to tell.
    """

    name: str
    security_protocol: str
    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"{self.name}://{f'[{host}]' if ':' in host else host}:{self.port}"


def parse_protocol_map(entries: Iterable[str]) -> dict[str, str]:
    """`listener.security.protocol.map` as upper-case listener name -> security protocol. Raises ConfigError."""
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in entries:
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ConfigError(Problem(key, entry, "not a pair", "LISTENER_NAME:PROTOCOL, with commas between"))
        if protocol.upper() not in SECURITY_PROTOCOLS:
            sentence = f"Invalid security protocol `{protocol}` defined in {key}"
            raise ConfigError(Problem(key, entry, sentence, ", ".join(SECURITY_PROTOCOLS), sentence=sentence))
        if name.upper() in protocols:
            raise ConfigError(Problem(key, entry, f"listener {name.upper()} stands twice", "each listener once"))
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    key: str, entries: Iterable[str], protocols: dict[str, str], unique_ports: bool
) -> tuple[Listener, ...]:
    """The listeners of one key. Raises ConfigError for what can not be read, names or ports that stand twice."""
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
    name, port = match[1].upper(), int(match[4])
    if not 0 <= port <= 65535:
        raise ConfigError(Problem(key, entry, f"port {port} does not exist", "0 to 65535; 0 is any free port"))
    if name not in protocols:
        allowed = ", ".join(protocols) + "; or name it in listener.security.protocol.map"
        raise ConfigError(Problem(key, entry, f"No security protocol defined for listener {name}", allowed))
    return Listener(name, protocols[name], match[2] or match[3] or None, port)


def _check_hosts_of_port(key: str, listeners: list[Listener]) -> None:
    """Two listeners may share a port if one is an IPv4 address and the other an IPv6 one (KIP-797)."""
    if len(listeners) == 1:
        return
    if len(listeners) == 2 and {_ip_version(listener.host) for listener in listeners} == {4, 6}:
        return
    value = ",".join(str(listener) for listener in listeners)
    reason = "Each listener must have a different port"
    raise ConfigError(Problem(key, value, reason, "one port twice only for one IPv4 and one IPv6 address"))


def _ip_version(host: str | None) -> int | None:
    for version, family in ((4, socket.AF_INET), (6, socket.AF_INET6)):
        try:
            socket.inet_pton(family, host or "")
        except OSError:
            continue
        return version
    return None


def default_protocols(controller_names: Iterable[str], listener_names: Iterable[str]) -> dict[str, str]:
    """The map where none is given: each protocol's own name, and PLAINTEXT for controllers if all else is PLAINTEXT."""
    controllers = {name.upper() for name in controller_names}
    protocols = {protocol: protocol for protocol in SECURITY_PROTOCOLS}
    others = {name.upper() for name in listener_names} - controllers
    if not controllers & set(SECURITY_PROTOCOLS) and others <= {"PLAINTEXT"}:
        protocols.update(dict.fromkeys(controllers, "PLAINTEXT"))
    return protocols


def derive_advertised(opened: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """What to tell clients where `advertised.listeners` is unset."""
    return tuple(
        Listener(listener.name, listener.security_protocol, None, listener.port)
        if (listener.host or "") in WILDCARDS
        else listener
        for listener in opened
    )


def check_advertised(advertised: tuple[Listener, ...], opened: tuple[Listener, ...], inter_broker_name: str) -> None:
    """Raises ConfigError unless there is one, all are open, none is 0.0.0.0, and the inter-broker one is among them."""
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
