"""A client that pushes its metrics by hand (KIP-714), and its reports: MetricsData of OpenTelemetry, in Protobuf."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.id_text import id_text
from protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.primitives import ZERO_UUID
from tests.support.wire import WireClient


class Pusher:
    """A client with a subscription. `push` waits for its interval, unless `wait_s` is set to 0: the first push may come
    at once.
    """

    def __init__(self, client: WireClient, instance_id: bytes = ZERO_UUID) -> None:
        self._client = client
        told = client.call(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=instance_id)
        assert told.error_code == 0
        self.id, self._subscription = told.client_instance_id, told.subscription_id
        self.instance_id = id_text(self.id)
        self.wait_s = told.push_interval_ms / 1000 + 0.01
        self.max_bytes = told.telemetry_max_bytes
        self.metrics = told.requested_metrics

    def push(self, metrics: bytes, **fields: Any) -> ErrorCode:
        """Push a report; return the error code."""
        time.sleep(self.wait_s)
        fields = {"terminating": False, "compression_type": 0, "metrics": metrics, **fields}
        answer = self._client.call(
            PUSH_TELEMETRY, 0, client_instance_id=self.id, subscription_id=self._subscription, **fields
        )
        return ErrorCode(answer.error_code)


DELTA, CUMULATIVE = 1, 2


def varint(number: int) -> bytes:
    """Encode a number of up to 64 bits."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Encode a field: numbers as varints, floats as doubles, all else with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: int | float | str) -> bytes:
    """Encode a KeyValue."""
    number = {int: 3, float: 4, str: 1}[type(value)]
    return field(1, key) + field(2, field(number, value))


def point(value: float, **attributes: int | float | str) -> bytes:
    """Encode a NumberDataPoint, with a time that no reader uses."""
    time = varint(3 << 3 | 1) + struct.pack("<q", 1_700_000_000_000_000_000)
    return time + field(4, float(value)) + b"".join(field(7, attribute(*each)) for each in attributes.items())


def gauge(name: str, *points: bytes) -> bytes:
    """Encode a Metric that is a gauge."""
    return field(1, name) + field(5, b"".join(field(1, each) for each in points))


def counter(name: str, *points: bytes, temporality: int = DELTA, is_monotonic: bool = True) -> bytes:
    """Encode a Metric that is a sum."""
    inner = b"".join(field(1, each) for each in points) + field(2, temporality) + field(3, int(is_monotonic))
    return field(1, name) + field(7, inner)


def report(*metrics: bytes, resource: Mapping[str, str] | None = None) -> bytes:
    """Encode MetricsData of one client."""
    of_resource = field(1, b"".join(field(1, attribute(*each)) for each in (resource or {}).items()))
    scope = field(2, field(1, field(1, "a scope")) + b"".join(field(2, each) for each in metrics))
    return field(1, of_resource + scope)
