"""The state of one partition of `__share_group_state`: share-partitions by key.

Only `replay` changes stored state, both for records just written and for records that are loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from coordinator.effects import Effects
from coordinator.shard import no_skim, pack_none
from coordinator.share.records import ShareRecord, SnapshotRecord, parse_record
from coordinator.share.state import ShareKey, ShareState, apply_update
from protocol.records.batch import NO_PRODUCER_ID

ShareEffects: TypeAlias = Effects[ShareRecord]


class ShareCoordinatorSettings(msgspec.Struct, frozen=True):
    """The broker's settings for the share coordinator. Names and defaults are Kafka's."""

    #: share.coordinator.snapshot.update.records.per.snapshot
    updates_per_snapshot: int = 500
    #: share.coordinator.cold.partition.snapshot.interval.ms
    cold_snapshot_interval_ms: int = 300_000


class ShareShard:
    """The share-partitions whose keys hash to one partition.

    `update_counts`: number of records since the last snapshot; `snapshot_offsets`: the offset of the last snapshot;
    `end_offset`: the offset after the last record.
    """

    __slots__ = (
        "end_offset",
        "partition",
        "settings",
        "snapshot_offsets",
        "states",
        "unknown_records",
        "update_counts",
    )

    def __init__(self, partition: int, settings: ShareCoordinatorSettings) -> None:
        self.partition = partition
        self.settings = settings
        self.states: dict[ShareKey, ShareState] = {}
        self.update_counts: Counter[ShareKey] = Counter()
        self.snapshot_offsets: dict[ShareKey, int] = {}
        self.end_offset = 0
        #: Records that loading ignored, by the reason.
        self.unknown_records: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.states)

    @property
    def needed_from(self) -> int:
        """The first offset of the log that is still needed: the lowest offset of the last snapshots."""
        return min(self.snapshot_offsets.values(), default=self.end_offset)

    skim = staticmethod(no_skim)
    pack = staticmethod(pack_none)

    def parse(self, key: bytes | None, value: bytes | None) -> ShareRecord:
        """Parse a record. Raises UnknownRecord."""
        return parse_record(key, value)

    def replay_all(self, records: Sequence[ShareRecord], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply records with consecutive offsets, from `offset` on."""
        for place, record in enumerate(records, offset):
            self.replay(record, place, producer_id)

    def replay(self, record: ShareRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log."""
        share = record.share
        self.end_offset = offset + 1
        if isinstance(record, SnapshotRecord):
            self.update_counts.pop(share, None)
            if record.state is None:
                self.states.pop(share, None)
                self.snapshot_offsets.pop(share, None)
            else:
                self.states[share] = record.state
                self.snapshot_offsets[share] = offset
            return
        state = self.states.get(share)
        if state is not None and record.update is not None:  # without a snapshot an update has no base
            self.states[share] = apply_update(state, record.update, state.write_timestamp_ms)
            self.update_counts[share] += 1

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Do nothing: no record here is part of a transaction."""
