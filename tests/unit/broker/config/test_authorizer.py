"""The authorizer's keys."""

from __future__ import annotations

import pytest

from broker.config import ConfigError, load
from broker.config.authorizer import STANDARD_AUTHORIZER, allows_without_entry, has_authorizer, super_users

CLASS = {"authorizer.class.name": STANDARD_AUTHORIZER}


def test_none_unless_asked_for() -> None:
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
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "Java classes are not loaded"),
        (CLASS | {"super.users": "admin"}, "expected a string in format principalType:principalName but got admin"),
    ],
)
def test_refused(overrides: dict[str, str], message: str) -> None:
    """A broker that could not ask is not started: it would let everybody in."""
    with pytest.raises(ConfigError, match=message):
        load(overrides=overrides, to_serve=True)
