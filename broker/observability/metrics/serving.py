"""The metrics endpoint of a broker, if `metrics.listeners` is set. Its imports load only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.listener import CannotBind
from config.http_listeners import parse_http_listener

if TYPE_CHECKING:
    from broker.observability.metrics.endpoint import Endpoint
    from broker.observability.metrics.observed import ObservedProcess


def bind_endpoint(broker: ObservedProcess) -> Endpoint | None:
    """Bind the ports; other workers than the main process use the next port numbers. Raises CannotBind."""
    addresses = [parse_http_listener(each) for each in broker.config.get_list("metrics.listeners")]
    if not addresses:
        return None
    try:
        from broker.observability.metrics.endpoint import Endpoint
    except ImportError as error:
        raise CannotBind(f"metrics.listeners: {error}; install it by pip install 'pybroker[metrics]'") from None
    return Endpoint([(host, port and port + broker.number) for host, port in addresses], broker)
