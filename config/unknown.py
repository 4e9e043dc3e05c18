"""Keys that are not in the table: which of them are somebody's, and which are slips of the pen.

People's files hold keys of their plugins, and keys with a listener's prefix; those pass. The rest is reported with the
nearest key there is.
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
"""Keys of Kafka's own authorizer, which stand in the broker's file like those of any plugin."""

_LISTENER_PREFIX = re.compile(r"listener\.name\.([^.]*)\.(.+)")
_MECHANISM_KEYS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that may stand behind a mechanism, too: listener.name.x.plain.sasl.jaas.config."""


def without_listener(key: str) -> str:
    """The key in the table that a key with a listener's prefix (and a mechanism's) stands for; else `key` itself."""
    match = _LISTENER_PREFIX.fullmatch(key)
    if match is None:
        return key
    base = match[2]
    return next((name for name in _MECHANISM_KEYS if base.endswith(f".{name}")), base)


def row_of(key: str) -> ConfigKey | None:
    """The row for `key`, with or without a listener's prefix; None for keys of plugins and unknown ones."""
    return BROKER_KEYS.get(key) or BROKER_KEYS.get(without_listener(key))


def dynamic_row_of(key: str) -> ConfigKey | None:
    """As `row_of`, for a key among dynamic values: keys of former versions are as unknown as those of plugins."""
    row = DYNAMIC_ONLY_KEYS.get(key) or row_of(key)
    return None if row is None or row.removed else row


def unknown_key_reason(key: str) -> str | None:
    """Why a key may be a mistake, with the nearest key there is; None for one that is somebody's."""
    if row_of(key) is not None or key in AUTHORIZER_KEYS or _LISTENER_PREFIX.fullmatch(key):
        return None
    topic_row = TOPIC_KEYS.get(key) or LEGACY_TOPIC_KEYS.get(key)
    if topic_row is not None:
        broker_keys = " or ".join(name for name, _ in topic_row.synonyms)
        return "a key of topics" + (f", for all of them it is {broker_keys}" if broker_keys else "")
    plugins = key.startswith(PLUGIN_PREFIXES)
    from difflib import get_close_matches  # costs more than the table; needed for mistakes only

    near = get_close_matches(key, BROKER_KEYS, n=1, cutoff=0.93 if plugins else 0.6)
    if plugins and not near:
        return None
    return "unknown key" + (f", did you mean {near[0]}?" if near else "")
