"""The keyword-only parameters of a function name the services that it is bound to."""

from __future__ import annotations

import pytest

from broker.requests.binding import MissingService, bind, needs_of


def handler(ctx: str, request: str, *, clock: str, groups: str) -> str:
    return f"{ctx} {request} {clock} {groups}"


class Application:
    def handler(self, ctx: str, request: str, *, clock: str) -> str:
        return f"{ctx} {request} {clock}"


def test_services_are_bound_by_name() -> None:
    """Other services are left out. A method is bound like a function."""
    services = {"clock": "c", "groups": "g", "timers": "t"}

    assert needs_of(handler) == ("clock", "groups")
    assert bind(handler, services)("ctx", "request") == "ctx request c g"
    assert bind(Application().handler, services)("ctx", "request") == "ctx request c"


def test_a_function_without_services_is_returned_unchanged() -> None:
    """Its calls have no overhead."""
    bare = lambda ctx, request: None  # noqa: E731

    assert bind(bare, {}) is bare
    assert bind(len, {}) is len


def test_a_missing_service_is_named_with_its_user() -> None:
    with pytest.raises(MissingService, match=r"test_binding\.handler needs groups, which this process does not offer"):
        bind(handler, {"clock": "c"})
