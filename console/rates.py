"""What the broker's metrics endpoint says, for the overview; only where `metrics.listeners` is set."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from dataclasses import dataclass

from console.errors import Unanswered

_TIMEOUT_S = 10.0
#: However many windows are open, the broker is asked no more often than this.
_SELDOMEST_S = 2.0


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number of the overview: what `/totals` tells under the sample's name.

    `per`: it is what that sample has grown by, for each that the other one has; "second" for a rate, "" for the number
    as it is. `unit` is of the result.
    """

    title: str
    unit: str
    sample: str
    per: str = "second"


#: What the console adds: how long the broker takes to answer it.
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
    """What the gauges are computed from, by the samples' names; what is not told is left out. ValueError."""
    told = json.loads(text)
    if not isinstance(told, dict):
        raise ValueError(f"expected an object, not {text[:100]!r}")
    return {name: float(told[name]) for name in _WANTED & told.keys()}


class Scraper:
    """Asks the endpoint, and remembers what came of it for a while, a failure too. For all threads."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/totals"
        self._asking = threading.Lock()
        #: What `samples` returns, or what went wrong.
        self._told: tuple[float, dict[str, float]] | str = ""
        #: On the clock that nobody sets back.
        self._told_at = -math.inf
        # a proxy of the environment has no business between two processes of this machine
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def samples(self) -> tuple[float, dict[str, float]]:
        """When they were taken, in seconds since the epoch, and values by the samples' names. Raises Unanswered."""
        with self._asking:
            if time.monotonic() - self._told_at >= _SELDOMEST_S:
                self._told = self._ask()
                self._told_at = time.monotonic()  # those who have waited for a failure need not try again in turn
            told = self._told
        if isinstance(told, str):
            raise Unanswered(told)
        return told

    def _ask(self) -> tuple[float, dict[str, float]] | str:
        try:
            with self._opener.open(self._url, timeout=_TIMEOUT_S) as answer:
                return time.time(), read_samples(answer.read().decode())
        except (OSError, ValueError, TypeError) as error:
            return f"{self._url}: {error}"
