"""What a double of a broker offers to handlers: its attributes, by the names of `broker.services.Services`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.requests.binding import bind
from broker.requests.dispatcher import Dispatcher
from broker.requests.served_api import Handler, ServedApi, ShortcutFactory, discover
from protocol.schema import Api

_DERIVED: dict[str, Callable[[Any], object]] = {}
"""Services that doubles do not have as attributes, made of those that they have."""


class Offered(Mapping[str, object]):
    """The services of a double, as they are when they are asked for."""

    def __init__(self, broker: object) -> None:
        self._broker = broker

    def __getitem__(self, name: str) -> object:
        if hasattr(self._broker, name):
            return getattr(self._broker, name)
        if name in _DERIVED:
            return _DERIVED[name](self._broker)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*vars(self._broker), *_DERIVED))

    def __len__(self) -> int:
        return len(vars(self._broker)) + len(_DERIVED)


def handler_of(broker: object, api: Api) -> Handler:
    """The handler of an API with the services of a double."""
    return bind(discover()[api.key].load().handler, Offered(broker))


def shortcut_of(broker: object, factory: ShortcutFactory, version: int) -> Any:
    """The shortcut of a version with the services of a double, or None."""
    return bind(factory, Offered(broker))(version)


def dispatcher_for(broker: object, served: Mapping[int, ServedApi] | None = None) -> Dispatcher:
    """A dispatcher whose handlers have the services of a double; all APIs are loaded."""
    found = discover() if served is None else served
    for each in found.values():
        each.load()
    dispatcher = Dispatcher(found, Offered(broker))
    dispatcher.broker = broker
    return dispatcher
