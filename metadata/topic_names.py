"""The names that topics may have, and the broker's own topics.

Names are parts of directory names (`NAME-PARTITION`) and of metric names. Hence the limits of length and characters,
and the rule that two topics may not differ in `.` and `_` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME_LENGTH = 249  # with "-" and a partition of five digits it has 255 characters, the limit of common file systems

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
#: Not internal in Kafka: clients may read and write it.
REMOTE_LOG_METADATA = "__remote_log_metadata"
CLUSTER_METADATA = "__cluster_metadata"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
#: Topics that stay on disk, whatever their configuration says.
NEVER_TIERED = INTERNAL_TOPICS | {REMOTE_LOG_METADATA, CLUSTER_METADATA}

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_problem(name: str) -> str | None:
    """Return why `name` is not a valid topic name, in Kafka's words, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Return the name with `.` replaced by `_`: topics with the same key have the same metric names."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Return whether another topic's name could have the same `collision_key`."""
    return "." in name or "_" in name


def collision_problem(name: str, others: Iterable[str]) -> str | None:
    """Return why a topic may not join `others`, in Kafka's words, or None. `others` may include the name itself."""
    key = collision_key(name)
    colliding = [each for each in others if each != name and collision_key(each) == key]
    return f"Topic '{name}' collides with existing topic: {min(colliding)}" if colliding else None


def is_internal(name: str) -> bool:
    """Return whether only the broker writes to the topic."""
    return name in INTERNAL_TOPICS
