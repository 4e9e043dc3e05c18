"""Read the headers of a record, also if a name is not UTF-8, which a broken client may write."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]

#: Replaces all headers of a record if a name is not UTF-8.
UNREADABLE: Headers = [("\ufffd", None)]

#: For such a name, confluent-kafka returns a null pointer and sets an exception. This call detects that (SystemError);
#: a call that the interpreter has specialised would use the pointer.
_ask: Callable[[Message], Headers | None] = methodcaller("headers")


def headers_of(message: Message) -> Headers:
    """Return names and values, in order."""
    try:
        return _ask(message) or []
    except SystemError:
        message.set_headers([*UNREADABLE])  # else the next call returns the pointer
        return UNREADABLE
