"""Start the console if `console.listeners` is set. Most brokers have none, and load none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.http_listeners import parse_http_listener

if TYPE_CHECKING:
    from broker.console.process import Console
    from config import BrokerConfig


def bind_console(config: BrokerConfig) -> Console | None:
    """Bind the console's ports. Raises CannotBind."""
    addresses = [parse_http_listener(each) for each in config.get_list("console.listeners")]
    if not addresses:
        return None
    from broker.console.process import Console

    return Console(addresses)
