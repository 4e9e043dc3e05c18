"""The body of a `.snapshot` file after its int16 version."""

from protocol.primitives import int16, int32, int64, uint32
from protocol.schema import Array, Field, Message, StructType

ProducerEntry = StructType(
    "ProducerEntry",
    Field("producer_id", int64, "1"),
    Field("epoch", int16, "1"),
    Field("last_sequence", int32, "1"),
    Field("last_offset", int64, "1"),
    Field("offset_delta", int32, "1"),
    Field("timestamp", int64, "1"),
    Field("coordinator_epoch", int32, "1"),
    Field("current_txn_first_offset", int64, "1"),
)
ProducerSnapshot = Message(
    "ProducerSnapshot", Field("crc", uint32, "1"), Field("producer_entries", Array(ProducerEntry), "1"), versions="1"
)
