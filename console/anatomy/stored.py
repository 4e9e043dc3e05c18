"""Keys and values of Kafka's internal topics as spans: the type of a record's message, and its fields.

__consumer_offsets, __transaction_state, __share_group_state
                     key: type int16 | message v0            value: version int16 | message
COMMIT, ABORT        key: version int16 | type int16         value: version int16 | coordinatorEpoch int32
other control records
                     key: version int16 | type int16         value: not parsed
"""

from __future__ import annotations

from collections.abc import Mapping

from console.anatomy.cursor import Cursor
from console.anatomy.message import message_span
from console.anatomy.span import Span
from protocol.error_codes import ProtocolError
from protocol.messages.coordinator import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from protocol.primitives import int16, int32
from protocol.records.control import ControlType
from protocol.schema import Message

_COORDINATORS: Mapping[str, Mapping[int, tuple[Message, Message]]] = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
    "__share_group_state": SHARE_STATE_RECORDS,
}


def key_span(topic: str, key: bytes, *, is_control: bool) -> Span | None:
    """Return a record's key as a span; None if the topic is not internal, or its keys have no schema."""
    cursor = Cursor(key)
    try:
        if is_control:
            cursor.number("version", int16)
            kind = cursor.number("type", int16)
            cursor.set_meaning(ControlType(kind).name if kind in {*ControlType} else "unknown to this version")
        elif topic in _COORDINATORS:
            kind = cursor.number("type", int16)
            messages = _COORDINATORS[topic].get(kind)
            cursor.set_meaning(messages[0].name if messages else "unknown to this version")
            if messages:
                cursor.add(message_span(messages[0], 0, key, cursor.position))
        else:
            return None
    except ProtocolError as error:
        cursor.rest("unread", str(error))
    return _whole("key", cursor)


def value_span(topic: str, key: bytes, value: bytes, *, is_control: bool) -> Span | None:
    """Return a record's value as a span; None if only its producer knows the format."""
    cursor = Cursor(value)
    try:
        if is_control:
            _read_control(cursor, int.from_bytes(key[2:4], "big", signed=True))
        elif topic in _COORDINATORS:
            messages = _COORDINATORS[topic].get(int.from_bytes(key[:2], "big", signed=True))
            version = cursor.number("version", int16)
            if messages:
                cursor.add(message_span(messages[1], version, value, cursor.position))
        else:
            return None
    except ProtocolError as error:
        cursor.rest("unread", str(error))
    return _whole("value", cursor)


def _read_control(cursor: Cursor, kind: int) -> None:
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        cursor.number("version", int16)
        cursor.number("coordinatorEpoch", int32)


def _whole(name: str, cursor: Cursor) -> Span:
    cursor.rest("left over")
    return Span(name, 0, len(cursor.data), "struct", parts=cursor.spans)
