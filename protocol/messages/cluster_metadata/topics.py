"""Topics and partitions in `__cluster_metadata`."""

from protocol.primitives import int8, int32, string, uuid
from protocol.schema import Array, Field, Message

TopicRecord = Message("TopicRecord", Field("name", string), Field("topic_id", uuid), versions="0", flexible="0+", key=2)


RemoveTopicRecord = Message("RemoveTopicRecord", Field("topic_id", uuid), versions="0", flexible="0+", key=9)


PartitionRecord = Message(
    "PartitionRecord",
    Field("partition_id", int32, default=-1),
    Field("topic_id", uuid),
    Field("replicas", Array(int32)),
    Field("isr", Array(int32)),
    Field("removing_replicas", Array(int32)),
    Field("adding_replicas", Array(int32)),
    Field("leader", int32, default=-1),
    Field("leader_recovery_state", int8, tag=0),
    Field("leader_epoch", int32, default=-1),
    Field("partition_epoch", int32, default=-1),
    Field("directories", Array(uuid), "1+"),
    Field("eligible_leader_replicas", Array(int32), "2+", nullable="2+", tag=1, default=None),
    Field("last_known_elr", Array(int32), "2+", nullable="2+", tag=2, default=None),
    versions="0-2",
    flexible="0+",
    key=3,
)


PartitionChangeRecord = Message(
    "PartitionChangeRecord",
    Field("partition_id", int32, default=-1),
    Field("topic_id", uuid),
    Field("isr", Array(int32), nullable="0+", tag=0, default=None),
    Field("leader", int32, tag=1, default=-2),
    Field("replicas", Array(int32), nullable="0+", tag=2, default=None),
    Field("removing_replicas", Array(int32), nullable="0+", tag=3, default=None),
    Field("adding_replicas", Array(int32), nullable="0+", tag=4, default=None),
    Field("leader_recovery_state", int8, tag=5, default=-1),
    Field("directories", Array(uuid), "1+", nullable="1+", tag=8, default=None),
    Field("eligible_leader_replicas", Array(int32), "2+", nullable="2+", tag=6, default=None),
    Field("last_known_elr", Array(int32), "2+", nullable="2+", tag=7, default=None),
    versions="0-2",
    flexible="0+",
    key=5,
)


ClearElrRecord = Message("ClearElrRecord", Field("topic_name", string), versions="0", flexible="0+", key=28)
