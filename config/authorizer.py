"""The authorizer in the configuration: Apache Kafka's own, with its keys that are not the broker's."""

from __future__ import annotations

from collections.abc import Iterator

from .broker_config import BrokerConfig
from .errors import Problem

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FORMER_AUTHORIZERS = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""The authorizers of earlier Kafka versions, from the time of ZooKeeper, with the same rules."""

_CLASS = "authorizer.class.name"
_SUPER_USERS = "super.users"
_WITHOUT_ENTRY = "allow.everyone.if.no.acl.found"


def has_authorizer(config: BrokerConfig) -> bool:
    """Return whether an authorizer is configured; without one, everybody may do everything."""
    return bool(config.get_str(_CLASS))


def super_users(config: BrokerConfig) -> frozenset[str]:
    """Return the super users, as in "User:admin;User:root"."""
    return frozenset(filter(None, (user.strip() for user in config.originals().get(_SUPER_USERS, "").split(";"))))


def allows_without_entry(config: BrokerConfig) -> bool:
    """Return whether everybody may use a resource without access control entries."""
    return config.originals().get(_WITHOUT_ENTRY, "false").strip().lower() == "true"


def authorizer_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield why the configured authorizer cannot be used."""
    if not has_authorizer(config):
        return
    name = config.get_str(_CLASS)
    if name not in (STANDARD_AUTHORIZER, *FORMER_AUTHORIZERS):
        yield Problem(_CLASS, name, "Java classes are not loaded", STANDARD_AUTHORIZER)
    for user in sorted(super_users(config)):
        kind, colon, _ = user.partition(":")
        if not kind or not colon:
            reason = f"expected a string in format principalType:principalName but got {user}"
            yield Problem(_SUPER_USERS, user, reason, "User:NAME, separated by semicolons")
