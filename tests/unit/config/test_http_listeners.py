"""HTTP listeners."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.http_listeners import parse_http_listener


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:9404", ("127.0.0.1", 9404)),
        ("http://:0", (None, 0)),
        ("http://[::1]:80/", ("::1", 80)),
        ("http://[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        ("http://[::]:80", ("::", 80)),
        ("http://some-host.example:65535", ("some-host.example", 65535)),
    ],
)
def test_host_and_port_are_read(text: str, address: tuple[str | None, int]) -> None:
    assert parse_http_listener(text) == address


@pytest.mark.parametrize(
    "text", ["9404", "127.0.0.1:9404", "https://h:1", "http://h", "http://h:65536", "http://h:1/x"]
)
def test_anything_else_stops_the_start(text: str) -> None:
    """The error has the allowed values."""
    with pytest.raises(ConfigError) as refused:
        load(overrides={"metrics.listeners": f"http://:1,{text}"})

    (problem,) = refused.value.problems
    assert f"{text} is not an HTTP listener" in str(problem)
    assert "http://host:port" in str(problem)


def test_no_http_listener_by_default() -> None:
    assert load().get_list("metrics.listeners") == ()
