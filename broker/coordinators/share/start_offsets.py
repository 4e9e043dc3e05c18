"""Where a share group begins in a partition that it has no start offset for (share.auto.offset.reset)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.replicas.remote_reads import find_in_both_tiers
from runtime.deferred import Deferred
from storage.log.timestamps import TimestampAndOffset

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.replicas.remote_reads import RemoteReads
    from broker.replicas.time_look_ups import TimeLookUps
    from coordinator.share.state import ShareKey
    from runtime.clock import Clock

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d*)?)S)?)?",
    re.IGNORECASE,
)


class StateLoading(Exception):
    """The share coordinator is still loading, or the group's start offset is still being looked up: retry."""


class StartOffsets:
    """The start offsets of new groups. Look-ups by timestamp that did not finish at once are kept."""

    def __init__(self, clock: Clock, look_ups: TimeLookUps, remote_reads: RemoteReads | None = None) -> None:
        self._clock = clock
        self._look_ups = look_ups
        self._remote_reads = remote_reads
        self._pending: dict[ShareKey, Deferred[TimestampAndOffset | None]] = {}

    def find(self, key: ShareKey, partition: Partition, offset_reset: str, is_committed_only: bool) -> int:
        """Return the offset that `offset_reset` names. Raises StateLoading during a look-up."""
        if offset_reset == "earliest":
            return partition.log_start_offset
        duration = _DURATION.fullmatch(offset_reset)
        found = None if duration is None else self._first_record(key, partition, _duration_ms(duration))
        end_offset = partition.last_stable_offset if is_committed_only else partition.high_watermark
        return end_offset if found is None or found.offset > end_offset else found.offset

    def forget(self, is_meant: Callable[[ShareKey], bool]) -> None:
        """Drop look-ups: the state was changed or deleted meanwhile."""
        for key in [each for each in self._pending if is_meant(each)]:
            del self._pending[key]

    def _first_record(self, key: ShareKey, partition: Partition, duration_ms: int) -> TimestampAndOffset | None:
        """Return the first record that is not older than `duration_ms`. Raises StateLoading during the look-up."""
        found = self._pending.pop(key, None)
        if found is None:
            look_ups, reads = self._look_ups, self._remote_reads
            since_ms = self._clock.now_ms() - duration_ms
            deadline_ms = 0 if reads is None else self._clock.monotonic_ms() + reads.look_up_ms
            now = look_ups.run(find_in_both_tiers(reads, partition, since_ms, look_ups.allowance, deadline_ms))
            if not isinstance(now, Deferred):
                return now
            found = now
        if not found.done:
            self._pending[key] = found
            raise StateLoading
        return found.result()


def _duration_ms(duration: re.Match[str]) -> int:
    parts = {name: float((text or "0").replace(",", ".")) for name, text in duration.groupdict().items()}
    seconds = ((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]
    return int(seconds * 1000)
