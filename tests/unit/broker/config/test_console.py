"""Where the console may listen, and beside what."""

from __future__ import annotations

import pytest

from broker.config import ConfigError, load
from broker.config.console import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_loopback(host: str) -> None:
    """Reached from this machine alone."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", [None, "0.0.0.0", "::", "192.168.1.1", "localhost.example", "example"])
def test_others(host: str | None) -> None:
    """All else; a name may mean anything."""
    assert not is_loopback(host)


def serve(**overrides: str) -> None:
    load(overrides={key.replace("_", "."): value for key, value in overrides.items()}, to_serve=True)


def test_loopback_is_served() -> None:
    """Where nobody is asked who they are."""
    serve(console_listeners="http://127.0.0.1:8080,http://[::1]:8080")


def test_all_the_world_is_not() -> None:
    """Each address that is too much is named."""
    with pytest.raises(ConfigError, match="this machine's own address only") as refused:
        serve(console_listeners="http://127.0.0.1:8080,http://:8080,http://10.0.0.1:8080")
    assert [problem.value for problem in refused.value.problems] == ["http://:8080", "http://10.0.0.1:8080"]


@pytest.mark.parametrize(
    "secured",
    [
        {"listeners": "SASL_PLAINTEXT://:9092,PLAINTEXT://:9093"},
        {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super_users": "User:a"},
    ],
)
def test_brokers_that_ask_who_comes_have_none(secured: dict[str, str]) -> None:
    """It reads the disk past what they ask."""
    with pytest.raises(ConfigError, match="the console asks nobody who they are"):
        serve(console_listeners="http://127.0.0.1:8080", **secured)
