"""Lazy imports: the module of an API is imported at its first request, and never on the loop.

The APIs that every client uses first are loaded before clients are let in. A thread of the offload pool imports any
other module while its first request waits, and the connection with it. Some time after the start, the rest is imported
piece by piece, so that no request waits in a broker that has run for a while. See docs/decisions/loading.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from broker.requests.served_api import CannotLoad, ServedApi
from protocol.api_keys import ApiKey
from runtime.deferred import Deferred
from runtime.thread_pool import ThreadPool
from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: The APIs that every client uses first.
FIRST_STEPS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FIND_COORDINATOR,
)

# The rest is loaded after the clients that wait for the broker are served. The broker of a test has ended by then.
_REST_AFTER_MS = 10_000
# The pause between two imports, each of which holds the interpreter for a few milliseconds at most.
_PAUSE_MS = 50


class LazyImports:
    """The imports of one process, for the APIs that it serves. `on_done` is called once all of them are loaded."""

    def __init__(self, served: Mapping[int, ServedApi], offload: ThreadPool, timers: Timers) -> None:
        self.on_done: Callable[[], object] = lambda: None
        self._served = served
        self._offload = offload
        self._timers = timers
        self._rest: Iterator[ServedApi] | None = None  # what is left of the rest; None before it begins, and at its end
        self._timer: Timer | None = None

    def start(self) -> None:
        """Load the first APIs now, and the rest later."""
        for key in FIRST_STEPS:
            load_api(self._served[key])
        self._rest = iter(self._served.values())
        self._timer = self._timers.call_later(_REST_AFTER_MS, self._load_next)

    def stop(self) -> None:
        """Start no further import."""
        if self._timer is not None:
            self._timer.cancel()
        self._rest = None

    def load(self, served: ServedApi) -> Deferred[None]:
        """Load an API in a thread. Resolves also if that fails: then the API answers with errors."""
        return self._offload(load_api, served)

    def _load_next(self) -> None:
        if self._rest is None:
            return
        served = next((each for each in self._rest if not each.is_loaded), None)
        if served is None:
            self._rest = None
            self.on_done()
        else:
            self._offload(load_api, served).add_done_callback(self._pause)

    def _pause(self, _: Deferred[None]) -> None:
        if self._rest is not None:
            self._timer = self._timers.call_later(_PAUSE_MS, self._load_next)


def load_api(served: ServedApi) -> None:
    """Load what serves an API; if that fails, make the API answer with errors. Raises CannotLoad if it cannot do so."""
    try:
        served.load()
    except CannotLoad as error:
        log.error("%s requests are not served: %s", served.name, error, exc_info=error.__cause__)
        served.fail_requests(str(error))
