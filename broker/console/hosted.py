"""A broker's console, where `console.listeners` asks for one; most have none, and need nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.http_listeners import parse_http_listener

if TYPE_CHECKING:
    from broker.console.process import Console
    from config import BrokerConfig


def bind_console(config: BrokerConfig) -> Console | None:
    """Take the ports. Raises CannotBind."""
    addresses = [parse_http_listener(each) for each in config.get_list("console.listeners")]
    if not addresses:
        return None
    from broker.console.process import Console

    return Console(addresses)
