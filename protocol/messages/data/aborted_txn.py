"""An aborted transaction: an entry of a transaction index (`.txnindex`), which begins with its version, an int16."""

from protocol.primitives import int64
from protocol.schema import Field, Message

AbortedTxn = Message(
    "AbortedTxn",
    Field("producer_id", int64),
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("last_stable_offset", int64),
    versions="0",
)
