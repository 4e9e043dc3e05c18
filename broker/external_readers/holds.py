"""Retention and those who read topics by offsets that are not committed here: it warns of them, and may wait for them.

Where a topic's retention.hold.max.bytes is not 0, segments that such a reader has still to read stay up to that size
(storage/log/retention.py). Held or not: before retention takes what a reader has not read the broker's log says so
once, and once more when it has; again only when the reader was out of its reach in between.
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

#: A reader is warned of when no more than this part of retention.ms or retention.bytes is left, and at the latest two
#: rounds of retention before.
_MARGIN = 10
_ROUNDS = 2
#: And when no more than this part of what may be held is left.
_HELD_MARGIN = 5
#: A time, in ms, that is later than any.
_LATER = 1 << 63


class Reader(Protocol):
    """Somebody whose offsets are kept elsewhere; asked on the loop, so it answers from memory.

    `positions` are the offsets that are read next, of all partitions that are known to be read: the lowest of each
    where it stands for many. `is_complete` is False while there may be others of which nothing is known: then all
    records count as unread. `name_of` is who is furthest behind in a partition, for the log. `awaited_by` are those who
    read a partition's topic and not the partition, and since when (ms): one that was made after that they have yet to
    find, and read from its beginning. `stop`: nothing is asked of it any more.
    """

    @property
    def is_complete(self) -> bool: ...

    def positions(self) -> Mapping[TopicPartition, int]: ...

    def name_of(self, place: TopicPartition) -> str: ...

    def awaited_by(self, place: TopicPartition) -> Sequence[tuple[str, int]]: ...

    def stop(self) -> None: ...


class _Level(IntEnum):
    """How near retention has come to a reader."""

    NEAR = 1
    HELD = 2
    NEARLY_FULL = 3
    PASSED = 4


@dataclass(slots=True)
class _State:
    """Of a log: what has been told since its readers were last out of retention's reach, and what is held."""

    told: _Level
    held_bytes: int


class RetentionHolds:
    """Who is behind, and what is held for them. Belongs to the event loop's thread."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._readers: list[Reader] = []
        self._states: dict[PartitionLog, _State] = {}
        self._log = log

    def add(self, reader: Reader) -> None:
        """Watch a reader, and hold records for it, from now on."""
        self._readers.append(reader)

    def stop(self) -> None:
        """End what readers do to know where they are."""
        for reader in self._readers:
            reader.stop()

    def held_bytes(self) -> Mapping[TopicPartition, int]:
        """What is held of each partition beyond its retention, as of the last round of it."""
        states = {(each.topic, each.partition): state for each, state in self._states.items() if not each.closed}
        return {place: state.held_bytes for place, state in states.items() if state.held_bytes}

    def unread_from(self, partition_log: PartitionLog) -> int | None:
        """From which offset on somebody has still to read it; None: nobody."""
        if not all(reader.is_complete for reader in self._readers):
            return 0
        behind = self._furthest_behind(partition_log)
        return None if behind is None else behind[0]

    def _furthest_behind(self, partition_log: PartitionLog) -> tuple[int, str] | None:
        """The lowest offset that is read next, and by whom."""
        place = partition_log.topic, partition_log.partition
        found = [(offset, reader) for reader in self._readers if (offset := reader.positions().get(place)) is not None]
        awaited = [each for reader in self._readers for each in reader.awaited_by(place)]
        if awaited:
            made_ms = _made_ms(partition_log)
            for name, begun_ms in awaited:
                if begun_ms <= made_ms:
                    return 0, name
        if not found:
            return None
        offset, reader = min(found, key=lambda each: each[0])
        return offset, reader.name_of(place)

    # -- what is told ------------------------------------------------------------------------------------------------

    def forget_gone(self) -> None:
        """Forget what is known of logs that are no more."""
        for gone in [each for each in self._states if each.closed]:
            del self._states[gone]

    def look_at(self, partition_log: PartitionLog, now_ms: int) -> None:
        """Tell how near retention is to readers; to be called before it is done."""
        if not self._readers or partition_log.closed or not partition_log.directory.is_online:
            return
        behind = self._furthest_behind(partition_log)
        if behind is None and self.unread_from(partition_log) is None:
            self._states.pop(partition_log, None)
            return
        try:
            level, held_bytes, start = self._outlook(partition_log, now_ms, behind[0] if behind is not None else None)
        except OSError:  # retention itself comes upon it, and sees to it
            return
        if level is None:
            self._states.pop(partition_log, None)
            return
        state = self._states.get(partition_log)
        if state is None or level > state.told:
            self._tell(partition_log, level, behind, held_bytes, start)
        told = level if state is None else max(level, state.told)
        self._states[partition_log] = _State(told, held_bytes)

    def _outlook(
        self, partition_log: PartitionLog, now_ms: int, position: int | None
    ) -> tuple[_Level | None, int, int]:
        """How near it is to the reader at `position`, the bytes that are held, and where the log begins then."""
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

    def _tell(
        self, partition_log: PartitionLog, level: _Level, behind: tuple[int, str] | None, held_bytes: int, start: int
    ) -> None:
        name, limit = partition_log.name, partition_log.config.retention_hold_max_bytes
        where = (
            f"{behind[1]} has read it up to offset {behind[0]}" if behind is not None else "nobody knows who reads it"
        )
        if level is _Level.NEAR:
            self._log.warning("Retention of %s will soon take what has not been read: %s", name, where)
        elif level is _Level.PASSED:
            self._log.warning(
                "Retention of %s has taken what had not been read: %s, it begins at %d", name, where, start
            )
        else:
            full = ", beyond which the oldest will go" if level is _Level.NEARLY_FULL else ""
            told = (name, where, held_bytes, limit, full)
            self._log.warning("Retention of %s waits: %s; %d bytes are held, of %d at most%s", *told)


def _made_ms(partition_log: PartitionLog) -> int:
    """When a partition was made, as far as its directory says: one that was brought here later counts as later."""
    try:
        return os.stat(f"{partition_log.path}/{PARTITION_METADATA}").st_mtime_ns // 1_000_000
    except OSError:
        return _LATER


def _start_without(partition_log: PartitionLog, segments: list[Segment]) -> int:
    """Where the log begins without its first segments."""
    if not segments:
        return partition_log.log_start_offset
    following = partition_log.segments.after(segments[-1])
    end = partition_log.log_end_offset if following is None else following.base_offset
    return max(partition_log.log_start_offset, end)
