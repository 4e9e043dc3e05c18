"""Whether a store is asked at all: after failures in a row only one request at a time finds out whether it is back."""

from __future__ import annotations

#: Failures in a row that open the circuit.
_MOST_FAILURES = 5
_PROBE_INTERVAL_S = 1.0
#: Wrong credentials need a person; the store is asked again in case they were renewed.
_DENIED_INTERVAL_S = 60.0


class Circuit:
    """Closed while the store answers. Times are in seconds of one clock that never goes back; not thread-safe."""

    def __init__(self) -> None:
        self._failures = 0
        self._interval_s = _PROBE_INTERVAL_S
        self._next_probe_s = 0.0
        self._is_probing = False
        self.opened_s: float | None = None

    @property
    def is_open(self) -> bool:
        """Return whether requests are refused but for probes."""
        return self.opened_s is not None

    def may_send(self, now_s: float) -> bool:
        """Return whether a request may be sent now. One that an open circuit allows is its probe, until `end_probe`."""
        if self.opened_s is None:
            return True
        if self._is_probing or now_s < self._next_probe_s:
            return False
        self._next_probe_s = now_s + self._interval_s
        self._is_probing = True
        return True

    def end_probe(self) -> None:
        """Note that the probe has ended, also without an answer."""
        self._is_probing = False

    def succeeded(self, now_s: float) -> float | None:
        """Note an answer of the store. Returns for how long the circuit was open, if this answer closes it."""
        opened_s, self.opened_s = self.opened_s, None
        self._failures = 0
        return None if opened_s is None else now_s - opened_s

    def failed(self, now_s: float) -> bool:
        """Note a failure. Returns True if it opens the circuit."""
        self._failures += 1
        return self._failures >= _MOST_FAILURES and self._open(now_s, _PROBE_INTERVAL_S)

    def denied(self, now_s: float) -> bool:
        """Note refused credentials, which open the circuit at once. Returns True if it was closed."""
        return self._open(now_s, _DENIED_INTERVAL_S)

    def _open(self, now_s: float, interval_s: float) -> bool:
        was_open = self.is_open
        if not was_open:
            self.opened_s = now_s
        self._interval_s = interval_s
        self._next_probe_s = now_s + interval_s
        return not was_open
