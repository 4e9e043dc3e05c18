"""Ends a decided transaction: writes a marker into each of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from broker.coordinators.transaction.markers import Marker, MarkerWriter
from broker.requests.error_code_map import NotCommitted
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from storage.errors import LogOffline

if TYPE_CHECKING:
    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: Delay before markers that failed are written again. It doubles at each attempt.
RETRY_MS = 200
LONGEST_RETRY_MS = 10_000

#: Errors that make a marker unnecessary: the topic is deleted, or a later epoch has ended the transaction there.
_NOTHING_TO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)


class Ending:
    """Writes the markers, retries those that fail, and calls `on_done()` when all are written.

    Args:
        markers: writes a marker into a partition, whichever process hosts it.
        forced: returns the flush of the decision, for which the first marker waits; None if there is none.
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
        """Call `write` once the decision is on disk: no partition may know more of it than the coordinator."""
        if self._cancelled:
            return
        forced = self._forced()
        if forced is None:
            self.write()
        else:
            forced.add_done_callback(self._on_forced)

    def write(self) -> None:
        """Write the missing markers into their partitions."""
        if self._cancelled:
            return
        self._pending = 1  # for this loop
        for place in list(self._missing):
            try:
                answer = self._markers.write(self._marker, *place)
            except Exception:  # the other markers and the next attempt must go on
                log.exception("Writing a marker of %s into %s-%d failed", self._name, *place)
                continue
            if isinstance(answer, Deferred):
                self._pending += 1
                answer.add_done_callback(lambda done, place=place: self._on_answer(place, done))  # type: ignore[misc]
            else:
                self._note(place, answer)
        self._one_answered()

    def cancel(self) -> None:
        """Stop: another coordinator ends the transaction, or none does."""
        self._cancelled = True

    def again(self) -> None:
        """Call `write` again after the retry delay."""
        self._retry = self._call_later(self.write)

    def write_if_waiting(self, is_ready: Callable[[TopicPartition], bool]) -> None:
        """Call `write` now if the transaction waits for one of the partitions that are ready."""
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
        except (LogOffline, NotCommitted):  # the disk may be healthy: then the shard stays, and its work must go on
            self._call_later(self.begin)
        else:
            self.write()

    def _on_answer(self, place: TopicPartition, done: Deferred[ErrorCode]) -> None:
        try:
            self._note(place, done.result())
        except LogOffline as error:
            log.error("The marker of %s in %s-%d cannot be flushed: %s", self._name, *place, error)
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
            if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:  # an administrator has to see and repair this
                log.error("A later coordinator than that of %s has written to %s-%d: no marker", self._name, *place)

    def _one_answered(self) -> None:
        self._pending -= 1
        if self._pending or self._cancelled:
            return
        if self._missing:
            self.again()
        else:
            self._on_done()
