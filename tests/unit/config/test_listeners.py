"""Listeners, each case tried on Kafka 4.3.1; tests name the differences."""

from __future__ import annotations

import pytest

from config import (
    BrokerConfig,
    ConfigError,
    Listener,
    load,
)

MAP = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"}
KRAFT = {"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER"}


def plaintext(host: str | None, port: int, name: str = "PLAINTEXT") -> Listener:
    return Listener(name, "PLAINTEXT", host, port)


def listening(**settings: str) -> BrokerConfig:
    return load(overrides={key.replace("_", "."): value for key, value in settings.items()})


@pytest.mark.parametrize(
    ("listeners", "opened", "advertised"),
    [
        ("PLAINTEXT://:9092", plaintext(None, 9092), plaintext(None, 9092)),
        ("PLAINTEXT://0.0.0.0:9092", plaintext("0.0.0.0", 9092), plaintext(None, 9092)),  # refused by Kafka
        ("PLAINTEXT://[::]:9092", plaintext("::", 9092), plaintext(None, 9092)),
        ("PLAINTEXT://0:9092", plaintext("0", 9092), plaintext(None, 9092)),
        ("PLAINTEXT://[::0]:9092", plaintext("::0", 9092), plaintext(None, 9092)),
        ("PLAINTEXT://[0:0::0%eth0]:9092", plaintext("0:0::0%eth0", 9092), plaintext(None, 9092)),
        ("PLAINTEXT://[::ffff:0.0.0.0]:9092", plaintext("::ffff:0.0.0.0", 9092), plaintext(None, 9092)),
        ("PLAINTEXT://[fe80::1%eth0]:9092", plaintext("fe80::1%eth0", 9092), plaintext("fe80::1%eth0", 9092)),
        ("PLAINTEXT://localhost:9092", plaintext("localhost", 9092), plaintext("localhost", 9092)),
        ("PLAINTEXT://[::1]:9092", plaintext("::1", 9092), plaintext("::1", 9092)),
        ("PLAINTEXT://::1:9092", plaintext("::1", 9092), plaintext("::1", 9092)),
        ("plaintext://a_b-c.d:0", plaintext("a_b-c.d", 0), plaintext("a_b-c.d", 0)),
    ],
)
def test_one_listener(listeners: str, opened: Listener, advertised: Listener) -> None:
    """Without advertised.listeners a fixed host is advertised; else None, the address to which the client connected."""
    config = listening(listeners=listeners)

    assert (opened,) == config.listeners
    assert (advertised,) == config.advertised_listeners
    assert advertised == config.advertised("PLAINTEXT")


def test_default_is_port_9092_on_all_interfaces() -> None:
    """S27.3: the earlier key `port`."""
    assert (plaintext(None, 9092),) == load().listeners


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("PLAINTEXT://x:1", plaintext("x", 1)),
        ("PLAINTEXT://x:0", plaintext("x", 0)),
        ("PLAINTEXT://:9092", plaintext(None, 9092)),
        ("PLAINTEXT://[::]:9092", plaintext(None, 9092)),
        ("PLAINTEXT://[0::0]:9092", plaintext(None, 9092)),
        ("PLAINTEXT://[fe80::1]:9092", plaintext("fe80::1", 9092)),
        ("PLAINTEXT://[fe80::1%eth0]:9092", plaintext("fe80::1%eth0", 9092)),
    ],
)
def test_advertised(advertised: str, expected: Listener) -> None:
    """Advertised addresses are used, except hosts that no client could connect to."""
    assert (expected,) == load(overrides={"advertised.listeners": advertised}).advertised_listeners


COMBINED = {
    **KRAFT,
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "advertised.listeners": "PLAINTEXT://x:1,CONTROLLER://x:2",
}


def test_controller_listeners_are_not_for_clients() -> None:
    """A node with both roles opens them, for other nodes."""
    config = load(overrides=COMBINED)

    assert (plaintext("localhost", 9092),) == config.listeners
    assert (plaintext("x", 1),) == config.advertised_listeners
    assert [each.port for each in config.controller_listeners] == [9093]
    assert config.is_combined
    assert not any("CONTROLLER" in line for line in config.notices)


@pytest.mark.parametrize("left_out", ["process.roles", "controller.listener.names", "listeners"])
def test_a_node_alone_lacks_the_role_or_the_listener(left_out: str) -> None:
    alone = {key: value for key, value in COMBINED.items() if key != left_out}
    if left_out == "listeners":
        alone = {"process.roles": "broker,controller"}
    if left_out == "controller.listener.names":
        alone = {**alone, **MAP}
    assert not load(overrides=alone).is_combined


def test_keys_of_a_cluster_count_with_a_controller_listener() -> None:
    """A node alone warns that they have no effect."""
    keys = {"broker.session.timeout.ms": "3000", "replica.lag.time.max.ms": "1000"}
    assert load(overrides={**COMBINED, **keys}).warnings == ()
    alone = load(overrides=keys).warnings
    assert [key for key in keys if any(key in line for line in alone)] == list(keys)


def test_several_controllers_are_refused() -> None:
    """Each would be the controller of another cluster."""
    servers = "controller.quorum.bootstrap.servers"
    with pytest.raises(ConfigError, match=rf"a:1,b:2 for configuration {servers}: a quorum of several controllers"):
        load(overrides={**COMBINED, servers: "a:1,b:2"})


def test_names_may_be_anything_with_a_protocol() -> None:
    """KIP-103: the name of a listener and its protocol are independent."""
    config = load(
        overrides={
            "listeners": "IN-SIDE.1://127.0.0.1:9092,OUT://:9093",
            "listener.security.protocol.map": "in-side.1:plaintext, OUT:SASL_SSL",
            "inter.broker.listener.name": "in-side.1",
        }
    )

    assert tuple(listener.name for listener in config.listeners) == ("IN-SIDE.1", "OUT")
    assert tuple(listener.security_protocol for listener in config.listeners) == ("PLAINTEXT", "SASL_SSL")
    assert config.inter_broker_listener_name == "IN-SIDE.1"


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://a:0,SSL://b:0",
        "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092",
        "PLAINTEXT://127.0.0.1:9092,SSL://[fe80::1%eth0]:9092",
        "PLAINTEXT://a:1 , SSL://a:2",
    ],
)
def test_ports_that_may_be_equal(listeners: str) -> None:
    """KIP-797: an IPv4 and an IPv6 address may share a port; port 0 is another one each time."""
    assert len(load(overrides={**MAP, "listeners": listeners}).listeners) == 2


def test_advertised_ports_may_be_equal() -> None:
    """They may be the ports of a proxy."""
    config = load(
        overrides={**MAP, "listeners": "PLAINTEXT://a:1,SSL://a:2", "advertised.listeners": "PLAINTEXT://x:1,SSL://x:1"}
    )

    assert len(config.advertised_listeners) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "PLAINTEXT://a:9092,SSL://a:9092"},
        {"listeners": "PLAINTEXT://a:9092,SSL://b:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.2:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092,A://127.0.0.1:9092"},
        {"listeners": "PLAINTEXT://localhost:9092,SSL://[::1]:9092"},
        {"listeners": "PLAINTEXT://a:1,plaintext://b:2"},
        {"listeners": "FOO://a:1"},
        {"listeners": "A://a:1"},  # no inter-broker listener among the advertised
        {"listeners": "PLAINTEXT://a:x"},
        {"listeners": "PLAINTEXT://a"},
        {"listeners": "PLAINTEXT:a:9092"},
        {"listeners": "a:9092"},
        {"listeners": ""},
        {"listeners": ","},
        {"listeners": "PLAINTEXT://a b:9092"},
        {"listeners": "PLAINTEXT://a:9092/"},
        {"listeners": "PLAINTEXT://a:65536"},  # Kafka notices when it opens the port
        {"listeners": "PLAINTEXT://a:-1"},
        {"listeners": "PLAINTEXT://:1", "controller.listener.names": "PLAINTEXT"},
        {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
        {"advertised.listeners": "PLAINTEXT://x:1,PLAINTEXT://y:2"},
        {"advertised.listeners": "SSL://x:1"},
        {"advertised.listeners": "PLAINTEXT://x:1,SSL://x:1"},
        {"advertised.listeners": ""},
        {"inter.broker.listener.name": "BAR"},
        {"inter.broker.listener.name": "SSL"},
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
        {"security.inter.broker.protocol": "SSL"},
        {"listener.security.protocol.map": "PLAINTEXT:NOPE"},
        {"listener.security.protocol.map": "PLAINTEXT=PLAINTEXT"},
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,plaintext:SSL"},
        {"listener.security.protocol.map": ""},
        {"early.start.listeners": "FOO"},
        {**KRAFT, "listeners": "PLAINTEXT://:9092"},
        {**KRAFT, "process.roles": "broker", "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        {
            **KRAFT,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
        },
    ],
)
def test_rejected_listeners(settings: dict[str, str]) -> None:
    """Kafka 4.3 rejects these, too. The error names the key."""
    map_given = "listener.security.protocol.map" in settings or settings.get("listeners") == "FOO://a:1"
    with pytest.raises(ConfigError) as refused:
        load(overrides={**({} if map_given else MAP), **settings})

    assert refused.value.problems[0].key


def test_early_start_listeners_may_name_any_listener() -> None:
    """KIP-801."""
    load(overrides={**KRAFT, "listeners": "PLAINTEXT://:1,CONTROLLER://:2", "early.start.listeners": "CONTROLLER"})


def test_listener_prints_as_in_the_file() -> None:
    """IPv6 hosts are in brackets."""
    assert str(plaintext("::1", 9092)) == "PLAINTEXT://[::1]:9092"
    assert str(plaintext(None, 9092)) == "PLAINTEXT://:9092"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "PLAINTEXT://172.17.0.3 172.21.0.2:9092"}, "PLAINTEXT://172.17.0.3 172.21.0.2:9092"),
        (
            {
                "listeners": "PLAINTEXT://:9092,CONTROLLER_LISTENER://:9093",
                "controller.listener.names": "CONTROLLER_LISTENER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "No security protocol defined for listener CONTROLLER_LISTENER",
        ),
    ],
)
def test_message_has_the_entry_and_the_form(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=settings)
    (problem,) = refused.value.problems
    assert message in str(problem)
    assert "NAME://host:port" in str(problem) or "name it in listener.security.protocol.map" in str(problem)
