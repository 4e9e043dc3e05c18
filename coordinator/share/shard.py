"""The state that one partition of `__share_group_state` stands for: share-partitions by key.

Refused: any change of what is stored but by `replay`, which serves records just written and records loaded alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from coordinator.effects import Effects
from coordinator.shard import no_skim, pack_none
from coordinator.share.records import ShareRecord, SnapshotRecord, parse_record
from coordinator.share.state import ShareKey, ShareState, updated
from protocol.records.batch import NO_PRODUCER_ID

ShareEffects: TypeAlias = Effects[ShareRecord]


class ShareCoordinatorSettings(msgspec.Struct, frozen=True):
    """The broker's settings that the share coordinator obeys; names and defaults are Kafka's."""

    #: share.coordinator.snapshot.update.records.per.snapshot
    updates_per_snapshot: int = 500
    #: share.coordinator.cold.partition.snapshot.interval.ms
    cold_snapshot_interval_ms: int = 300_000


class ShareShard:
    """Share-partitions whose keys hash to one partition.

    `update_counts`: records since the last snapshot; `snapshot_offsets`: where that is. `end_offset`: behind the last
    record.
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
        #: Records that loading left alone, by what is strange about them.
        self.unknown_records: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.states)

    @property
    def needed_from(self) -> int:
        """The first offset of the log that still says anything: of the oldest snapshot that is a last one."""
        return min(self.snapshot_offsets.values(), default=self.end_offset)

    skim = staticmethod(no_skim)
    pack = staticmethod(pack_none)

    def parse(self, key: bytes | None, value: bytes | None) -> ShareRecord:
        """The record of these bytes; raises UnknownRecord."""
        return parse_record(key, value)

    def replay_all(self, records: Sequence[ShareRecord], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """`replay` records that stand one behind the other in the log, from `offset` on."""
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
        if state is not None and record.update is not None:  # without a snapshot it has nothing to add to
            self.states[share] = updated(state, record.update, state.write_timestamp_ms)
            self.update_counts[share] += 1

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Nothing here is part of transactions."""
