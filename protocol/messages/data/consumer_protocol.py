"""Subscriptions and assignments of consumers in JoinGroup and SyncGroup: an int16 version, then the body."""

from protocol.primitives import bytestring, int32, string
from protocol.schema import MAX_REQUEST_ELEMENTS, Array, Field, Message, StructType

ConsumerProtocolSubscriptionTopicPartition = StructType(
    "ConsumerProtocolSubscriptionTopicPartition",
    Field("topic", string, "1+"),
    Field("partitions", Array(int32), "1+"),
)
ConsumerProtocolSubscription = Message(
    "ConsumerProtocolSubscription",
    Field("topics", Array(string)),
    Field("user_data", bytestring, nullable="0+", default=None),
    Field("owned_partitions", Array(ConsumerProtocolSubscriptionTopicPartition), "1+", ignorable=True),
    Field("generation_id", int32, "2+", default=-1, ignorable=True),
    Field("rack_id", string, "3+", nullable="3+", default=None, ignorable=True),
    versions="0-3",
    max_elements=MAX_REQUEST_ELEMENTS,
)


ConsumerProtocolAssignmentTopicPartition = StructType(
    "ConsumerProtocolAssignmentTopicPartition",
    Field("topic", string),
    Field("partitions", Array(int32)),
)
ConsumerProtocolAssignment = Message(
    "ConsumerProtocolAssignment",
    Field("assigned_partitions", Array(ConsumerProtocolAssignmentTopicPartition)),
    Field("user_data", bytestring, nullable="0+", default=None),
    versions="0-3",
    max_elements=MAX_REQUEST_ELEMENTS,
)
