"""Retention and readers whose offsets are not committed here: it warns about them, and may wait for them.

Where a topic's retention.hold.max.bytes is not 0, segments that such a reader has not read are kept, up to that size
(storage/log/retention.py). In any case the broker logs one warning before retention removes unread records, and one
after it has. It repeats them only if the reader has caught up in between.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from config import BrokerConfig
from storage.checkpoints import PARTITION_METADATA, TopicPartition
from storage.log.partition_log import PartitionLog
from storage.log.retention import expired_segments, released_segments
from storage.segment.segment import Segment

log = logging.getLogger(__name__)

#: The broker warns when at most this fraction of retention.ms or retention.bytes is left, or two rounds of retention
#: before the records are removed.
_MARGIN = 10
_ROUNDS = 2
#: It also warns when at most this fraction of the bytes that may be held is left.
_HELD_MARGIN = 5
#: A time, in ms, later than any other.
_LATER = 1 << 63


class Reader(Protocol):
    """A reader that keeps its offsets elsewhere. The loop calls it, so it answers from memory.

    - `positions`: the offset that is read next in each partition; the lowest one if it stands for several readers
    - `is_complete`: False while there may be unknown readers; then all records count as unread
    - `name_of`: for log lines, the reader that is furthest behind in a partition
    - `readers_from_beginning`: readers of the topic that do not know the partition yet, and since when (ms) they read
      the topic. They read a partition that was created after that from its beginning.
    - `stop`: called last, when no more questions follow
    """

    @property
    def is_complete(self) -> bool: ...

    def positions(self) -> Mapping[TopicPartition, int]: ...

    def name_of(self, place: TopicPartition) -> str: ...

    def readers_from_beginning(self, place: TopicPartition) -> Sequence[tuple[str, int]]: ...

    def stop(self) -> None: ...


class _Level(IntEnum):
    """How close retention is to a reader's next offset."""

    NEAR = 1
    HELD = 2
    NEARLY_FULL = 3
    PASSED = 4


@dataclass(slots=True)
class _State:
    """The state of a log: the warnings since its readers last caught up, and the bytes that are held."""

    level: _Level
    held_bytes: int


class RetentionHolds:
    """Tracks readers that are behind, and the records held for them. Belongs to the event loop's thread."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._readers: list[Reader] = []
        self._states: dict[PartitionLog, _State] = {}
        self._log = log

    def add(self, reader: Reader) -> None:
        """Track a reader, and hold records for it, from now on."""
        self._readers.append(reader)

    def stop(self) -> None:
        """Stop all readers."""
        for reader in self._readers:
            reader.stop()

    def held_bytes(self) -> Mapping[TopicPartition, int]:
        """The bytes held of each partition beyond its retention, as of the last round."""
        states = {(each.topic, each.partition): state for each, state in self._states.items() if not each.closed}
        return {place: state.held_bytes for place, state in states.items() if state.held_bytes}

    def unread_from(self, partition_log: PartitionLog) -> int | None:
        """Return the lowest offset that a reader has not read; None if there is none."""
        if not all(reader.is_complete for reader in self._readers):
            return 0
        behind = self._furthest_behind(partition_log)
        return None if behind is None else behind[0]

    def _furthest_behind(self, partition_log: PartitionLog) -> tuple[int, str] | None:
        """Return the lowest offset that is read next, and its reader."""
        place = partition_log.topic, partition_log.partition
        found = [(offset, reader) for reader in self._readers if (offset := reader.positions().get(place)) is not None]
        awaited = [each for reader in self._readers for each in reader.readers_from_beginning(place)]
        if awaited:
            made_ms = _made_ms(partition_log)
            for name, begun_ms in awaited:
                if begun_ms <= made_ms:
                    return 0, name
        if not found:
            return None
        offset, reader = min(found, key=lambda each: each[0])
        return offset, reader.name_of(place)

    # -- warnings ----------------------------------------------------------------------------------------------------

    def forget_gone(self) -> None:
        """Forget the state of logs that no longer exist."""
        for gone in [each for each in self._states if each.closed]:
            del self._states[gone]

    @property
    def has_readers(self) -> bool:
        """Whether there are any."""
        return bool(self._readers)

    def warn_if_close(self, partition_log: PartitionLog, now_ms: int) -> None:
        """Warn if retention is close to readers. Call it before retention is applied."""
        if not self._readers or partition_log.closed or not partition_log.directory.is_online:
            return
        behind = self._furthest_behind(partition_log)
        if behind is None and self.unread_from(partition_log) is None:
            self._states.pop(partition_log, None)
            return
        try:
            level, held_bytes, start = self._outlook(partition_log, now_ms, behind[0] if behind is not None else None)
        except OSError:  # retention itself meets the error, and handles it
            return
        if level is None:
            self._states.pop(partition_log, None)
            return
        state = self._states.get(partition_log)
        if state is None or level > state.level:
            self._log_level(partition_log, level, behind, held_bytes, start)
        highest = level if state is None else max(level, state.level)
        self._states[partition_log] = _State(highest, held_bytes)

    def _outlook(
        self, partition_log: PartitionLog, now_ms: int, position: int | None
    ) -> tuple[_Level | None, int, int]:
        """Return how close retention is to the reader at `position`, the held bytes, and the resulting log start."""
        limit = partition_log.config.retention_hold_max_bytes
        expired = released = expired_segments(partition_log, now_ms)
        unread_from = self.unread_from(partition_log)
        if limit and unread_from is not None:
            released = released_segments(partition_log, expired, unread_from)
        held_bytes = sum(segment.size_bytes for segment in expired[len(released) :])
        start = _start_without(partition_log, released)
        if position is not None and position < start:
            return _Level.PASSED, held_bytes, start
        if held_bytes:
            is_nearly_full = held_bytes > limit - limit // _HELD_MARGIN
            return (_Level.NEARLY_FULL if is_nearly_full else _Level.HELD), held_bytes, start
        if position is not None and self._is_near(partition_log, now_ms, position):
            return _Level.NEAR, 0, start
        return None, 0, start

    def _is_near(self, partition_log: PartitionLog, now_ms: int, position: int) -> bool:
        config = partition_log.config
        rounds_ms = _ROUNDS * self._config.get_int("log.retention.check.interval.ms")
        margin_ms = max(rounds_ms, config.retention_ms // _MARGIN)
        margin_bytes = max(0, config.retention_bytes) // _MARGIN
        soon = expired_segments(partition_log, now_ms + margin_ms, margin_bytes=margin_bytes)
        return _start_without(partition_log, soon) > position

    def _log_level(
        self, partition_log: PartitionLog, level: _Level, behind: tuple[int, str] | None, held_bytes: int, start: int
    ) -> None:
        name, limit = partition_log.name, partition_log.config.retention_hold_max_bytes
        where = f"{behind[1]} has read it up to offset {behind[0]}" if behind is not None else "its readers are unknown"
        if level is _Level.NEAR:
            self._log.warning("Retention of %s will soon remove unread records: %s", name, where)
        elif level is _Level.PASSED:
            self._log.warning(
                "Retention of %s has removed unread records: %s; the log begins at %d", name, where, start
            )
        else:
            full = "; beyond that the oldest are removed" if level is _Level.NEARLY_FULL else ""
            details = (name, where, held_bytes, limit, full)
            self._log.warning("Retention of %s is on hold: %s; %d of at most %d bytes are held%s", *details)


def _made_ms(partition_log: PartitionLog) -> int:
    """Return when a partition was created, as its directory shows; a copy made later counts as later."""
    try:
        return os.stat(f"{partition_log.path}/{PARTITION_METADATA}").st_mtime_ns // 1_000_000
    except OSError:
        return _LATER


def _start_without(partition_log: PartitionLog, segments: list[Segment]) -> int:
    """Return where the log begins without its first segments."""
    if not segments:
        return partition_log.log_start_offset
    following = partition_log.segments.after(segments[-1])
    end = partition_log.log_end_offset if following is None else following.base_offset
    return max(partition_log.log_start_offset, end)
