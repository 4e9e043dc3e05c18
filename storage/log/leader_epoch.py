"""Leader epochs: the first offset of each (KIP-101), and their file leader-epoch-checkpoint.

    0                     version
    2                     number of entries
    0 0                   epoch, start offset
    3 1500

Followers and consumers use them to find where their log diverges from the leader's. The file is rewritten on each
change, without an fsync: recovery restores what a crash loses from the batches after the recovery point. A start gives
each partition a new epoch. It is written with the first batch of the epoch or at the next clean shutdown, because until
then another start would replace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.checkpoints import format_lines, read_lines, write_lines
from storage.errors import CorruptFile
from storage.fs import FileSystem

FILE_NAME = "leader-epoch-checkpoint"

#: The response if the epoch is unknown.
UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET = -1, -1


class EpochEntry(NamedTuple):
    """An epoch and its first offset."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, in ascending order of epoch and of start offset.

    `damaged` is true if the file was missing or unreadable.
    """

    __slots__ = ("_entries", "_fs", "_unwritten", "damaged", "path")

    def __init__(self, fs: FileSystem, directory: str, *, exists: bool = True) -> None:
        self._fs = fs
        self.path = f"{directory}/{FILE_NAME}"
        self._entries: list[EpochEntry] = []
        #: Whether the file lacks entries that are in memory.
        self._unwritten = False
        self.damaged = not exists
        if exists:
            try:
                for epoch, start_offset in read_lines(fs, self.path) or []:
                    self._add(EpochEntry(int(epoch), int(start_offset)))
            except (CorruptFile, ValueError):
                self._entries = []
                self.damaged = True

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int | None:
        """The newest epoch, or None."""
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`, and remove entries that contradict it.

        Returns whether the file was written.
        """
        if not self._add(EpochEntry(epoch, start_offset)) and not self._unwritten:
            return False
        self.write()
        return True

    def announce(self, epoch: int, start_offset: int) -> bool:
        """Record an epoch that has no batch yet. If the file exists, it is written with the first batch.

        Returns whether the file was written.
        """
        if not self._entries:
            return self.assign(epoch, start_offset)
        self._unwritten |= self._add(EpochEntry(epoch, start_offset))
        return False

    def _add(self, entry: EpochEntry) -> bool:
        entries = self._entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)
        return True

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest epoch not above `epoch` and its end offset (OffsetForLeaderEpoch, KIP-279).

        The newest epoch ends at the log end offset. The result is (-1, -1) for an epoch above the newest. For an epoch
        below all, it is that epoch and the start offset of the first.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self._entries[-1].epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self._entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        floor = None
        for entry in self._entries:
            if entry.epoch > epoch:
                return EpochEntry(floor.epoch if floor else epoch, entry.start_offset)
            floor = entry
        raise AssertionError("an entry above the epoch was seen before")

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch in which `offset` was or would be written; None if it is before the first epoch."""
        found = None
        for entry in self._entries:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that begin at `end_offset` or above. Return whether the file was written."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if len(kept) == len(self._entries):
            return False
        self._entries = kept
        self.write()
        return True

    def truncate_from_start(self, start_offset: int, *, write: bool = True) -> None:
        """Remove the epochs that ended before `start_offset`; the epoch that contains it begins there now.

        Without `write` the file keeps them until it is written for another reason.
        """
        older = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if older and (len(older) > 1 or older[0].start_offset != start_offset):
            self._entries[: len(older)] = [EpochEntry(older[-1].epoch, start_offset)]
            if write:
                self.write()
            else:
                self._unwritten = True

    def replace(self, entries: Sequence[EpochEntry]) -> None:
        """Replace all entries by those of another log."""
        self._entries = list(entries)
        self.write()

    def clear(self) -> None:
        if self._entries:
            self._entries = []
            self.write()

    def write(self) -> None:
        """Write the entries to the file, without an fsync."""
        self._unwritten = True
        write_lines(self._fs, self.path, self._lines())
        self._unwritten = False

    def unwritten(self) -> bytes | None:
        """Return the file content to write at a clean shutdown, or None if the file is up to date."""
        return format_lines(self._lines()) if self._unwritten else None

    def _lines(self) -> list[str]:
        return [f"{epoch} {offset}" for epoch, offset in self._entries]
