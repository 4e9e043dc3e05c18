"""Records as text: `--format '%t %p %o %k %v'` with kcat's letters, or JSON."""

from __future__ import annotations

import argparse
import base64
import codecs
import json
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pybroker.cli.client.control_characters import escaped
from pybroker.cli.client.headers import headers_of

if TYPE_CHECKING:
    from confluent_kafka import Message

LETTERS = """\
letters of --format:
  %t topic      %p partition            %o offset
  %k key        %v, %s value            %h headers, as NAME=VALUE,...
  %K, %S        size of key and value in bytes; -1 for null
  %T, %D        timestamp: milliseconds, ISO 8601      %% a percent sign
  \\n, \\t, \\0, \\xHH as in other languages; a line break follows each record unless the format has one of its own"""

_LETTER = re.compile(rb"%(.)", re.DOTALL)
_ENDS_LINES = re.compile(rb"[\n\0]$")

Encode = Callable[[bytes], bytes]
ENCODINGS: dict[str, Encode] = {
    "text": lambda octets: octets,
    "escaped": escaped,
    "raw": lambda octets: octets,
    "hex": lambda octets: octets.hex().encode(),
    "base64": base64.b64encode,
}


def record_format(text: str) -> bytes:
    """Check a format and undo its escapes. Raises ArgumentTypeError."""
    try:
        plain = codecs.escape_decode(text.encode())[0]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    assert isinstance(plain, bytes)
    for letter in _LETTER.findall(plain):
        if letter not in _VALUES:
            raise argparse.ArgumentTypeError(f"{text!r}: there is no %{letter.decode(errors='replace')}")
    if plain.replace(b"%%", b"").endswith(b"%"):
        raise argparse.ArgumentTypeError(f"{text!r} ends within a letter")
    return plain if _ENDS_LINES.search(plain) else plain + b"\n"


def formatted(message: Message, plain: bytes, encoding: str) -> bytes:
    """Format a record with a format that `record_format` returned."""
    return _LETTER.sub(lambda letter: _VALUES[letter[1]](message, ENCODINGS[encoding]), plain)


def as_json(message: Message, encoding: str, parsed: Collection[str] = ()) -> bytes:
    """Return the record as a JSON object on one line. Invalid UTF-8 becomes U+FFFD, unless another encoding is chosen.

    `parsed` names those of key and value that are JSON already: the object contains them as they are.
    """

    def text(octets: bytes | str | None) -> str | None:
        return None if octets is None else ENCODINGS[encoding](_octets(octets)).decode(errors="replace")

    record = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": _timestamp(message),
        "key": text(message.key()),
        "value": text(message.value()),
        "headers": [[name, text(value)] for name, value in headers_of(message)],
    }
    for part, data in (("key", message.key()), ("value", message.value())):
        if part in parsed:
            record[part] = json.loads(_octets(data))
    return json.dumps(record, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _octets(data: bytes | str | None) -> bytes:
    return data.encode() if isinstance(data, str) else data or b""


def _timestamp(message: Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return timestamp_ms if kind else None


def _iso(message: Message, _: Encode) -> bytes:
    timestamp_ms = _timestamp(message)
    if timestamp_ms is None:
        return b"-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError):  # outside the range of datetime
        return str(timestamp_ms).encode()
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _headers(message: Message, encode: Encode) -> bytes:
    return b",".join(name.encode() + b"=" + encode(_octets(value)) for name, value in headers_of(message))


def _size(data: bytes | str | None) -> bytes:
    return b"-1" if data is None else str(len(_octets(data))).encode()


_VALUES: dict[bytes, Callable[[Message, Encode], bytes]] = {
    b"t": lambda message, _: _octets(message.topic()),
    b"p": lambda message, _: str(message.partition()).encode(),
    b"o": lambda message, _: str(message.offset()).encode(),
    b"k": lambda message, encode: encode(_octets(message.key())),
    b"v": lambda message, encode: encode(_octets(message.value())),
    b"s": lambda message, encode: encode(_octets(message.value())),
    b"h": _headers,
    b"K": lambda message, _: _size(message.key()),
    b"S": lambda message, _: _size(message.value()),
    b"T": lambda message, _: str(message.timestamp()[1]).encode(),
    b"D": _iso,
    b"%": lambda message, _: b"%",
}
