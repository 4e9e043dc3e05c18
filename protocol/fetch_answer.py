"""The answer to a Fetch, shaped by hand where it says only what most say.

Light values instead of schema structs: a consumer of a thousand partitions has as many of them in each answer. What is
rare (a diverging epoch, where the leader is now; all of v0-v3) is told by the schema, and a property test keeps both
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import NamedTuple

from protocol.framing import response_encoder
from protocol.messages.fetch import (
    FETCH,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.primitives import unsigned_varint
from protocol.schema import Chunk, Struct

NO_RECORDS = b""


class Aborted(NamedTuple):
    """An aborted transaction that a committed reader skips: its producer, and the offset of its first record here."""

    producer_id: int
    first_offset: int


class Epoch(NamedTuple):
    """A leader epoch with the offset at which it ended, or with the node that leads in it."""

    epoch: int
    value: int


class FetchedData:
    """What is said of one partition. `aborted` None for readers of everything, -1 for offsets that are not told."""

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
        #: The largest epoch that both logs have, and where it ended here (KIP-595).
        self.diverging_epoch: Epoch | None = None
        #: The leader's epoch and node id (KIP-951).
        self.current_leader: Epoch | None = None


class FetchedTopic(NamedTuple):
    """By name up to v12, by id from v13 on."""

    name: str
    topic_id: bytes
    partitions: list[FetchedData]


class Node(NamedTuple):
    """Where a leader is found."""

    node_id: int
    host: str
    port: int
    rack: str | None


class FetchAnswer(NamedTuple):
    """A whole answer. `is_plain`: no partition has a diverging epoch or a leader, so it is written by hand."""

    error_code: int
    session_id: int
    topics: list[FetchedTopic]
    is_plain: bool = True
    nodes: Sequence[Node] = ()


_FIRST_BY_HAND = 4
_SIZE = Layout(">ii").pack
_COMPACT_SIZE = Layout(">iix").pack
# size, correlation id, no tags, no throttling, error code, session id, one topic: its id, one partition, ...
_SINGLE_LAYOUT = Layout(">iix4xhiB16sBihqqqBi")
_SINGLE = _SINGLE_LAYOUT.pack
_SINGLE_SIZE = _SINGLE_LAYOUT.size
_HEAD_4 = Layout(">4xi").pack
_HEAD_7 = Layout(">4xhii").pack
_HEAD_12 = Layout(">4xhi").pack
_STRING = Layout(">h").pack
_COUNT = Layout(">i").pack
_PARTITION_4 = Layout(">ihqq").pack
_PARTITION_5 = Layout(">ihqqq").pack
_ABORTED = Layout(">qq").pack
_COMPACT_ABORTED = Layout(">qqx").pack


def fetch_encoder(version: int) -> Callable[[int, Struct | FetchAnswer], list[Chunk]]:
    """The function (correlation id, answer) -> frame in pieces; records stand in it as they are."""
    by_schema = response_encoder(FETCH, version)
    if version < _FIRST_BY_HAND:
        return lambda correlation_id, answer: by_schema(
            correlation_id, as_struct(answer) if isinstance(answer, FetchAnswer) else answer
        )
    by_hand = _compact_encoder(version) if version >= 12 else _plain_encoder(version)

    def encode(correlation_id: int, answer: Struct | FetchAnswer) -> list[Chunk]:
        if type(answer) is not FetchAnswer:
            return by_schema(correlation_id, answer)  # type: ignore[arg-type]
        return by_hand(correlation_id, answer) if answer.is_plain else by_schema(correlation_id, as_struct(answer))

    return encode


def _compact_encoder(version: int) -> Callable[[int, FetchAnswer], list[Chunk]]:
    def encode(correlation_id: int, answer: FetchAnswer) -> list[Chunk]:
        topics = answer.topics
        if version >= 13 and len(topics) == 1 and len(topics[0].partitions) == 1:
            (only,) = topics[0].partitions
            if not only.aborted:
                return _encode_single(correlation_id, answer, topics[0].topic_id, only)
        out = bytearray(_HEAD_12(answer.error_code, answer.session_id))
        out += unsigned_varint(len(topics) + 1)
        chunks: list[Chunk] = []
        for name, topic_id, partitions in topics:
            if version < 13:
                data = name.encode()
                out += unsigned_varint(len(data) + 1)
                out += data
            else:
                out += topic_id
            out += unsigned_varint(len(partitions) + 1)
            for each in partitions:
                out += _PARTITION_5(
                    each.index, each.error_code, each.high_watermark, each.last_stable_offset, each.log_start_offset
                )
                aborted = each.aborted
                if not aborted:
                    out.append(0 if aborted is None else 1)
                else:
                    out += unsigned_varint(len(aborted) + 1)
                    for producer_id, first_offset in aborted:
                        out += _COMPACT_ABORTED(producer_id, first_offset)
                out += _COUNT(each.preferred_read_replica)
                records = each.records
                size = len(records)
                out += unsigned_varint(size + 1)
                if size:
                    chunks.append(out)
                    chunks.append(records)
                    out = bytearray()
                out.append(0)
            out.append(0)
        out.append(0)
        chunks.append(out)
        return _framed(_COMPACT_SIZE, 5, correlation_id, chunks)

    return encode


def _encode_single(correlation_id: int, answer: FetchAnswer, topic_id: bytes, data: FetchedData) -> list[Chunk]:
    """The frame of an answer about one partition, as most are, from v13 on."""
    records = data.records
    records_size = len(records)
    length = unsigned_varint(records_size + 1)
    head = _SINGLE(
        _SINGLE_SIZE - 4 + len(length) + records_size + 3,
        correlation_id,
        answer.error_code,
        answer.session_id,
        2,
        topic_id,
        2,
        data.index,
        data.error_code,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        0 if data.aborted is None else 1,
        data.preferred_read_replica,
    )
    return [head + length, records, b"\0\0\0"] if records_size else [head + length + b"\0\0\0"]


def _plain_encoder(version: int) -> Callable[[int, FetchAnswer], list[Chunk]]:
    def encode(correlation_id: int, answer: FetchAnswer) -> list[Chunk]:
        topics = answer.topics
        if version >= 7:
            out = bytearray(_HEAD_7(answer.error_code, answer.session_id, len(topics)))
        else:
            out = bytearray(_HEAD_4(len(topics)))
        chunks: list[Chunk] = []
        for name, _, partitions in topics:
            data = name.encode()
            out += _STRING(len(data))
            out += data
            out += _COUNT(len(partitions))
            for each in partitions:
                told = each.index, each.error_code, each.high_watermark, each.last_stable_offset
                out += _PARTITION_5(*told, each.log_start_offset) if version >= 5 else _PARTITION_4(*told)
                aborted = each.aborted
                out += _COUNT(-1 if aborted is None else len(aborted))
                for producer_id, first_offset in aborted or ():
                    out += _ABORTED(producer_id, first_offset)
                if version >= 11:
                    out += _COUNT(each.preferred_read_replica)
                records = each.records
                out += _COUNT(len(records))
                if len(records):
                    chunks.append(out)
                    chunks.append(records)
                    out = bytearray()
        if out:
            chunks.append(out)
        return _framed(_SIZE, 4, correlation_id, chunks)

    return encode


def _framed(
    pack: Callable[[int, int], bytes], header_size: int, correlation_id: int, chunks: list[Chunk]
) -> list[Chunk]:
    size = header_size
    for chunk in chunks:
        size += len(chunk)
    chunks[0] = pack(size, correlation_id) + chunks[0]  # type: ignore[operator]
    return chunks


def as_struct(answer: FetchAnswer) -> Struct:
    """The same answer as a value of the schema."""
    return FETCH.response(
        error_code=answer.error_code,
        session_id=answer.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[_partition_struct(each) for each in topic.partitions],
            )
            for topic in answer.topics
        ],
        node_endpoints=[
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack) for each in answer.nodes
        ],
    )


def _partition_struct(data: FetchedData) -> Struct:
    struct = PartitionData(
        partition_index=data.index,
        error_code=data.error_code,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=None
        if data.aborted is None
        else [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in data.aborted
        ],
        preferred_read_replica=data.preferred_read_replica,
        records=data.records,
    )
    if data.diverging_epoch is not None:
        struct.diverging_epoch = EpochEndOffset(epoch=data.diverging_epoch.epoch, end_offset=data.diverging_epoch.value)
    if data.current_leader is not None:
        struct.current_leader = LeaderIdAndEpoch(
            leader_id=data.current_leader.value, leader_epoch=data.current_leader.epoch
        )
    return struct
