"""Write reports as clients push them: MetricsData of OpenTelemetry, in the wire format of Protocol Buffers."""

from __future__ import annotations

import struct
from collections.abc import Mapping

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
