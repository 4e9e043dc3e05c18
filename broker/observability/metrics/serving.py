"""A broker's endpoint for metrics, where `metrics.listeners` asks for one; most have none, nor what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.listener import CannotBind
from config.http_listeners import parse_http_listener

if TYPE_CHECKING:
    from broker.observability.metrics.endpoint import Endpoint
    from broker.observability.metrics.observed import ObservedProcess


def bind_endpoint(broker: ObservedProcess) -> Endpoint | None:
    """Take the ports, which are the next ones for other workers than the owner. Raises CannotBind."""
    addresses = [parse_http_listener(each) for each in broker.config.get_list("metrics.listeners")]
    if not addresses:
        return None
    try:
        from broker.observability.metrics.endpoint import Endpoint
    except ImportError as error:
        raise CannotBind(f"metrics.listeners: {error}; pip install 'pybroker[metrics]' brings it") from None
    return Endpoint([(host, port and port + broker.number) for host, port in addresses], broker)
