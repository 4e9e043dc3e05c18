"""The addresses of the console, and the security settings that it allows."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.console import console_listener, is_loopback, login_mechanisms


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_loopback_addresses(host: str) -> None:
    """Addresses that only this machine can reach."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", [None, "0.0.0.0", "::", "192.168.1.1", "localhost.example", "example"])
def test_other_addresses(host: str | None) -> None:
    """All others; a name may resolve to any address."""
    assert not is_loopback(host)


def serve(**overrides: str) -> None:
    load(overrides={key.replace("_", "."): value for key, value in overrides.items()}, to_serve=True)


def test_loopback_listener_is_accepted() -> None:
    """On a broker without authentication."""
    serve(console_listeners="http://127.0.0.1:8080,http://[::1]:8080")


def test_other_listeners_are_rejected() -> None:
    """The error names each address that is not allowed."""
    with pytest.raises(ConfigError, match="this machine's own address only") as refused:
        serve(console_listeners="http://127.0.0.1:8080,http://:8080,http://10.0.0.1:8080")
    assert [problem.value for problem in refused.value.problems] == ["http://:8080", "http://10.0.0.1:8080"]


def test_controllers_have_no_console() -> None:
    """They answer no requests of clients, which the console sends."""
    with pytest.raises(ConfigError, match="a controller has no console"):
        serve(
            console_listeners="http://127.0.0.1:8080",
            process_roles="controller",
            node_id="100",
            controller_listener_names="CONTROLLER",
            listeners="CONTROLLER://:9093",
        )


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TWO = {"listeners": "PLAINTEXT://:9093,SASL_PLAINTEXT://:9092", "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256"}
TLS = {**TWO, "listeners": "SASL_SSL://:9092", "security_inter_broker_protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    "secured",
    [
        {"listeners": "SSL://:9092,PLAINTEXT://:9093"},
        {"authorizer_class_name": AUTHORIZER, "super_users": "User:a"},
        {"listeners": "SASL_PLAINTEXT://:9092,PLAINTEXT://:9093", "sasl_enabled_mechanisms": "OAUTHBEARER"},
        TLS,
    ],
)
def test_console_needs_a_listener_with_passwords(secured: dict[str, str]) -> None:
    """Otherwise the console would show data without a login."""
    with pytest.raises(ConfigError, match="no listener accepts the passwords of the console's users"):
        serve(console_listeners="http://127.0.0.1:8080", **secured)


@pytest.mark.parametrize(
    ("overrides", "name", "mechanisms"),
    [
        ({}, "PLAINTEXT", ()),
        (TWO, "SASL_PLAINTEXT", ("SCRAM-SHA-256", "PLAIN")),
        ({**TLS, "console_ssl_ca_location": "/ca.pem"}, "SASL_SSL", ("SCRAM-SHA-256", "PLAIN")),
    ],
)
def test_listener_that_the_console_uses(overrides: dict[str, str], name: str, mechanisms: tuple[str, ...]) -> None:
    """Preferably a listener with authentication, and its safest mechanism first."""
    config = load(overrides={key.replace("_", "."): value for key, value in overrides.items()})
    found = console_listener(config)
    assert found is not None
    assert found.name == name
    assert login_mechanisms(config, found) == mechanisms
