"""Fill the gaps of a copy, a part at a time, so that a long gap of one partition does not hold up the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session
from pybroker.mirror.partition import CopiedPartition, NotACopy

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

#: The key of records that fill gaps: a compacted topic keeps one of them at most, and later none.
_FILLER = b"pybroker.mirror"
_PART_S = 0.5


class Filling:
    """Fills gaps with records or with transaction markers.

    Args:
        produce: sends a record at the next offset; False if the partition was dropped.
        flush: waits for the acknowledgements of a partition; False if it was dropped.
        only_records: use no markers.
    """

    def __init__(
        self,
        target: Session,
        markers: Callable[[], Markers],
        produce: Callable[[Place, Any, Any, int, Any], bool],
        flush: Callable[[Place], bool],
        *,
        only_records: bool,
    ) -> None:
        self._target = target
        self._markers = markers
        self._produce = produce
        self._flush = flush
        self._only_records = only_records

    def work(self, place: Place, copied: CopiedPartition, until: int) -> None:
        """Fill the copy up to the offset `until`, or as far as half a second suffices. Raises CommandError.

        Offsets before the first record of the source get records, which are deleted soon.
        """
        end_s = time.monotonic() + _PART_S
        until_records = until if self._only_records else min(until, copied.start)
        while copied.next < until_records:
            if not self._produce(place, _FILLER, None, int(time.time() * 1000), []) or time.monotonic() > end_s:
                return
        if copied.next == until or not self._flush(place):
            return
        while copied.next < until and time.monotonic() < end_s:
            self._markers().write(place)
            due = copied.next + 1
            end = self._wait_for_end(place, due)
            if end > due:
                raise NotACopy(f"{place[0]}-{place[1]}: the copy grows by itself: another producer writes to it")
            copied.next = end
            copied.move_to(end)

    def _wait_for_end(self, place: Place, due: int) -> int:
        deadline = time.monotonic() + self._target.timeout_s
        while (end := self._target.ends([place])[place]) < due:
            if time.monotonic() > deadline:
                raise CommandError(f"{place[0]}-{place[1]}: the copy does not reach offset {due}")
            time.sleep(0.001)
        return end
