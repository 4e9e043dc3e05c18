"""Random frames: random bytes, random bodies, and valid requests with some bytes changed."""

from __future__ import annotations

import struct
from functools import cache

from hypothesis import strategies as st

from protocol.error_codes import ProtocolError
from protocol.framing import frame
from protocol.headers import decode_request_header, encode_request_header
from protocol.messages.fetch import FETCH
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from tests.support.wire_frames import Exchange, recorded_exchanges

# Requests which, changed at random, may ask for 10,000 partitions, for an answer after half a minute, for objects
# that a broker without transactions lacks, or for operations that make Apache Kafka's controller fail
_TOO_MUCH = {"CreateTopics", "CreatePartitions", "JoinGroup", "SyncGroup", "InitProducerId", "IncrementalAlterConfigs"}
_LARGEST_BYTES = 300
_EXTREMES = [struct.pack(">i", value) for value in (-1, -2, 0, 1, 2**31 - 1, -(2**31), 65536)] + [
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80",
]


def random_frames(served: dict[int, range]) -> st.SearchStrategy[bytes]:
    """Return one whole frame that a broker with these versions might read as a request."""
    versions = [(API_BY_KEY[key], version) for key, versions in served.items() for version in versions]
    headers = st.sampled_from(versions).map(lambda pair: encode_request_header(*pair, 7, "random"))
    bodies = st.binary(max_size=60)
    return st.one_of(
        st.binary(max_size=60).map(frame),
        st.builds(frame, headers, bodies),
        st.sampled_from(_sound_requests(tuple(versions))).flatmap(_changed).map(frame),
    ).filter(lambda data: not _trips_kafka(data))


def _trips_kafka(data: bytes) -> bool:
    """Return whether the request is one of two that Apache Kafka 4.3.1 mishandles.

    It never answers null records; a negative id of a fetch session is an index out of bounds.
    """
    try:
        header = decode_request_header(data[4:])
        if header.api_key not in (PRODUCE.key, FETCH.key):
            return False
        api = API_BY_KEY[header.api_key]
        request, _ = api.request.decode(header.api_version, data[4:], header.position)
    except ProtocolError:
        return False
    if api is FETCH:
        return bool(request.session_id < 0)
    return any(each.records is None for topic in request.topic_data for each in topic.partition_data)


@cache
def _sound_requests(versions: tuple[tuple[object, int], ...]) -> list[bytes]:
    """Return the small recorded requests of these versions."""
    found: dict[tuple[str, int, int], bytes] = {}
    for sweep in ("admin", "data", "groups", "txn"):
        for exchange in recorded_exchanges(f"sweep-{sweep}.tsv"):
            known = (exchange.api, exchange.version) in versions and len(exchange.request) <= _LARGEST_BYTES
            if known and exchange.api.name not in _TOO_MUCH and not _is_transactional(exchange):
                found.setdefault((exchange.api.name, exchange.version, len(exchange.request)), exchange.request)
    return list(found.values())


def _is_transactional(exchange: Exchange) -> bool:
    return exchange.api is PRODUCE and exchange.decode_request().transactional_id is not None  # type: ignore[union-attr]


def _changed(request: bytes) -> st.SearchStrategy[bytes]:
    """Change a few bytes behind key and version: replaced, inserted, removed, or all from a position on."""
    places = st.integers(8, len(request))
    pieces = st.one_of(st.sampled_from(_EXTREMES), st.binary(min_size=1, max_size=3))
    change = st.tuples(places, st.sampled_from(["replace", "insert", "remove", "cut"]), pieces)
    return st.lists(change, min_size=1, max_size=3).map(lambda changes: _apply(request, changes))


def _apply(request: bytes, changes: list[tuple[int, str, bytes]]) -> bytes:
    for place, kind, piece in changes:
        if kind == "cut":
            request = request[:place]
        else:
            behind = place if kind == "insert" else place + len(piece)
            request = request[:place] + (b"" if kind == "remove" else piece) + request[behind:]
    return request
