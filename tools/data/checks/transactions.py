"""Check that transaction indexes agree with the batches of the log on each aborted transaction.

The check follows the batches, as recovery does. The cleaner removes the records of aborted transactions and later their
markers, so the check of an entry is weaker where offsets are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.records.batch import BatchHeader
from storage.errors import CorruptFile
from storage.index.transaction import AbortedTransaction, TransactionIndex
from storage.open_files import OpenFiles
from storage.producers.markers import note_batch
from storage.producers.state import ProducerState
from tools.data.checks.findings import Finding, Kind

_ENTRY_BYTES = 34


class TransactionCheck:
    """The check of one log. `knows_all`: the initial state is complete, so an unexpected entry is an error.

    The caller sets `has_gaps` once offsets are missing.
    """

    def __init__(self, files: OpenFiles, state: ProducerState, *, knows_all: bool) -> None:
        self._files = files
        self._state = state
        self._knows_all = knows_all
        self.has_gaps = False
        self._expected: list[AbortedTransaction] = []
        self._markers: dict[int, tuple[int, bool]] = {}

    def see(self, batch: memoryview, header: BatchHeader, last_offset: int) -> None:
        """Process a batch of a producer."""
        marker = note_batch(self._state, self._expected, batch, header, last_offset)
        if marker is not None:
            self._markers[last_offset] = header.producer_id, marker.aborted

    def end_segment(self, path: str, *, exists: bool, base_offset: int, end_offset: int) -> Iterator[Finding]:
        """Compare the index in `path` with the batches since the end of the last segment. Raises OSError."""
        expected = {entry.last_offset: entry for entry in self._expected}
        markers, self._expected, self._markers = self._markers, [], {}
        try:
            entries = TransactionIndex(self._files, path, exists=exists).entries()
        except CorruptFile as error:
            yield Finding(path, Kind.TRANSACTION_INDEX, error.reason)
            return
        before = -1
        for number, entry in enumerate(entries):
            what = None
            offset = entry.last_offset
            wanted = expected.pop(offset, None)
            if not max(base_offset, before + 1) <= offset < end_offset:
                what = "does not grow, or is outside of the segment"
            elif wanted is not None and not self._agrees(entry, wanted):
                what = f"says {tuple(entry)}, where the records say {tuple(wanted)}"
            elif wanted is None and not self._may_be(entry, markers):
                what = "names a transaction that is not in the records"
            if what is not None:
                position = number * _ENTRY_BYTES
                yield Finding(path, Kind.TRANSACTION_INDEX, f"entry {number} {what}", position=position, offset=offset)
            before = offset
        for entry in expected.values():
            what = f"the aborted transaction of producer {entry.producer_id} that ends here is missing"
            yield Finding(path, Kind.TRANSACTION_INDEX, what, offset=entry.last_offset)

    def _agrees(self, entry: AbortedTransaction, wanted: AbortedTransaction) -> bool:
        if self.has_gaps:
            return entry.producer_id == wanted.producer_id and entry.first_offset <= wanted.first_offset
        return entry == wanted

    def _may_be(self, entry: AbortedTransaction, markers: dict[int, tuple[int, bool]]) -> bool:
        marker = markers.get(entry.last_offset)
        if marker is None:
            return self.has_gaps
        return marker == (entry.producer_id, True) and (self.has_gaps or not self._knows_all)
