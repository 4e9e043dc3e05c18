"""Which names a topic may have, and which topics are the broker's own.

Names become directory names (`NAME-PARTITION`) and metric names: hence the length, the characters, and the rule that
two topics may not differ in `.` and `_` alone.
"""

from __future__ import annotations

import re

MAX_NAME_LENGTH = (
    249  # with "-" and five digits of a partition it is 255, the longest file name that common file systems take
)

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_problem(name: str) -> str | None:
    """Say why `name` cannot name a topic, in the words that Kafka's console tools print; None where it can."""
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
    """The name with `.` and `_` made one: two topics with the same key share their metrics' names."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Whether another topic's name could have the same `collision_key`."""
    return "." in name or "_" in name


def is_internal(name: str) -> bool:
    """Whether the broker alone writes to the topic."""
    return name in INTERNAL_TOPICS
