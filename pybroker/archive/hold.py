"""Where retention can be told what is archived, for brokers that let it wait for that.

No broker that this is used with has such a means; one that has gets a class of its own here, and an option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pybroker.source.bounds import TopicPartition


class Hold(Protocol):
    """Is told before the first run and after each commit; twice the same is no harm."""

    def archived(self, ends: Mapping[TopicPartition, int]) -> None:
        """The offsets before `ends` are in the archive for good: retention may take them."""


class NoHold:
    """Retention waits for nobody."""

    def archived(self, ends: Mapping[TopicPartition, int]) -> None:
        return
