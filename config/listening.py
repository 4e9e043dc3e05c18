"""The listeners to open and to advertise, from the whole configuration."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .errors import ConfigError, Problem, rule
from .listeners import (
    Listener,
    check_advertised,
    default_protocols,
    derive_advertised,
    is_wildcard,
    parse_listeners,
    parse_protocol_map,
)
from .setting import Settings
from .values import ConfigValue

LISTENING_KEYS = frozenset(
    (
        "advertised.listeners",
        "controller.listener.names",
        "early.start.listeners",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "process.roles",
        "security.inter.broker.protocol",
    )
)
"""All keys that `read_listening` uses."""


class Listening(msgspec.Struct, frozen=True):
    """The listeners to open and to advertise, the inter-broker listener's name, and the controller listeners.

    `to_controllers`: name and security protocol of the listener at which other nodes are controllers; None without one.
    `advertised_controllers`: the addresses at which brokers find the controller listeners, in their order.
    """

    opened: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str
    controllers: tuple[Listener, ...]
    to_controllers: tuple[str, str] | None = None
    advertised_controllers: tuple[Listener, ...] = ()


def read_listening(settings: Settings, values: Mapping[str, ConfigValue]) -> Listening:
    """Return the listeners. Raises ConfigError for what Kafka 4.3 rejects, with the key in question."""
    entries = _texts(values, "listeners")
    controller_names = {name.upper() for name in _texts(values, "controller.listener.names")}
    if "listener.security.protocol.map" in settings:
        pairs = str(values["listener.security.protocol.map"] or "").split(",")
        protocols = parse_protocol_map(pair.strip() for pair in pairs if pair.strip())
    else:
        protocols = default_protocols(controller_names, (entry.partition(":")[0] for entry in entries))
    problems: list[Problem] = []

    def parse(key: str, *, unique_ports: bool) -> tuple[Listener, ...]:
        try:
            return parse_listeners(key, _texts(values, key), protocols, unique_ports)
        except ConfigError as error:
            problems.extend(error.problems)
            return ()

    listeners = parse("listeners", unique_ports=True)
    advertised_listeners = parse("advertised.listeners", unique_ports=False)
    if problems:
        raise ConfigError(*problems)
    _check_controller_names(controller_names, listeners, values)
    opened = tuple(listener for listener in listeners if listener.name not in controller_names)

    advertised = derive_advertised(opened)
    if values["advertised.listeners"] is not None:
        advertised = tuple(listener for listener in advertised_listeners if listener.name not in controller_names)
    inter_broker_name = _inter_broker_name(settings, values, protocols)
    controllers = tuple(listener for listener in listeners if listener.name in controller_names)
    if _texts(values, "process.roles") == ("controller",):
        _check_no_broker_listener(opened, values)
    else:
        check_advertised(advertised, opened, inter_broker_name)
    _check_early_start(values, listeners, controller_names)
    return Listening(
        opened,
        tuple(_as_advertised(listener) for listener in advertised),
        inter_broker_name,
        controllers,
        _to_controllers(values, protocols),
        _advertised_controllers(controllers, advertised_listeners),
    )


def check_same_names(now: Listening, wanted: Listening) -> None:
    """Raise ConfigError if a dynamic value of `listeners` would open or close a listener.

    Kafka opens and closes listeners at run time (KIP-226); this broker needs a restart with another file. Another port
    or host of the same name is accepted and has no effect, as in Kafka.
    """
    names, others = ({listener.name for listener in each.opened + each.controllers} for each in (now, wanted))
    if names != others:
        sentence = "listeners cannot be opened or closed while the broker runs: change the file and restart it"
        raise ConfigError(
            Problem("listeners", ",".join(sorted(others)), sentence, ", ".join(sorted(names)), sentence=sentence)
        )


def _as_advertised(listener: Listener) -> Listener:
    """Return the listener to advertise.

    Clients cannot connect to `::`: it is advertised as the address they connected to.
    """
    if is_wildcard(listener.host):
        return Listener(listener.name, listener.security_protocol, None, listener.port)
    return listener


def _check_controller_names(
    names: set[str], listeners: tuple[Listener, ...], values: Mapping[str, ConfigValue]
) -> None:
    """Check as in Kafka: all of a controller's listeners are open, and a broker alone has none of them."""
    key = "controller.listener.names"
    roles, opened = _texts(values, "process.roles"), {listener.name for listener in listeners}
    if "controller" in roles and not names <= opened:
        sentence = f"{key} must only contain values appearing in the 'listeners' configuration"
        raise ConfigError(
            Problem(key, ",".join(sorted(names - opened)), sentence, ", ".join(sorted(opened)), sentence=sentence)
        )
    if roles == ("broker",) and names & opened:
        raise ConfigError(
            rule(
                f"{key} must not contain a value appearing in 'listeners' where there is no controller role",
                key,
            )
        )


def _check_no_broker_listener(opened: tuple[Listener, ...], values: Mapping[str, ConfigValue]) -> None:
    """Check as in Kafka: a controller without a broker opens controller listeners alone."""
    if opened and values["controller.listener.names"]:
        sentence = (
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )
        names = ",".join(each.name for each in opened)
        raise ConfigError(Problem("listeners", names, sentence, "controller listeners", sentence=sentence))


def _advertised_controllers(
    controllers: tuple[Listener, ...], advertised: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    """Return the addresses of controller listeners (KIP-853): the advertised ones, else those that are opened."""
    given = {each.name: each for each in advertised}
    return tuple(_as_advertised(given.get(each.name, each)) for each in controllers)


def _to_controllers(values: Mapping[str, ConfigValue], protocols: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first controller listener if this node is no controller. Raises ConfigError without its protocol."""
    key = "controller.listener.names"
    names = _texts(values, key)
    if _texts(values, "process.roles") != ("broker",) or not names:
        return None
    name = names[0].upper()
    if name not in protocols:
        sentence = (
            f"Controller listener with name {name} defined in {key} not found in listener.security.protocol.map "
            "(an explicit security mapping for each controller listener is required if "
            "listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT in "
            "use)"
        )
        raise ConfigError(Problem(key, name, sentence, ", ".join(protocols), sentence=sentence))
    return name, protocols[name]


def _inter_broker_name(settings: Settings, values: Mapping[str, ConfigValue], protocols: dict[str, str]) -> str:
    key = "inter.broker.listener.name"
    if key not in settings:
        return str(values["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in settings:
        raise ConfigError(rule(f"Only one of {key} and security.inter.broker.protocol should be set.", key))
    name = str(values[key]).upper()
    if name not in protocols:
        sentence = f"Listener with name {name} defined in {key} not found in listener.security.protocol.map."
        raise ConfigError(Problem(key, name, sentence, ", ".join(protocols), sentence=sentence))
    return name


def _check_early_start(
    values: Mapping[str, ConfigValue], listeners: tuple[Listener, ...], controller_names: set[str]
) -> None:
    known = {listener.name for listener in listeners} | controller_names
    for name in _texts(values, "early.start.listeners"):
        if name.upper() not in known:
            raise ConfigError(
                Problem("early.start.listeners", name, "not a configured listener", ", ".join(sorted(known)))
            )


def _texts(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    return value if isinstance(value, tuple) else ()
