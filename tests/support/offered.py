"""The services that a double of a broker offers to handlers: its attributes, by the names of
`broker.services.Services`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.coordinators.share.fetch_services import ShareFetchServices
from broker.coordinators.share.requests import ShareRequests
from broker.replicas.current_leaders import CurrentLeaders
from broker.replicas.down_conversion import ConversionServices
from broker.replicas.fetch_attempt import FetchAttempt, FetchServices
from broker.requests.advertised_endpoints import AdvertisedEndpoints
from broker.requests.binding import bind
from broker.requests.broker_identity import BrokerIdentity
from broker.requests.dispatcher import Dispatcher
from broker.requests.served_api import FastPathFactory, Handler, ServedApi, discover
from protocol.schema import Api


def _of(broker: object, name: str) -> Any:
    return Offered(broker)[name]


_DERIVED: dict[str, Callable[[Any], object]] = {
    "served_apis": lambda broker: discover(),
    "metadata": lambda broker: broker.controller,
    "identity": lambda broker: BrokerIdentity(getattr(_of(broker, "metadata"), "cluster_id", "test"), 1),
    "features": lambda broker: broker.quorum,
    "endpoints": lambda broker: AdvertisedEndpoints(broker.config, _of(broker, "metadata")),
    "current_leaders": lambda broker: CurrentLeaders(
        broker.config.node_id,
        _of(broker, "metadata"),
        broker.partitions,
    ),
    "fetch_services": lambda broker: FetchServices(
        broker.config,
        broker.clock,
        broker.purgatory,
        broker.partitions,
        broker.guard,
        broker.offload,
        _of(broker, "endpoints"),
        _of(broker, "current_leaders"),
        ConversionServices(broker.appends, broker.conversions, broker.offload, broker.workers, broker.clock),
        getattr(broker, "fetch_attempt", FetchAttempt),
    ),
    "share_requests": lambda broker: ShareRequests(
        broker.guard,
        broker.partitions,
        broker.share_partitions,
        broker.share_states,
        _of(broker, "current_leaders"),
    ),
    "share_fetches": lambda broker: ShareFetchServices(
        broker.clock,
        broker.purgatory,
        broker.time_look_ups,
        broker.partitions,
        broker.share_partitions,
        getattr(broker, "remote_reads", None),
    ),
}
"""Services that doubles do not have as attributes, built from those that they have."""


class Offered(Mapping[str, object]):
    """The current services of a double; None for those that a test does not need."""

    def __init__(self, broker: object) -> None:
        self._broker = broker

    def __getitem__(self, name: str) -> object:
        if hasattr(self._broker, name):
            return getattr(self._broker, name)
        try:
            return _DERIVED[name](self._broker) if name in _DERIVED else None
        except AttributeError:  # an attribute that the double lacks, too
            return None

    def __iter__(self) -> Iterator[str]:
        return iter((*vars(self._broker), *_DERIVED))

    def __len__(self) -> int:
        return len(vars(self._broker)) + len(_DERIVED)


def handler_of(broker: object, api: Api) -> Handler:
    """Return the handler of an API, bound to the services of a double."""
    return bind(discover()[api.key].load().handler, Offered(broker))


def fast_path_of(broker: object, factory: FastPathFactory, version: int) -> Any:
    """Return the fast path of a version, bound to the services of a double, or None."""
    return bind(factory, Offered(broker))(version)


def dispatcher_for(broker: object, served: Mapping[int, ServedApi] | None = None) -> Dispatcher:
    """Return a dispatcher with the services of a double; all APIs are loaded."""
    found = discover() if served is None else served
    for each in found.values():
        each.load()
    return Dispatcher(found, Offered(broker))


def endpoints_of(broker: object) -> AdvertisedEndpoints:
    """Return the endpoints that a double advertises."""
    found: AdvertisedEndpoints = _of(broker, "endpoints")
    return found
