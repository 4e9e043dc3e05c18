"""A store whose failures cost little: tries with pauses, a circuit, a limit of requests, and doubts about absence.

Every store of a broker is in one of these. It logs a line when the store fails and when it is back; the errors
of single requests are the caller's.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple, TypeVar

from remote.circuit import Circuit
from remote.errors import Absent, Damaged, Denied, Exists, RemoteStorageError, Throttled, Unreachable
from remote.request_limit import RequestLimit
from remote.retries import pause_before_next
from remote.store import Health, Listed, Source, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

#: No store of a broker gets more requests at once.
MOST_REQUESTS = 64
#: How long a store that has the probe is trusted to know what is absent.
_TRUSTED_S = 10.0
_PROBE = b"An object that pybroker stores to tell missing objects from wrong credentials.\n"


class Clock(NamedTuple):
    """Time and chance, which tests replace."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


class GuardedStore:
    """The objects of `store`, which is `name` in messages and has no credentials in it.

    A call begins no try after `deadline_s`. `probe_key` is an object of its own: it is stored when an object is absent
    for the first time, and shows whether the store can be believed. None for stores that never answer so by mistake.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        deadline_s: float = 30,
        probe_key: str | None = None,
        most_requests: int = MOST_REQUESTS,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self._deadline_s = deadline_s
        self._probe_key = probe_key
        self._clock = clock or Clock()
        self._free = threading.Condition()
        self._circuit = Circuit()
        self._limit = RequestLimit(most_requests)
        self._running = 0
        self._reason: str | None = None
        self._trusted_until_s = float("-inf")
        self._uploads: dict[int, float] = {}
        self._numbers = count()

    def health(self) -> Health:
        """Return the state of the store, as far as requests have shown it."""
        with self._free:
            oldest = min(self._uploads.values(), default=None)
            age_s = 0.0 if oldest is None else self._clock.now_s() - oldest
            return Health(self._reason if self._circuit.is_open else None, self._limit.now, age_s)

    def put(self, key: str, content: bytes | Source) -> None:
        """Store an object. One that was stored by a try whose answer was lost counts as stored."""
        size_bytes = content.size_bytes if isinstance(content, Source) else len(content)
        failed = False

        def attempt() -> None:
            nonlocal failed
            try:
                self._store.put(key, content)
            except Exists:
                if not failed or self._size_of(key) != size_bytes:
                    raise
            except Absent as error:  # what is to be created cannot be missing
                raise Denied(key, f"no such bucket, or wrong credentials: {error.reason}") from error
            except RemoteStorageError:
                failed = True
                raise

        with self._noted_upload():
            self._send(key, attempt)

    def get(self, key: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        """Read an object. Raises Denied for one that is absent in a store that cannot be believed."""
        try:
            return self._send(key, lambda: self._store.get(key, start, size_bytes))
        except Absent:
            self._check_absence(key)
            raise

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Raises Denied if the store cannot be believed, where "not found" would count as done."""
        if keys:
            self._check_absence(keys[0])
            self._send(keys[0], lambda: self._store.delete(keys))

    def list(self, prefix: str) -> Iterator[Listed]:
        """List objects, all of them before the first one is returned."""
        return iter(self._send(prefix, lambda: list(self._store.list(prefix))))

    # ---- one request

    def _send(self, key: str, operation: Callable[[], T]) -> T:
        """Run an operation, again after some failures. Raises what the last try has raised."""
        deadline_s = self._clock.now_s() + self._deadline_s
        tries = 0
        while True:
            with self._slot(key, deadline_s):
                tries += 1
                try:
                    result = operation()
                except RemoteStorageError as error:
                    self._note_failure(error)
                    failure = error
                else:
                    self._note_success()
                    return result
            pause_s = pause_before_next(failure, tries, self._clock.random())
            if pause_s is None or self._circuit.is_open or self._clock.now_s() + pause_s >= deadline_s:
                raise failure
            self._clock.sleep(pause_s)

    @contextmanager
    def _slot(self, key: str, deadline_s: float) -> Iterator[None]:
        """Wait until the limit allows a request. Raises Unreachable if the circuit is open, or after the deadline."""
        with self._free:
            if not self._circuit.may_send(self._clock.now_s()):
                raise Unreachable(key, f"not asked for, since the storage fails: {self._reason}")
            is_probe = self._circuit.is_open
            while self._running >= self._limit.now and not is_probe:
                left_s = deadline_s - self._clock.now_s()
                if left_s <= 0 or not self._free.wait(left_s):
                    raise Throttled(key, f"waited for {self._deadline_s:g} s behind {self._running} other requests")
            self._running += 1
        try:
            yield
        finally:
            with self._free:
                self._running -= 1
                if is_probe:
                    self._circuit.end_probe()
                self._free.notify()

    def _note_failure(self, error: RemoteStorageError) -> None:
        """Let an error count for the limit or the circuit. An error about one object is an answer of the store."""
        now_s = self._clock.now_s()
        with self._free:
            if isinstance(error, Throttled):
                self._limit.throttled(now_s)
                if self._limit.now > 1:  # it answers; one that refuses single requests fails
                    return
            if isinstance(error, (Absent, Exists, Damaged)):
                answered_s = self._circuit.succeeded(now_s)
            elif isinstance(error, (Denied, Unreachable)):
                self._reason = error.reason
                if isinstance(error, Denied):
                    opened, hint = self._circuit.denied(now_s), f"{error.advice}; requests are tried each minute."
                else:
                    opened, hint = self._circuit.failed(now_s), "It is tried again each second."
                if opened:
                    log.error("Remote storage %s fails: %s. %s", self._name, error, hint)
                return
            else:  # its disk is full: reads go on
                return
        self._log_return(answered_s)

    def _note_success(self) -> None:
        with self._free:
            self._limit.served()
            self._free.notify()
            open_s = self._circuit.succeeded(self._clock.now_s())
        self._log_return(open_s)

    def _log_return(self, open_s: float | None) -> None:
        if open_s is not None:
            log.warning("Remote storage %s answers again after %.0f s.", self._name, open_s)

    @contextmanager
    def _noted_upload(self) -> Iterator[None]:
        number = next(self._numbers)
        with self._free:
            self._uploads[number] = self._clock.now_s()
        try:
            yield
        finally:
            with self._free:
                del self._uploads[number]

    # ---- doubts

    def _size_of(self, key: str) -> int | None:
        folder = key.rpartition("/")[0]
        found = self._store.list(f"{folder}/" if folder else "")
        return next((each.size_bytes for each in found if each.key == key), None)

    def _check_absence(self, key: str) -> None:
        """Raise Denied if the store does not take the probe: some answer "not found" to unknown credentials."""
        if self._probe_key is None or self._clock.now_s() < self._trusted_until_s:
            return
        try:
            self.put(self._probe_key, _PROBE)
        except Exists:
            pass
        except Denied as error:
            raise type(error)(key, f"its absence is no proof: {error.reason}") from error
        self._trusted_until_s = self._clock.now_s() + _TRUSTED_S
