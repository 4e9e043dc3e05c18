"""A transaction that is decided, until all of its partitions have their markers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from broker.coordinators.transaction.markers import Marker, MarkerWriter
from coordinator.transaction.transaction import TopicPartition
from protocol.errors import ErrorCode
from runtime.deferred import Deferred
from storage.errors import LogOffline

if TYPE_CHECKING:
    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: How long until partitions are asked again that could not take their markers: at first, then twice as long each time.
RETRY_MS = 200
LONGEST_RETRY_MS = 10_000

#: Where a marker has no place any more: the topic is gone, or a later epoch has ended the transaction there.
_NOTHING_TO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)


class Ending:
    """Writes the markers, again where that fails, and calls `on_done()` when none is missing.

    Args:
        markers: writes a marker into a partition, whichever process has it.
        forced: gives what the first marker has to wait for, the decision on its way to the disk; None: for nothing.
    """

    __slots__ = (
        "_cancelled",
        "_forced",
        "_marker",
        "_markers",
        "_missing",
        "_name",
        "_on_done",
        "_pending",
        "_retry",
        "_retry_ms",
        "_timers",
    )

    def __init__(
        self,
        timers: Timers,
        markers: MarkerWriter,
        name: str,
        marker: Marker,
        partitions: Collection[TopicPartition],
        forced: Callable[[], Deferred[None] | None],
        on_done: Callable[[], None],
    ) -> None:
        self._timers = timers
        self._markers = markers
        self._name = name
        self._marker = marker
        self._missing: dict[TopicPartition, ErrorCode] = dict.fromkeys(sorted(partitions), ErrorCode.NONE)
        self._forced = forced
        self._on_done = on_done
        self._pending = 0
        self._retry: Timer | None = None  # of `write`
        self._retry_ms = RETRY_MS
        self._cancelled = False

    def begin(self) -> None:
        """`write` once the decision is where it has to be: no partition may know more of it than the coordinator."""
        if self._cancelled:
            return
        forced = self._forced()
        if forced is None:
            self.write()
        else:
            forced.add_done_callback(self._on_forced)

    def write(self) -> None:
        """Ask all partitions whose marker is missing."""
        if self._cancelled:
            return
        self._pending = 1  # this loop
        for place in list(self._missing):
            try:
                answer = self._markers.write(self._marker, *place)
            except Exception:  # the others, and the next attempt, are not to wait for ever
                log.exception("Writing a marker of %s into %s-%d failed", self._name, *place)
                continue
            if isinstance(answer, Deferred):
                self._pending += 1
                answer.add_done_callback(lambda done, place=place: self._on_answer(place, done))  # type: ignore[misc]
            else:
                self._note(place, answer)
        self._one_answered()

    def cancel(self) -> None:
        """Somebody else will end it, or nobody."""
        self._cancelled = True

    def again(self) -> None:
        """`write` a little later."""
        self._retry = self._call_later(self.write)

    def hurry(self, is_ready: Callable[[TopicPartition], bool]) -> None:
        """Partitions are ready: if one is among them that is waited for, `write` now."""
        if self._retry is not None and self._retry.active and any(map(is_ready, self._missing)):
            self._retry.cancel()
            self.write()

    def _call_later(self, step: Callable[[], None]) -> Timer:
        timer = self._timers.call_later(self._retry_ms, step)
        self._retry_ms = min(2 * self._retry_ms, LONGEST_RETRY_MS)
        return timer

    def _on_forced(self, done: Deferred[None]) -> None:
        try:
            done.result()
        except LogOffline:  # it may be no fault of the disk: then the shard stays, and so does what it has to do
            self._call_later(self.begin)
        else:
            self.write()

    def _on_answer(self, place: TopicPartition, done: Deferred[ErrorCode]) -> None:
        try:
            self._note(place, done.result())
        except LogOffline as error:
            log.error("The marker of %s in %s-%d is not on the disk: %s", self._name, *place, error)
        except Exception:
            log.exception("Writing a marker of %s into %s-%d failed", self._name, *place)
        self._one_answered()

    def _note(self, place: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            del self._missing[place]
        elif code in _NOTHING_TO_END:
            log.info("No marker of %s is written into %s-%d: %s", self._name, *place, code.name)
            del self._missing[place]
        elif self._missing[place] is not code:
            self._missing[place] = code
            if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:  # for administrators to see, and to repair
                log.error("A later coordinator than that of %s has written to %s-%d: no marker", self._name, *place)

    def _one_answered(self) -> None:
        self._pending -= 1
        if self._pending or self._cancelled:
            return
        if self._missing:
            self.again()
        else:
            self._on_done()
