"""Describe a started broker in one line of JSON, for programs that start one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Protocol

from config.listeners import is_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from config import BrokerConfig


class OpenListener(Protocol):
    """A listener whose port is bound."""

    @property
    def name(self) -> str:
        """The listener's name, as configured."""

    @property
    def port(self) -> int:
        """The port that it is bound to."""


def announcement(
    config: BrokerConfig, listeners: Iterable[OpenListener], metrics_url: str | None, console_url: str | None
) -> str:
    """Return a line of JSON about a broker that has started, with addresses for clients on this machine.

    Such as `{"bootstrap_servers": "127.0.0.1:40123", "pid": 7, "data_directory": "/tmp/x", "listeners": {"PLAINTEXT":
    "127.0.0.1:40123"}}`, with "metrics" and "console" where there are such.
    """
    addresses = {each.name: reachable(config, each.name, each.port) for each in listeners}
    fields: dict[str, object] = {
        "bootstrap_servers": next(iter(addresses.values())),
        "pid": os.getpid(),
        "data_directory": os.path.abspath(config.log_dirs[0]),
        "listeners": addresses,
    }
    if metrics_url is not None:
        fields["metrics"] = metrics_url
    if console_url is not None:
        fields["console"] = console_url
    return json.dumps(fields)


def reachable(config: BrokerConfig, listener_name: str, port: int) -> str:
    """Return the address of a listener for programs on this machine."""
    opened = next(each for each in (*config.listeners, *config.controller_listeners) if each.name == listener_name)
    host = "localhost" if opened.host is None or is_wildcard(opened.host) else opened.host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
