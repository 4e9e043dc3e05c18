"""Fetch responses to a follower, read without schema structs.

One C call reads the fields of a partition. `decode` returns None for a response with an error, a tagged field or an
aborted transaction, and for malformed bytes: the schema reads those. A property test compares it with the schema's
decoder. v17-v18.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import NamedTuple

from protocol.error_codes import ProtocolError
from protocol.messages.fetch import EpochEndOffset
from protocol.primitives import length_rest
from protocol.schema import Struct

#: Throttle time, error code, session id, number of topics.
_HEAD = Layout(">ihiB")
_TOPIC_ID_SIZE = 16
#: Index, error code, high watermark, last stable offset, log start offset, aborted transactions (0 for null, 1 for
#: none), preferred replica, the first byte of the records' size.
_PARTITION = Layout(">ihqqqBiB")
_PARTITION_SIZE = _PARTITION.size
_NO_DIVERGENCE = EpochEndOffset()
_new_tuple = tuple.__new__


class FollowedPartition(NamedTuple):
    """A partition of a response without an error: its fields that followers use, by the names of PartitionData."""

    partition_index: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: Struct


class FollowedTopic(NamedTuple):
    """A topic, as FetchableTopicResponse."""

    topic_id: bytes
    partitions: list[FollowedPartition]


class FollowedAnswer(NamedTuple):
    """A response without an error, as FetchResponse."""

    error_code: int
    session_id: int
    responses: list[FollowedTopic]


def decode(body: memoryview, position: int) -> tuple[FollowedAnswer, int] | None:
    """Return the response whose fields begin at `position`, and their end; None: it has another shape."""
    try:
        _, error_code, session_id, topic_count = _HEAD.unpack_from(body, position)
        at = position + _HEAD.size
        if error_code or not 0 < topic_count < 128:
            return None
        topics: list[FollowedTopic] = []
        for _ in range(topic_count - 1):
            topic_id = bytes(body[at : at + _TOPIC_ID_SIZE])
            at += _TOPIC_ID_SIZE
            count = body[at]
            at += 1
            if count > 127:
                count, at = length_rest(body, at, count)
            if count <= 0:
                return None
            partitions: list[FollowedPartition] = []
            for _ in range(count - 1):
                index, error_code, high_watermark, _, start_offset, aborted, _, size = _PARTITION.unpack_from(body, at)
                at += _PARTITION_SIZE
                if size > 127:
                    size, at = length_rest(body, at, size)
                if error_code or aborted > 1 or size <= 0:
                    return None
                end = at + size - 1
                if body[end]:
                    return None
                fields = index, 0, high_watermark, start_offset, body[at:end], _NO_DIVERGENCE
                partitions.append(_new_tuple(FollowedPartition, fields))
                at = end + 1
            if body[at]:
                return None
            at += 1
            topics.append(_new_tuple(FollowedTopic, (topic_id, partitions)))
        if body[at]:
            return None
    except (IndexError, LayoutError, ProtocolError):
        return None
    return _new_tuple(FollowedAnswer, (0, session_id, topics)), at + 1
