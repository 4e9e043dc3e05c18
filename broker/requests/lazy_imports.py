"""Lazy imports: modules are imported when the first request asks for them, and never on the loop.

What clients ask first is at hand when they are let in. All else a thread of the offload pool imports while its request
waits, and its connection with it; some time after the start what nobody has asked for yet comes, too, piece by piece:
a broker that has been up for long has no first time. See docs/decisions/loading.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from broker.requests.served_api import CannotLoad, Row
from protocol.api_keys import ApiKey
from runtime.deferred import Deferred
from runtime.thread_pool import ThreadPool
from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: The first steps of any client, which would wait for them anyway.
FIRST_STEPS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FIND_COORDINATOR,
)

# The rest comes when those have been served that the broker was started for; a test's broker is gone by then.
_REST_AFTER_MS = 10_000
# Between two pieces, each of which has the interpreter to itself for a few milliseconds at most.
_PAUSE_MS = 50


class LazyImports:
    """Imports for one broker, which serves these rows. `on_done` is called when nothing is left to be loaded."""

    def __init__(self, rows: Mapping[int, Row], offload: ThreadPool, timers: Timers) -> None:
        self.on_done: Callable[[], object] = lambda: None
        self._rows = rows
        self._offload = offload
        self._timers = timers
        self._rest: Iterator[Row] | None = None  # what the rest has left; None before it begins, and at its end
        self._timer: Timer | None = None

    def start(self) -> None:
        """Load what is asked first, now, and the rest in its time."""
        for key in FIRST_STEPS:
            load_row(self._rows[key])
        self._rest = iter(self._rows.values())
        self._timer = self._timers.call_later(_REST_AFTER_MS, self._load_next)

    def stop(self) -> None:
        """Begin with nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._rest = None

    def load(self, row: Row) -> Deferred[None]:
        """Have a thread load what serves an API. Done also where that is not to be had: then it answers errors."""
        return self._offload(load_row, row)

    def _load_next(self) -> None:
        if self._rest is None:
            return
        row = next((each for each in self._rest if not each.is_loaded), None)
        if row is None:
            self._rest = None
            self.on_done()
        else:
            self._offload(load_row, row).add_done_callback(self._pause)

    def _pause(self, _: Deferred[None]) -> None:
        if self._rest is not None:
            self._timer = self._timers.call_later(_PAUSE_MS, self._load_next)


def load_row(row: Row) -> None:
    """Load what serves an API; where that cannot be, have it answer errors. Raises CannotLoad where those cannot be."""
    try:
        row.load()
    except CannotLoad as error:
        log.error("%s requests are not served: %s", row.name, error, exc_info=error.__cause__)
        row.give_up(str(error))
