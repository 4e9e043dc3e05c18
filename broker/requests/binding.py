"""Binding: gives a handler the services that it declares as keyword-only parameters, once, before its first request.

    @handles(HEARTBEAT)
    def heartbeat(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply: ...

The names are those of `broker.services.Services`; the annotation is the type of the service, or a Protocol that the
service satisfies. tests/unit/broker/test_services.py checks both for all handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

R = TypeVar("R")


class MissingService(Exception):
    """A handler declares a service that this process does not offer."""


def needs_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the services that a function declares; none for a callable not written in Python."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    first = code.co_argcount
    names: tuple[str, ...] = code.co_varnames[first : first + code.co_kwonlyargcount]
    return names


def bind(function: Callable[..., R], services: Mapping[str, object]) -> Callable[..., R]:
    """Return the function with its services filled in, or itself where it declares none.

    Raises MissingService, naming the function and the service.
    """
    needs = needs_of(function)
    if not needs:
        return function
    missing = [name for name in needs if name not in services]
    if missing:
        name = getattr(function, "__qualname__", repr(function))
        raise MissingService(
            f"{function.__module__}.{name} needs {', '.join(missing)}, which this process does not offer"
        )
    return partial(function, **{name: services[name] for name in needs})
