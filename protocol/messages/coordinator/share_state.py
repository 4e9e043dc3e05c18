"""Delivery states of share partitions in `__share_group_state`: record types 0 and 1."""

from protocol.primitives import int8, int16, int32, int64, string, uuid
from protocol.schema import Array, Field, Message, StructType

ShareSnapshotKey = Message(
    "ShareSnapshotKey",
    Field("group_id", string, "0"),
    Field("topic_id", uuid, "0"),
    Field("partition", int32, "0"),
    versions="0",
    key=0,
)


StateBatch = StructType(
    "StateBatch",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("delivery_state", int8),
    Field("delivery_count", int16),
)
ShareSnapshotValue = Message(
    "ShareSnapshotValue",
    Field("snapshot_epoch", int32),
    Field("state_epoch", int32),
    Field("leader_epoch", int32),
    Field("start_offset", int64),
    Field("delivery_complete_count", int32, tag=0, default=-1),
    Field("create_timestamp", int64),
    Field("write_timestamp", int64),
    Field("state_batches", Array(StateBatch)),
    versions="0",
    flexible="0+",
    key=0,
)


ShareUpdateKey = Message(
    "ShareUpdateKey",
    Field("group_id", string, "0"),
    Field("topic_id", uuid, "0"),
    Field("partition", int32, "0"),
    versions="0",
    key=1,
)


ShareUpdateValue = Message(
    "ShareUpdateValue",
    Field("snapshot_epoch", int32),
    Field("leader_epoch", int32),
    Field("start_offset", int64),
    Field("delivery_complete_count", int32, tag=0, default=-1),
    Field("state_batches", Array(StateBatch)),
    versions="0",
    flexible="0+",
    key=1,
)
