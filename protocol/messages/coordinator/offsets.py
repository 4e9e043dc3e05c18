"""Committed offsets in `__consumer_offsets`: record types 0 and 1 (0: an old layout, read only)."""

from protocol.primitives import int32, int64, string, uuid
from protocol.schema import Field, Message

LegacyOffsetCommitKey = Message(
    "LegacyOffsetCommitKey",
    Field("group", string, "0"),
    Field("topic", string, "0"),
    Field("partition", int32, "0"),
    versions="0",
    key=0,
)


LegacyOffsetCommitValue = Message(
    "LegacyOffsetCommitValue",
    Field("offset", int64, "0"),
    Field("metadata", string, "0"),
    Field("commit_timestamp", int64, "0"),
    versions="0",
    key=0,
)


OffsetCommitKey = Message(
    "OffsetCommitKey",
    Field("group", string, "0"),
    Field("topic", string, "0"),
    Field("partition", int32, "0"),
    versions="0",
    key=1,
)


OffsetCommitValue = Message(
    "OffsetCommitValue",
    Field("offset", int64),
    Field("leader_epoch", int32, "3+", default=-1, ignorable=True),
    Field("metadata", string),
    Field("commit_timestamp", int64),
    Field("expire_timestamp", int64, "1", default=-1, ignorable=True),
    Field("topic_id", uuid, "4+", tag=0, ignorable=True),
    versions="0-4",
    flexible="4+",
    key=1,
)
