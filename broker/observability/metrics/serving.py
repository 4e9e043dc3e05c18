"""The metrics endpoint of a broker, if `metrics.listeners` is set. Its imports load only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.network.listener import CannotBind
from config.http_listeners import parse_http_listener

if TYPE_CHECKING:
    from broker.observability.metrics.endpoint import Endpoint
    from broker.observability.metrics.observed import ObservedProcess
    from config import BrokerConfig


def bind_endpoint(broker: ObservedProcess) -> Endpoint | None:
    """Bind the ports. Raises CannotBind."""
    addresses = metrics_addresses(broker.config)
    if not addresses:
        return None
    with needed_library():
        from broker.observability.metrics.endpoint import Application, Endpoint
    return Endpoint(addresses, broker, Application(broker))


def metrics_addresses(config: BrokerConfig) -> list[tuple[str | None, int]]:
    """Return hosts, None for all interfaces, and ports of `metrics.listeners`."""
    return [parse_http_listener(each) for each in config.get_list("metrics.listeners")]


@contextmanager
def needed_library() -> Iterator[None]:
    """Turn the ImportError of a missing library into CannotBind, with the remedy."""
    try:
        yield
    except ImportError as error:
        raise CannotBind(f"metrics.listeners: {error}; install it by pip install 'pybroker[metrics]'") from None
