"""Track transactions while the cleaner reads a log: which batches were aborted, and which markers are obsolete.

Records of aborted transactions are removed at once. A marker is removed when no batch of its transaction is left before
it and its delete horizon has passed (KIP-534): a lagging reader may have read those batches. The entry in the
transaction index is kept as long as the log has batches of the aborted transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.records.batch import BatchHeader
from protocol.records.control import ControlType, control_type
from protocol.records.record import iter_batch_records
from storage.index.transaction import AbortedTransaction


class CleanedTransactions:
    """The transactions of a log. It must see all batches in order.

    `seen_aborted`: transactions of which a batch and then the marker were read.
    """

    __slots__ = ("_committed", "_ongoing", "_waiting", "seen_aborted")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        #: Aborted transactions that begin later, sorted so that the next one is last.
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        #: By producer: the open aborted transaction, and whether one of its batches was read.
        self._ongoing: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self.seen_aborted: list[AbortedTransaction] = []

    def note_data(self, header: BatchHeader) -> bool:
        """Process a data batch. Return whether it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing.get(header.producer_id)
        if ongoing is None or ongoing[0].last_offset < header.base_offset:
            self._committed.add(header.producer_id)
            return False
        self._ongoing[header.producer_id] = (ongoing[0], True)
        return True

    def note_control(self, batch: memoryview, header: BatchHeader) -> bool:
        """Process a control batch. Return whether nothing is left of the transaction that it ends.

        Raises InvalidRecord if it has no control record.
        """
        self._begin_up_to(header.last_offset)
        record = next(iter_batch_records(batch, header), None)
        if record is None:
            return True
        kind = control_type(record)
        if kind is ControlType.ABORT:
            ongoing = self._ongoing.pop(header.producer_id, None)
            if ongoing is not None and ongoing[1] and ongoing[0].last_offset >= header.base_offset:
                self.seen_aborted.append(ongoing[0])
                return False
            return True
        if kind is ControlType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            transaction = self._waiting.pop()
            ongoing = self._ongoing.get(transaction.producer_id)
            if ongoing is None or ongoing[0].last_offset < transaction.first_offset:
                self._ongoing[transaction.producer_id] = (transaction, False)
