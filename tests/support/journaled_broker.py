"""A broker that notes each call that changes its disk, so that a test can compute the states after a power loss.

Run as a module, it is the broker's process: `-m tests.support.journaled_broker JOURNAL FILE`.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import storage.fs
from tests.support.brokers import OurBroker
from tests.support.disk_doubles.power_cut import (
    Disk,
    FileJournal,
    JournalingFileSystem,
    read_journal,
)

REPOSITORY = Path(__file__).parents[2]
#: the time of a disk's flush, in which requests arrive
_SYNC_S = 0.003


class SlowSyncs(JournalingFileSystem):
    """Flushes nothing, but takes the time of a flush."""

    def sync(self, handle: int) -> None:
        begin = len(self.sink)
        time.sleep(_SYNC_S)
        self.sink.note("sync", handle, begin)


class JournaledBroker(OurBroker):
    """Our broker, with a journal beside its data. A moment is a size of the journal: all calls so far."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.journal = directory / "journal"
        super().__init__(directory, properties)

    def _command(self, config: Path) -> list[str]:
        python = ["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "tests.support.journaled_broker"]
        return [*python, str(self.journal), str(config)]

    def moment(self) -> int:
        return self.journal.stat().st_size


class Aftermath:
    """The journal of a broker, and the disks it may have left at each moment; a test asks for moments in order."""

    def __init__(self, broker: JournaledBroker) -> None:
        self.calls = list(read_journal(broker.journal))
        self.ends = list(read_ends(broker.journal))
        self.disk = Disk(broker.directory)
        self._followed = 0

    def syncs(self) -> list[int]:
        """Return the moments just before the end of a sync."""
        return [end - 1 for end, call in zip(self.ends, self.calls, strict=True) if call[0].startswith("sync")]

    def at(self, moment: int) -> Disk:
        """Return the disk with all calls that had ended by then."""
        until = bisect_left(self.ends, moment + 1)
        for call in self.calls[self._followed : until]:
            self.disk.follow(call)
        self._followed = until
        return self.disk


def read_ends(journal: Path) -> list[int]:
    """Return where each call of a journal ends."""
    data, position, ends = journal.read_bytes(), 0, []
    while position + 4 <= len(data):
        position += 4 + int.from_bytes(data[position : position + 4], "big")
        if position <= len(data):
            ends.append(position)
    return ends


def main() -> int:
    journal, config = sys.argv[1:]
    storage.fs.LOCAL = SlowSyncs(FileJournal(journal))
    from broker.main import main as broker_main

    return broker_main([config])


if __name__ == "__main__":
    sys.exit(main())
