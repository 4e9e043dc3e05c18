"""The encoder of Fetch answers: light values to frames, in every version.

An answer may name a thousand partitions, so that its parts are light values instead of schema structs, and one `pack`
encodes ordinary partitions. Records are not copied into the frame: a slice of a file is a piece of its
own. A property test compares the frames of all versions with the schema's encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import NamedTuple

from protocol.framing import response_encoder
from protocol.messages.fetch import FETCH
from protocol.primitives import unsigned_varint
from protocol.schema import Chunk, Struct

NO_RECORDS = b""


class Aborted(NamedTuple):
    """An aborted transaction that read_committed consumers skip: its producer id and its first offset."""

    producer_id: int
    first_offset: int


class Epoch(NamedTuple):
    """A leader epoch with its end offset, or with the node id of its leader."""

    epoch: int
    value: int


class FetchedData:
    """The response for one partition. `aborted` is None with read_uncommitted; offsets are -1 if unknown."""

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        index: int,
        error_code: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Chunk = NO_RECORDS,
        aborted: Sequence[Aborted] | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted = aborted
        self.preferred_read_replica = -1
        #: The largest epoch that both logs have, and its end offset here (KIP-595).
        self.diverging_epoch: Epoch | None = None
        #: The leader's epoch and node id (KIP-951).
        self.current_leader: Epoch | None = None


class FetchedTopic(NamedTuple):
    """The partitions of a topic, which has a name up to v12 and an id from v13 on."""

    name: str
    topic_id: bytes
    partitions: list[FetchedData]


class Node(NamedTuple):
    """The endpoint of a leader."""

    node_id: int
    host: str
    port: int
    rack: str | None


class FetchAnswer(NamedTuple):
    """A whole response. `nodes` are the endpoints of the leaders that its partitions name."""

    error_code: int
    session_id: int
    topics: list[FetchedTopic]
    nodes: Sequence[Node] = ()
    throttle_time_ms: int = 0


FIRST_FLEXIBLE = 12
_FIRST_WITH_THROTTLE = 1
_FIRST_WITH_ABORTED = 4
_FIRST_WITH_LOG_START = 5
_FIRST_WITH_SESSION = 7
_FIRST_WITH_REPLICA = 11
_FIRST_WITH_TOPIC_ID = 13
_FIRST_WITH_NODES = 16

SIZE_BYTES = 4
#: Pieces of an answer that has one slice.
_AROUND = 3
_NULL = -1
_COUNT = Layout(">i").pack
_NAME = Layout(">h").pack
_EPOCH_END = Layout(">iqx").pack
_LEADER = Layout(">iix").pack
_ABORTED = Layout(">qq").pack
_COMPACT_ABORTED = Layout(">qqx").pack
_PORT = Layout(">i").pack

# The head in flexible versions: size, correlation id, no tagged fields, throttle time, error code, session id.
COMPACT_HEAD = Layout(">iixihi")
# Index, error code, high watermark, last stable offset, log start offset, aborted transactions (0 for null, 1 for
# none), preferred replica.
COMPACT_DATA = Layout(">ihqqqBi").pack
_COMPACT_OFFSETS = Layout(">ihqqq").pack
# Tags of a partition, and of an answer.
_DIVERGING_EPOCH, _CURRENT_LEADER = 0, 1
_NODE_ENDPOINTS = 0

Encode = Callable[[int, "FetchAnswer | Struct"], list[Chunk]]


def fetch_encoder(version: int) -> Encode:
    """Return the function (correlation id, answer) -> frame in pieces.

    It leaves Structs to the schema: the dispatcher makes them where a handler has failed.
    """
    encode_answer = _compact_encoder(version) if version >= FIRST_FLEXIBLE else _plain_encoder(version)
    encode_struct = response_encoder(FETCH, version)

    def encode(correlation_id: int, answer: FetchAnswer | Struct) -> list[Chunk]:
        if type(answer) is FetchAnswer:
            return encode_answer(correlation_id, answer)
        return encode_struct(correlation_id, answer)  # type: ignore[arg-type]

    return encode


def _compact_encoder(version: int) -> Callable[[int, FetchAnswer], list[Chunk]]:
    by_name = version < _FIRST_WITH_TOPIC_ID
    with_nodes = version >= _FIRST_WITH_NODES

    def encode(correlation_id: int, answer: FetchAnswer) -> list[Chunk]:
        topics = answer.topics
        front = out = bytearray(COMPACT_HEAD.size)
        out += unsigned_varint(len(topics) + 1)
        chunks: list[Chunk] = []
        sent = 0
        for name, topic_id, partitions in topics:
            if by_name:
                data = name.encode()
                out += unsigned_varint(len(data) + 1)
                out += data
            else:
                out += topic_id
            out += unsigned_varint(len(partitions) + 1)
            for each in partitions:
                aborted = each.aborted
                if not aborted:
                    out += COMPACT_DATA(
                        each.index,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                        0 if aborted is None else 1,
                        each.preferred_read_replica,
                    )
                else:
                    out += _COMPACT_OFFSETS(
                        each.index, each.error_code, each.high_watermark, each.last_stable_offset, each.log_start_offset
                    )
                    out += unsigned_varint(len(aborted) + 1)
                    for producer_id, first_offset in aborted:
                        out += _COMPACT_ABORTED(producer_id, first_offset)
                    out += _COUNT(each.preferred_read_replica)
                records = each.records
                size = len(records)
                out += unsigned_varint(size + 1)
                if size:
                    sent += len(out) + size
                    chunks += out, records
                    out = bytearray()
                if each.current_leader is None and each.diverging_epoch is None:
                    out.append(0)
                else:
                    out += _tags_of(each)
            out.append(0)
        if answer.nodes and with_nodes:
            out += _node_endpoints(answer.nodes)
        else:
            out.append(0)
        chunks.append(out)
        total = sent + len(out) - SIZE_BYTES
        COMPACT_HEAD.pack_into(
            front, 0, total, correlation_id, answer.throttle_time_ms, answer.error_code, answer.session_id
        )
        return _around_slice(chunks) if len(chunks) == _AROUND else chunks

    return encode


def _around_slice(chunks: list[Chunk]) -> list[Chunk]:
    """Return one slice between bytes, which the network sends without a queue."""
    head, records, end = chunks
    return [bytes(head), records, bytes(end)]  # type: ignore[arg-type]


def _tags_of(data: FetchedData) -> bytes:
    """Return the tagged fields of a partition, of which it has at least one."""
    fields = []
    if data.diverging_epoch is not None:
        fields.append((_DIVERGING_EPOCH, _EPOCH_END(*data.diverging_epoch)))
    if data.current_leader is not None:
        epoch, node_id = data.current_leader
        fields.append((_CURRENT_LEADER, _LEADER(node_id, epoch)))
    return _tagged(fields)


def _node_endpoints(nodes: Sequence[Node]) -> bytes:
    """Return the tagged fields of an answer that names the leaders' addresses."""
    out = bytearray(unsigned_varint(len(nodes) + 1))
    for node_id, host, port, rack in nodes:
        out += _COUNT(node_id)
        out += _compact_string(host)
        out += _PORT(port)
        out += b"\0" if rack is None else _compact_string(rack)
        out.append(0)
    return _tagged([(_NODE_ENDPOINTS, bytes(out))])


def _tagged(fields: Sequence[tuple[int, bytes]]) -> bytes:
    parts = [unsigned_varint(len(fields))]
    for tag, value in fields:
        parts += unsigned_varint(tag), unsigned_varint(len(value)), value
    return b"".join(parts)


def _compact_string(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def _plain_encoder(version: int) -> Callable[[int, FetchAnswer], list[Chunk]]:
    head = Layout(">ii" + "i" * (version >= _FIRST_WITH_THROTTLE) + "hi" * (version >= _FIRST_WITH_SESSION) + "i")
    data_layout = Layout(">ihq" + "q" * (version >= _FIRST_WITH_ABORTED) + "q" * (version >= _FIRST_WITH_LOG_START))
    offsets = 1 + (version >= _FIRST_WITH_ABORTED) + (version >= _FIRST_WITH_LOG_START)

    def encode(correlation_id: int, answer: FetchAnswer) -> list[Chunk]:
        topics = answer.topics
        front = out = bytearray(head.size)
        chunks: list[Chunk] = []
        sent = 0
        for name, _, partitions in topics:
            data = name.encode()
            out += _NAME(len(data))
            out += data
            out += _COUNT(len(partitions))
            for each in partitions:
                values = each.high_watermark, each.last_stable_offset, each.log_start_offset
                out += data_layout.pack(each.index, each.error_code, *values[:offsets])
                if version >= _FIRST_WITH_ABORTED:
                    aborted = each.aborted
                    out += _COUNT(_NULL if aborted is None else len(aborted))
                    for producer_id, first_offset in aborted or ():
                        out += _ABORTED(producer_id, first_offset)
                if version >= _FIRST_WITH_REPLICA:
                    out += _COUNT(each.preferred_read_replica)
                records = each.records
                size = len(records)
                out += _COUNT(size)
                if size:
                    sent += len(out) + size
                    chunks += out, records
                    out = bytearray()
        if out:
            chunks.append(out)
        fields = [sent + len(out) - SIZE_BYTES, correlation_id]
        if version >= _FIRST_WITH_THROTTLE:
            fields.append(answer.throttle_time_ms)
        if version >= _FIRST_WITH_SESSION:
            fields += answer.error_code, answer.session_id
        head.pack_into(front, 0, *fields, len(topics))
        return chunks

    return encode
