"""The authorizer's keys."""

from __future__ import annotations

import pytest

from config import ConfigError, load
from config.authorizer import (
    FORMER_AUTHORIZERS,
    STANDARD_AUTHORIZER,
    allows_without_entry,
    has_authorizer,
    super_users,
)

CLASS = {"authorizer.class.name": STANDARD_AUTHORIZER}


def test_no_authorizer_by_default() -> None:
    config = load()
    assert (has_authorizer(config), super_users(config), allows_without_entry(config)) == (False, frozenset(), False)


def test_as_in_kafka() -> None:
    keys = {"super.users": "User:admin; User:CN=a,O=b;", "allow.everyone.if.no.acl.found": "TRUE"}
    config = load(overrides=CLASS | keys, to_serve=True)
    assert has_authorizer(config)
    assert super_users(config) == {"User:admin", "User:CN=a,O=b"}
    assert allows_without_entry(config)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"authorizer.class.name": "com.example.Own"}, "Java classes are not loaded"),
        (CLASS | {"super.users": "admin"}, "expected a string in format principalType:principalName but got admin"),
    ],
)
def test_refused(overrides: dict[str, str], message: str) -> None:
    """A broker without its authorizer would let everybody in, so it does not start."""
    with pytest.raises(ConfigError, match=message):
        load(overrides=overrides, to_serve=True)


def test_known_authorizer_has_no_warning() -> None:
    assert load(overrides=CLASS, to_serve=True).warnings == ()


@pytest.mark.parametrize("name", FORMER_AUTHORIZERS)
def test_earlier_authorizers_are_read_as_the_current_one(name: str) -> None:
    """With one warning."""
    config = load(overrides={"authorizer.class.name": name}, to_serve=True)
    assert has_authorizer(config)
    (line,) = config.warnings
    assert line.endswith(f"{name} is a class of earlier versions; it is read as {STANDARD_AUTHORIZER}")
