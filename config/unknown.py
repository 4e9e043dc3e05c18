"""Keys that are not in the table: keys of plugins, and likely mistakes.

Users' files have keys of their plugins, and keys with a listener's prefix, which are accepted. Others are reported with
the most similar known key.
"""

from __future__ import annotations

import re

from .key import ConfigKey
from .keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, LEGACY_TOPIC_KEYS, TOPIC_KEYS

PLUGIN_PREFIXES = (
    "sasl.", "ssl.", "client.quota.", "config.providers.", "rlmm.config.", "rsm.config.", "metrics.",
    "metric.reporters.", "kafka.metrics.", "authorizer.", "principal.builder.", "alter.config.policy.",
    "create.topic.policy.", "replica.selector.", "telemetry.", "confluent.",
)  # fmt: skip
AUTHORIZER_KEYS = ("super.users", "allow.everyone.if.no.acl.found")
"""The keys of Kafka's own authorizer, which are in the broker's file like those of a plugin."""

#: Comparing longer keys with all known ones takes seconds.
_LONGEST_KEY = 200
_LISTENER_PREFIX = re.compile(r"listener\.name\.([^.]*)\.(.+)")
_MECHANISM_KEYS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that may follow a mechanism, too: listener.name.x.plain.sasl.jaas.config."""


def without_listener(key: str) -> str:
    """Return the key in the table for a key with a prefix of a listener and perhaps a mechanism; else `key` itself."""
    match = _LISTENER_PREFIX.fullmatch(key)
    if match is None:
        return key
    base = match[2]
    return next((name for name in _MECHANISM_KEYS if base.endswith(f".{name}")), base)


def row_of(key: str) -> ConfigKey | None:
    """Return the row of `key`, with or without a listener's prefix; None for keys of plugins and unknown ones."""
    return BROKER_KEYS.get(key) or BROKER_KEYS.get(without_listener(key))


def dynamic_row_of(key: str) -> ConfigKey | None:
    """Return the row of a dynamic key, like `row_of`, but None for keys of earlier versions, too."""
    row = DYNAMIC_ONLY_KEYS.get(key) or row_of(key)
    return None if row is None or row.removed else row


def unknown_key_reason(key: str) -> str | None:
    """Return why a key may be a mistake, with the most similar key; None for a key of a plugin."""
    if row_of(key) is not None or key in AUTHORIZER_KEYS or _LISTENER_PREFIX.fullmatch(key):
        return None
    topic_row = TOPIC_KEYS.get(key) or LEGACY_TOPIC_KEYS.get(key)
    if topic_row is not None:
        broker_keys = " or ".join(name for name, _ in topic_row.synonyms)
        return "a topic key" + (f"; the key for all topics is {broker_keys}" if broker_keys else "")
    plugins = key.startswith(PLUGIN_PREFIXES)
    if len(key) > _LONGEST_KEY:
        return None if plugins else "unknown key"
    from difflib import get_close_matches  # importing it costs more than the table; needed for mistakes only

    near = get_close_matches(key, BROKER_KEYS, n=1, cutoff=0.93 if plugins else 0.6)
    if plugins and not near:
        return None
    return "unknown key" + (f", did you mean {near[0]}?" if near else "")
