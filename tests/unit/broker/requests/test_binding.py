"""Services are bound to a function by the names of its keyword-only parameters."""

from __future__ import annotations

import pytest

from broker.requests.binding import MissingService, bind, needs_of


def handler(ctx: str, request: str, *, clock: str, groups: str) -> str:
    return f"{ctx} {request} {clock} {groups}"


class Application:
    def handler(self, ctx: str, request: str, *, clock: str) -> str:
        return f"{ctx} {request} {clock}"


def test_services_are_given_by_name() -> None:
    """Others are left out, and a method is bound as a function is."""
    services = {"clock": "c", "groups": "g", "timers": "t"}

    assert needs_of(handler) == ("clock", "groups")
    assert bind(handler, services)("ctx", "request") == "ctx request c g"
    assert bind(Application().handler, services)("ctx", "request") == "ctx request c"


def test_a_function_without_needs_stays_itself() -> None:
    """Nothing is added to its calls."""
    bare = lambda ctx, request: None  # noqa: E731

    assert bind(bare, {}) is bare
    assert bind(len, {}) is len


def test_a_missing_service_is_named_with_its_user() -> None:
    with pytest.raises(MissingService, match=r"test_binding\.handler needs groups, which this process does not offer"):
        bind(handler, {"clock": "c"})
