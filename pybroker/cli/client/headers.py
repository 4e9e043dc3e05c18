"""The headers of a record, also of one whose names are not all text: clients do not write such, strangers may."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]

#: In the place of all headers of a record that has a name that is no UTF-8.
UNREADABLE: Headers = [("\ufffd", None)]

#: Of such a name, librdkafka's Python gives a null pointer and raises at the same time. A call by this sees that it is
#: wrong (SystemError); one that the interpreter has specialised goes on with the pointer.
_ask: Callable[[Message], Headers | None] = methodcaller("headers")


def headers_of(message: Message) -> Headers:
    """Names and values, in order."""
    try:
        return _ask(message) or []
    except SystemError:
        message.set_headers([*UNREADABLE])  # else the pointer is what is given to whoever asks again
        return UNREADABLE
