"""Keep what clients have pushed, as series for Prometheus: the latest value, or a counter's sum.

A client's series expire when it has not pushed them for three of its intervals, and at least a minute: Prometheus
should still read the last push. Their names begin with kafka_client_, so that none collides with the broker's own.
The number of series is limited, for each client and in total: the rest is dropped, and counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter

import msgspec

from broker.observability.telemetry.otlp import Attributes, DataPoint, read_points
from broker.observability.telemetry.protobuf import Malformed
from protocol.error_codes import ErrorCode
from protocol.records.compression import decompress
from protocol.records.errors import CorruptBatch, TooLarge

#: The limits of series, for a client and in total. A Java consumer of a hundred partitions has some 700.
MOST_OF_A_CLIENT, MOST_SERIES = 2_000, 50_000
#: The minimum lifetime, and the interval between checks for expired series. A full check takes the loop 5 ms.
SHORTEST_MS, LOOKED_MS = 60_000, 5_000
_INTERVALS = 3
#: Limits of one series: its labels, and the characters of its name and all labels.
_MOST_LABELS, _MOST_CHARACTERS = 16, 500
#: Points that are read without a pause, and the pause, in which the loop can run.
_AT_ONCE, _PAUSE_S = 200, 0.0005

_PREFIX = "kafka_client_"
_COMMON = "org.apache.kafka."
_NOT_OF_A_NAME = re.compile("[^a-zA-Z0-9_]")


class Series(msgspec.Struct):
    """A client's number with its labels, in order. `until_ms`: shown until this monotonic time."""

    name: str
    origin: str
    is_counter: bool
    labels: Attributes
    value: float = 0.0
    until_ms: int = 0


class _Client(msgspec.Struct):
    """The series of a client by its own keys, and the shown ones, each once."""

    series: dict[tuple[str, Attributes], Series] = {}
    shown: set[tuple[str, Attributes]] = set()


def read_payload(payload: bytes, compression_type: int, max_bytes: int) -> list[DataPoint] | ErrorCode:
    """Return the points that a client pushed, or the error if they are unreadable or too large. For any thread."""
    points: list[DataPoint] = []
    try:
        data = decompress(compression_type, payload, max_bytes)
        for point in read_points(memoryview(data)):
            points.append(point)
            if len(points) > MOST_OF_A_CLIENT:  # the rest is not read
                break
            if len(points) % _AT_ONCE == 0:
                time.sleep(_PAUSE_S)
    except TooLarge:
        return ErrorCode.TELEMETRY_TOO_LARGE
    except (CorruptBatch, Malformed):
        return ErrorCode.INVALID_RECORD
    return points


class ReceivedMetrics:
    """The series of all clients, by instance id. `now_ms` is monotonic."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._clients: dict[bytes, _Client] = {}
        self._count = 0
        self._looked_ms = now_ms()
        #: Pushed numbers that are not shown, because there are too many, or because they have no valid name.
        self.left_out = 0

    def take(self, instance_id: bytes, about: Mapping[str, str], interval_ms: int, points: Iterable[DataPoint]) -> None:
        """Record what a client has pushed. `about` are labels of all its series."""
        now_ms = self._now_ms()
        self._forget(now_ms)
        until_ms = now_ms + max(SHORTEST_MS, _INTERVALS * interval_ms)
        client = self._clients.get(instance_id) or _Client()
        for point in points:
            series = client.series.get((point.name, point.attributes)) or self._new(client, point, about)
            if series is None:
                self.left_out += 1
                continue
            series.value = series.value + point.value if point.is_delta else point.value
            series.until_ms = until_ms
        if client.series:
            self._clients[instance_id] = client

    def series(self) -> list[Series]:
        """Return all series that have not expired."""
        self._forget(self._now_ms())
        return [series for client in self._clients.values() for series in client.series.values()]

    def counts(self) -> dict[bytes, int]:
        """Return the number of series of each client, by instance id."""
        self._forget(self._now_ms())
        return {instance_id: len(client.series) for instance_id, client in self._clients.items()}

    def of_client(self, instance_id: bytes) -> list[Series]:
        """Return the series of one client."""
        client = self._clients.get(instance_id)
        return [] if client is None else list(client.series.values())

    def _new(self, client: _Client, point: DataPoint, about: Mapping[str, str]) -> Series | None:
        """Return a new, empty series; None if there is no room, or no valid name."""
        if not point.name or len(client.series) >= MOST_OF_A_CLIENT or self._count >= MOST_SERIES:
            return None
        size = len(point.name) + sum(len(key) + len(value) for key, value in point.attributes)
        if len(point.attributes) > _MOST_LABELS or size > _MOST_CHARACTERS:
            return None
        name = _PREFIX + _NOT_OF_A_NAME.sub("_", point.name.removeprefix(_COMMON))
        if point.is_counter:
            name = name.removesuffix("_total") + "_total"
        labels = {**{_label(key): value for key, value in point.attributes}, **about}
        shown = (name, tuple(sorted(labels.items(), key=itemgetter(0))))
        if shown in client.shown:
            return None
        client.shown.add(shown)
        series = client.series[point.name, point.attributes] = Series(name, point.name, point.is_counter, shown[1])
        self._count += 1
        return series

    def _forget(self, now_ms: int) -> None:
        """Drop series that were not pushed for long."""
        if now_ms - self._looked_ms < LOOKED_MS:
            return
        self._looked_ms = now_ms
        for instance_id, client in list(self._clients.items()):
            for key, series in list(client.series.items()):
                if series.until_ms <= now_ms:
                    del client.series[key]
                    client.shown.discard((series.name, series.labels))
                    self._count -= 1
            if not client.series:
                del self._clients[instance_id]


def _label(key: str) -> str:
    """Return a valid label name. Prometheus reserves names that begin with two underscores."""
    name = _NOT_OF_A_NAME.sub("_", key)
    return name if name[:1].isalpha() else f"of_{name}"
