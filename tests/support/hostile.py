"""Requests that no client sends on purpose: of any API and version, with any value that a field's type can hold.

The schemas draw them field by field: nothing, extremes, valid and invalid names, arrays of none to some thousand
elements, batches of valid records, spoiled records, or none. Some frames are changed afterwards. Fields that would
wait, grow or change the service of other clients are bounded: see `_CHOICES`.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.primitives import ZERO_UUID, Primitive, records
from protocol.records.builder import BatchBuilder
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.schema import Api, Array, Field, Struct, StructType
from tests.support.message_values import EDGES
from tests.support.spoiled import SPOILED

#: the topics of the requests; others may be created under the names below
TOPICS = tuple(f"hostile-{number}" for number in range(4))
_TEXTS = (
    *("", "a", "g", "range", "consumer", "naïve", "日本語", "\0", "a\nb", "../..", "*", ".*", "(a+)+$", "[", "%s%n"),
    *("x" * 127, "y" * 249, "z" * 1000, "PLAIN", "User:ANONYMOUS", "User:*", "1", "-1", "1000", "1e9"),
    *("cleanup.policy", "compact", "compression.type", "zstd", "retention.ms", "segment.bytes"),
)
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_MOMENTS = (_LEAST, -1, 0, 1, 20)
#: Fields of these names have only these values: numbers of partitions are few or more than a broker accepts, waits are
#: short, and the broker is not removed from its cluster.
_CHOICES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("num_partitions", "count"), (_LEAST, -1, 0, 1, 2, _MOST)),
    **dict.fromkeys(("max_wait_ms", "timeout_ms", "rebalance_timeout_ms", "transaction_timeout_ms"), _MOMENTS),
    "session_timeout_ms": (*_MOMENTS, 6_000),
    "broker_id": (_LEAST, -1, 0, 2, _MOST),
}
#: one time for all requests: a draw must not depend on anything else
_NOW_MS = int(time.time() * 1000)
_FEW, _MANY, _MANY_NUMBERS = (0, 1, 1, 1, 2, 3), (30, 200), (1000, 4000)
#: the largest request; arrays within arrays are cut off here
MOST_BYTES = 1 << 19
_DAMAGE = (b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80" * 9)

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True, slots=True)
class Hostile:
    """One request. `damaged`: its bytes were changed and match no value of its schema."""

    api: Api
    version: int
    client_id: str | None
    body: bytes
    damaged: bool

    def frame(self, correlation_id: int) -> bytes:
        """Return the bytes to send."""
        return frame(encode_request_header(self.api, self.version, correlation_id, self.client_id), self.body)

    def __repr__(self) -> str:
        damaged = ", damaged" if self.damaged else ""
        return f"<{self.api.name} v{self.version}{damaged}: {self.body[:500].hex()}, {len(self.body)} bytes>"


@st.composite
def hostile_requests(draw: Draw, api: Api, version: int, topic_ids: Sequence[bytes] = ()) -> Hostile:
    """Draw requests of one API and version; `topic_ids` are ids of existing topics."""
    body = api.request.encode(version, _struct(draw, api.request, version, tuple(topic_ids), 1))[:MOST_BYTES]
    damaged = len(body) == MOST_BYTES
    if body and not draw(_numbers(7)):
        damaged = True
        for _ in range(draw(_numbers(2)) + 1):
            at = draw(st.integers(0, len(body) - 1)) if body else 0
            taken = draw(st.sampled_from((0, 1, 4, len(body))))
            body = body[:at] + draw(st.sampled_from(_DAMAGE)) + body[at + taken :]
    return Hostile(api, version, draw(st.sampled_from((None, "", "hostile", "c" * 1000))), body, damaged)


def _struct(draw: Draw, kind: StructType, version: int, topic_ids: tuple[bytes, ...], room: int) -> Struct:
    """Draw a value with something in each field of the version. `room`: arrays may be large so many levels down."""
    fields = (field for field in kind.fields if version in field.versions)
    return kind(**{field.name: _value(draw, field, version, topic_ids, room) for field in fields})


def _value(draw: Draw, field: Field, version: int, topic_ids: tuple[bytes, ...], room: int) -> Any:
    if version in field.nullable and not draw(_numbers(40 if field.type is records else 8)):
        return None
    if isinstance(field.type, Array):
        return _array(draw, field, field.type.element, version, topic_ids, room)
    return _content(draw, field.name, field.type, version, topic_ids, room)


def _array(
    draw: Draw, field: Field, element: Primitive | StructType, version: int, topic_ids: tuple[bytes, ...], room: int
) -> list[Any]:
    """Draw a few elements; or many equal ones."""
    many = room and not draw(_numbers(15))
    sizes = _FEW if not many else _MANY_NUMBERS if isinstance(element, Primitive) else _MANY
    count = draw(st.sampled_from(sizes))
    if many:
        return [_content(draw, field.name, element, version, topic_ids, room - 1)] * count
    return [_content(draw, field.name, element, version, topic_ids, room) for _ in range(count)]


def _content(
    draw: Draw, name: str, kind: Primitive | StructType | Array, version: int, topic_ids: tuple[bytes, ...], room: int
) -> Any:
    if isinstance(kind, StructType):
        return _struct(draw, kind, version, topic_ids, room)
    assert isinstance(kind, Primitive)
    if kind.name == "records":
        return draw(RECORDS)
    if kind.name == "uuid":
        return draw(st.sampled_from((ZERO_UUID, b"\xff" * 16, bytes(range(16)), *topic_ids)))
    return draw(_primitives(name, kind.name, kind.code))


@cache
def _primitives(name: str, kind: str, code: str) -> st.SearchStrategy[Any]:
    """Return values of a field of this name and type. Every other request names existing topics and groups."""
    if name in _CHOICES:
        return st.sampled_from(_CHOICES[name])
    if kind == "string":
        return st.one_of(st.sampled_from(TOPICS), st.sampled_from(_TEXTS))
    if kind == "bytes":
        return st.one_of(st.sampled_from((b"", b"\0", bytes(127), b"\xff" * 40)), st.binary(max_size=40))
    if kind == "float64":
        return st.sampled_from((0.0, -1.5, 1e300, math.inf, -math.inf, math.nan))
    edges = st.sampled_from(EDGES[kind])
    if kind == "bool":
        return edges
    size = struct.calcsize(f">{code}")
    return st.one_of(edges, edges, st.binary(min_size=size, max_size=size).map(lambda data: _unpacked(code, data)))


def _unpacked(code: str, data: bytes) -> int:
    return int(struct.unpack(f">{code}", data)[0])


@cache
def _numbers(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


@st.composite
def _batches(draw: Draw) -> bytes:
    """Draw up to three valid batches of one codec."""
    made = bytearray()
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        header = {"producer_id": draw(st.sampled_from((0, 1, 1 << 40))), "producer_epoch": draw(_numbers(1))}
        if draw(_numbers(3)):
            header = {}
        else:
            header["base_sequence"] = draw(st.sampled_from((0, 1, 2, _MOST)))
        builder = BatchBuilder(codec=draw(_numbers(4)), transactional=bool(header) and not draw(_numbers(3)), **header)
        for number in range(draw(st.sampled_from((1, 1, 2, 50)))):
            timestamp = draw(st.sampled_from((_NOW_MS, _NOW_MS, _NOW_MS + number, 0, -1, _NOW_MS + 86_400_000_000)))
            key, value = (draw(st.sampled_from((None, b"", b"key", bytes(1000)))) for _ in range(2))
            builder.append(timestamp, key, value, (("name", None), ("", b"x")) if draw(_numbers(3)) == 0 else ())
        made += builder.build()
    return bytes(made)


@st.composite
def _old_messages(draw: Draw) -> bytes:
    builder = MessageSetBuilder(draw(_numbers(1)), codec=draw(_numbers(3)))
    for _ in range(draw(st.sampled_from((1, 2, 20)))):
        builder.append(_NOW_MS, b"key", draw(st.sampled_from((None, b"", b"value" * 20))))
    return builder.build()


#: Values of a `records` field: valid batches, spoiled ones, batches of old formats, arbitrary bytes.
RECORDS = st.one_of(
    _batches(),
    _batches(),
    st.builds(lambda data, spoil: spoil(data), _batches(), st.sampled_from(list(SPOILED.values()))),
    _old_messages(),
    st.binary(max_size=100),
)
