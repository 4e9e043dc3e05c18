"""Figures of the broker's metrics endpoint for the overview; only if `metrics.listeners` is set."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from dataclasses import dataclass

from console.errors import BrokerUnavailable

_TIMEOUT_S = 10.0
#: The shortest interval of requests to the broker, however many windows are open.
_SELDOMEST_S = 2.0


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure of the overview, computed from the endpoint's sample named `sample`.

    `per`: "" for the value itself; "second" for its growth per second; else its growth divided by the growth of the
    sample that `per` names. `unit` is the unit of the figure.
    """

    title: str
    unit: str
    sample: str
    per: str = "second"


#: A sample that the console adds: the broker's response time to the console.
ROUND_TRIP = "console_round_trip_seconds"
GAUGES = (
    Gauge("Bytes in", "B/s", "kafka_server_brokertopicmetrics_bytesin_total"),
    Gauge("Bytes out", "B/s", "kafka_server_brokertopicmetrics_bytesout_total"),
    Gauge("Records in", "1/s", "kafka_server_brokertopicmetrics_messagesin_total"),
    Gauge("Requests", "1/s", "kafka_network_requestmetrics_requests_total"),
    Gauge("Connections", "", "pybroker_connections", per=""),
    Gauge("Round trip of a request", "s", ROUND_TRIP, per=""),
    Gauge("Loop lag", "s", "pybroker_loop_lag_seconds_sum", per="pybroker_loop_lag_seconds_count"),
    Gauge("Processor", "cores", "process_cpu_seconds_total"),
    Gauge("Memory", "B", "process_resident_memory_bytes", per=""),
)
_WANTED = frozenset({*(each.sample for each in GAUGES), *(each.per for each in GAUGES)} - {"second", "", ROUND_TRIP})


def read_samples(text: str) -> dict[str, float]:
    """Return the samples that the gauges need, by name; missing ones are left out. Raises ValueError."""
    totals = json.loads(text)
    if not isinstance(totals, dict):
        raise ValueError(f"expected an object, not {text[:100]!r}")
    return {name: float(totals[name]) for name in _WANTED & totals.keys()}


class Scraper:
    """Queries the endpoint, and caches the result or the error for a short time. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/totals"
        self._asking = threading.Lock()
        #: The result of `samples`, or the error's text.
        self._told: tuple[float, dict[str, float]] | str = ""
        #: On the monotonic clock.
        self._told_at = -math.inf
        # a proxy of the environment must not be used between two processes of this machine
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def samples(self) -> tuple[float, dict[str, float]]:
        """Return the time of the samples, in seconds since the epoch and their values. Raises BrokerUnavailable."""
        with self._asking:
            if time.monotonic() - self._told_at >= _SELDOMEST_S:
                self._told = self._ask()
                self._told_at = time.monotonic()  # callers that waited for a failure do not retry one by one
            result = self._told
        if isinstance(result, str):
            raise BrokerUnavailable(result)
        return result

    def _ask(self) -> tuple[float, dict[str, float]] | str:
        try:
            with self._opener.open(self._url, timeout=_TIMEOUT_S) as answer:
                return time.time(), read_samples(answer.read().decode())
        except (OSError, ValueError, TypeError) as error:
            return f"{self._url}: {error}"
