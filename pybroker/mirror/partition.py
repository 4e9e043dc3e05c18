"""The state of a partition that is being copied, and the counters of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pybroker.cli.client.errors import CommandError


class BeginAgain(CommandError):
    """A partition must begin again at the end of its copy. Nothing is wrong with the partition itself."""


class NotACopy(CommandError):
    """The topic in the target is not a copy of this source. Waiting does not help."""


@dataclass(slots=True)
class CopiedPartition:
    """A partition that is being copied."""

    start: int
    """The first offset of the source."""
    next: int
    """The next offset to hand to the producer."""
    acknowledged: int
    """The end of the copy."""
    gap_until: int | None = None
    """The first offset after a gap that is being filled; meanwhile nothing is read from the source."""
    is_paused: bool = False
    is_single: bool = False
    """Whether its records are sent in batches of one, because a batch failed."""
    is_known: bool = False
    """Whether the target has acknowledged a record of this producer, so that it checks the sequence of later ones."""
    moved_s: float = field(default_factory=time.monotonic)
    """When the copy last grew, or was last complete."""

    @property
    def outstanding(self) -> int:
        """Return how many offsets the target has not acknowledged."""
        return self.next - self.acknowledged

    def send(self, count: int = 1) -> None:
        """Count offsets that are handed to the producer now."""
        if self.next == self.acknowledged:
            self.moved_s = time.monotonic()
        self.next += count

    def move_to(self, end: int) -> None:
        """Set the end of the copy."""
        self.acknowledged = end
        self.moved_s = time.monotonic()


class Progress:
    """Counters of a run: what it has copied since it began."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.filled = 0
        self.undated = 0
