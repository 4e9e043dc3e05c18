"""Load a metadata log into an image: replay the records in order, and resolve the log's transactions (KIP-868).

Records between BeginTransactionRecord and EndTransactionRecord count only once the end is read. AbortTransactionRecord
drops them. A transaction that is still open at the end of the log is dropped, too, and the next leader has to write an
abort.
"""

from __future__ import annotations

from metadata import quota_order
from metadata.bulk_records import ChangeReader, PartitionReader
from metadata.delta import Delta
from metadata.framing import AnyRecord, MetadataRecord, decode_record
from metadata.image import MetadataImage
from metadata.replay import ReplayError, replay, replay_change, replay_registration
from protocol.messages.cluster_metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord


class MetadataLoader:
    """Feeds the records of a log, or of a snapshot and the log after it, into an image."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.image = image or MetadataImage()
        self._delta = Delta()
        self._open: list[AnyRecord] | None = None
        self._partitions = PartitionReader()
        self._changes = ChangeReader()

    @property
    def deleted_topics(self) -> set[bytes]:
        """The ids of the topics that were deleted: the broker may have crashed before it removed their directories."""
        return {topic.topic_id for topic in self._delta.deleted_topics}

    def take_delta(self) -> Delta:
        """Return the changes since the last call, without the partitions that `feed_value` has created."""
        delta, self._delta = self._delta, Delta()
        if len(delta.new_quotas) > 1:
            quota_order.reorder_new(self.image.client_quotas, delta.new_quotas)
        return delta

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open is not None

    def feed_value(self, data: bytes) -> None:
        """Process the bytes of the next record of the log. Raises ProtocolError, ReplayError."""
        found = None if self._open is not None else self._partitions.read(data)
        if found is None:
            self.feed_live(data)
        else:
            replay_registration(self.image, *found)

    def feed_live(self, data: bytes) -> None:
        """Process a record as `feed_value` does; `take_delta` returns all of its changes."""
        found = None if self._open is not None else self._changes.read(data)
        if found is None:
            self.feed(decode_record(data))
        else:
            replay_change(self.image, *found, self._delta)

    def feed(self, record: AnyRecord) -> None:
        """Process the next record of the log. Raises ReplayError."""
        if not isinstance(record, MetadataRecord):
            self._apply(record)
        elif record.message is BeginTransactionRecord:
            if self._open is not None:
                raise ReplayError("a metadata transaction begins within another")
            self._open = []
        elif record.message is EndTransactionRecord:
            for held in self._close("ends"):
                self._replay(held)
        elif record.message is AbortTransactionRecord:
            self._close("is aborted")
        else:
            self._apply(record)

    def _apply(self, record: AnyRecord) -> None:
        if self._open is None:
            self._replay(record)
        else:
            self._open.append(record)

    def _replay(self, record: AnyRecord) -> None:
        replay(self.image, record, self._delta)

    def _close(self, how: str) -> list[AnyRecord]:
        if self._open is None:
            raise ReplayError(f"a metadata transaction {how} that never began")
        held, self._open = self._open, None
        return held
