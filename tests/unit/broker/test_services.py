"""Services that handlers need exist in their process, with name and type."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from broker.membership.forwarding import apis_of_a_member
from broker.requests.binding import needs_of
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import ServedApi, discover
from broker.services import MainServices, MemberServices, Services, ShareServices
from protocol.schema import Struct

NODE_ALONE = (Services, MainServices, ShareServices)
MEMBER = (Services, MemberServices, ShareServices)


def names_for_types(module: ModuleType) -> dict[str, object]:
    """Return the names of a module, including imports for type checkers."""
    tree = ast.parse(inspect.getsource(module))
    names = dict(vars(module))
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            exec(ast.unparse(ast.Module(statement.body, [])), names)
    return names


def types_in(function: Any) -> dict[str, Any]:
    """Return the types of a function's parameters, or of a class's fields."""
    names = names_for_types(sys.modules[function.__module__])
    return {name: eval(text, names) for name, text in function.__annotations__.items() if name != "return"}


def offered_by(process: tuple[type, ...]) -> dict[str, Any]:
    """Return the type of each service of a kind of process."""
    return {name: types_in(part)[name] for part in process for name in part.__struct_fields__}


def declared(served: ServedApi) -> Iterator[Callable[..., object]]:
    """Return the handler of an API, and the function that makes its fast path."""
    implementation = served.load()
    yield implementation.handler
    if implementation.fast_path is not None:
        yield implementation.fast_path


def satisfies(offered: type, needed: Any) -> bool:
    """Return whether a service is of a class, or has every member of a Protocol with its parameters."""
    if not getattr(needed, "_is_protocol", False):
        return bool(offered == needed)
    for name in needed.__protocol_attrs__ if hasattr(needed, "__protocol_attrs__") else vars(needed):
        if name.startswith("_"):
            continue
        wanted, found = getattr(needed, name, None), getattr(offered, name, None)
        if callable(wanted) and list(inspect.signature(wanted).parameters) != list(inspect.signature(found).parameters):  # type: ignore[arg-type]
            return False
    return True


@pytest.mark.parametrize(
    ("process", "apis"),
    [
        (NODE_ALONE, discover()),
        (MEMBER, apis_of_a_member(discover())),
    ],
    ids=["node alone", "member"],
)
def test_each_needed_service_exists_with_its_type(process: tuple[type, ...], apis: dict[int, ServedApi]) -> None:
    """For handlers and fast paths. A missing service would fail the first request."""
    offered = offered_by(process)
    for served in apis.values():
        for function in declared(served):
            hints = types_in(function)
            for name in needs_of(function):
                assert name in offered, f"{function.__module__} needs {name}, which is not offered"
                assert satisfies(offered[name], hints[name]), f"{function.__module__}: {name} is not {hints[name]}"


def test_handlers_take_context_and_request_first() -> None:
    """Services follow as keyword-only parameters."""
    for served in discover().values():
        handler = served.load().handler
        first, second, *needs = inspect.signature(handler).parameters.values()
        hints = types_in(handler)
        assert (hints[first.name], hints[second.name]) == (RequestContext, Struct), handler.__module__
        assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in needs), handler.__module__


def test_each_service_is_needed_by_a_handler() -> None:
    needed = {
        name
        for apis in (discover(), apis_of_a_member(discover()))
        for served in apis.values()
        for function in declared(served)
        for name in needs_of(function)
    }
    assert needed == set(offered_by((Services, MainServices, MemberServices, ShareServices)))
