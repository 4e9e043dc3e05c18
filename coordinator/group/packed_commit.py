"""The records of an offset commit as bytes of a batch, all at once.

Of what a group coordinator writes nearly all are commits of a few partitions without metadata, so their bytes are put
together here without a look at each of their fields; see OffsetRecord for what these say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct as Layout

from coordinator.group.records import OFFSET_COMMIT_VERSION, OffsetRecord, StoredRecord, offset_key_start
from protocol.primitives import ZERO_UUID
from protocol.records.varint import encode_varint

#: So many have offset deltas of one byte.
MOST_RECORDS = 64

#: A record from the partition on: the end of its key, the value's size, and the value, which is an offset commit v4:
#: version, offset, leader epoch, an empty string, commit time, one tagged field with its number and size, topic id; no
#: headers.
_REST = Layout(">iBhqiBq3s16sx")
_VALUE_SIZE = encode_varint(_REST.size - 6)[0]
_EMPTY = 1
_ID_FOLLOWS = bytes([1, 0, 16])
_DELTAS = tuple(encode_varint(delta) for delta in range(MOST_RECORDS))


def pack_commit(records: Sequence[StoredRecord]) -> bytes | None:
    """The records, with offset deltas from 0 on and all of the batch's time. None where they are not that plain."""
    if len(records) > MOST_RECORDS:
        return None
    pieces: list[bytes] = []
    group_id = topic = None
    for delta, record in zip(_DELTAS, records, strict=False):
        if type(record) is not OffsetRecord or record.committed is None:
            return None
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = record.committed
        if metadata or expire_timestamp_ms != -1 or topic_id == ZERO_UUID:
            return None
        if record.topic is not topic or record.group_id is not group_id:
            group_id, topic = record.group_id, record.topic
            front, key_start = _front(group_id, topic)
        rest = _REST.pack(
            record.partition,
            _VALUE_SIZE,
            OFFSET_COMMIT_VERSION,
            offset,
            leader_epoch,
            _EMPTY,
            commit_timestamp_ms,
            _ID_FOLLOWS,
            topic_id,
        )
        pieces += (front, delta, key_start, rest)
    return b"".join(pieces)


@lru_cache(1024)
def _front(group_id: str, topic: str) -> tuple[bytes, bytes]:
    """What stands before a record's offset delta (its size, attributes, no time delta), and between that and the
    partition (the key's size, and the key as far as that).
    """
    start = offset_key_start(group_id, topic)
    key_start = encode_varint(len(start) + 4) + start
    return encode_varint(3 + len(key_start) + _REST.size) + b"\0\0", key_start
