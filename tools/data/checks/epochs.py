"""Check that leader-epoch-checkpoint agrees with the leader epoch in each batch."""

from __future__ import annotations

from collections.abc import Iterator

from storage.checkpoints import read_lines
from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.log.leader_epoch import FILE_NAME
from tools.data.checks.findings import Finding, Kind

_NEVER = (1 << 63) - 1


class EpochCheck:
    """The check of one log. Call `see` for each batch, except those of `epoch` below `next_offset`."""

    def __init__(self, directory: str, log_start_offset: int) -> None:
        self.path = f"{directory}/{FILE_NAME}"
        self.epoch = -1
        self.next_offset = 0
        self._log_start_offset = log_start_offset
        self._entries: list[tuple[int, int]] = []
        self._usable = False
        self._exists = True
        self._latest = -1
        self._went_back = False

    def start(self) -> Iterator[Finding]:
        """Read the file and check its entries. Raises OSError."""
        try:
            lines = read_lines(LOCAL, self.path)
            self._exists = lines is not None
            self._entries = [(int(epoch), int(offset)) for epoch, offset in lines or []]
        except CorruptFile as error:
            if LOCAL.read_file(self.path):  # Apache Kafka creates it empty
                yield self._wrong(error.reason)
                return
        except ValueError:
            yield self._wrong("an entry is not an epoch and an offset")
            return
        for number, (before, entry) in enumerate(zip(self._entries, self._entries[1:], strict=False), 1):
            if entry[0] <= before[0] or entry[1] <= before[1]:
                yield self._wrong(f"entry {number} does not grow", entry[1])
                return
        if any(value < 0 for entry in self._entries for value in entry):
            yield self._wrong("an entry is negative")
            return
        self._usable = True

    def see(self, path: str, position: int, offset: int, epoch: int) -> Iterator[Finding]:
        """Check a batch that begins at `offset` and has the leader epoch `epoch`."""
        if epoch < 0:
            return
        if epoch < self._latest:
            self._usable, self.next_offset = False, _NEVER
            self.epoch = epoch
            if self._went_back:
                return
            self._went_back = True
            what = f"the leader epoch {epoch} comes after {self._latest}"
            yield Finding(path, Kind.CONTENT, what, position=position, offset=offset)
            return
        self._latest = epoch
        self.epoch, self.next_offset = epoch, _NEVER
        if not self._usable:
            return
        if not self._exists:
            self._usable = False
            yield self._wrong("the file is missing", offset)
            return
        below = [entry for entry in self._entries if entry[1] <= offset]
        above = next((start for _, start in self._entries if start > offset), _NEVER)
        if (below[-1][0] if below else None) == epoch:
            self.next_offset = above
        elif offset >= self._log_start_offset:
            self._usable = False
            yield self._wrong(f"it does not have the epoch {epoch} of the batch that begins here", offset)
        else:
            self.next_offset = offset + 1

    def finish(self, end_offset: int) -> Iterator[Finding]:
        """Check the entries against the end of the log."""
        for number, (_, start) in enumerate(self._entries if self._usable else ()):
            if start > end_offset:
                yield self._wrong(f"entry {number} begins beyond the end of the log, {end_offset}", start)

    def _wrong(self, what: str, offset: int | None = None) -> Finding:
        return Finding(self.path, Kind.LEADER_EPOCHS, what, offset=offset)
