"""Read text files that editors of other systems have written: byte order marks, and encodings that are not UTF-8."""

from __future__ import annotations

import codecs
import errno
import os
import re

_LINE_END = re.compile(rb"\r\n|\r|\n")
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


#: The size of the largest configuration file. /dev/zero has no end.
MOST_BYTES = 16 << 20


class UnreadableText(Exception):
    """A file is not text: the line, from 1, and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def file_bytes(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file or pipe. Raises OSError, also if it has more than `most_bytes` bytes."""
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", os.fspath(path))
    return data


def utf8_text(data: bytes, *, may_have_zeros: bool = False) -> str:
    """Return the text of a file in UTF-8, without a byte order mark. Raises UnreadableText.

    `may_have_zeros`: leave zero bytes to the parser of the text.
    """
    check_encoding(data, may_have_zeros=may_have_zeros)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableText(_line(data, error.start), "the file is not UTF-8 text") from None


def check_encoding(data: bytes, *, may_have_zeros: bool = False) -> None:
    """Raise UnreadableText for UTF-16, UTF-32 and binary files: other encodings have no zero bytes in text."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            raise UnreadableText(1, f"the file is {name}, not UTF-8 text")
    if not may_have_zeros and (zero := data.find(b"\0")) >= 0:
        raise UnreadableText(_line(data, zero), "the file is not UTF-8 text: it has a zero byte")


def pem_text(data: bytes) -> str:
    """Return a file in PEM as OpenSSL reads it: in ASCII, as only comments have more, and with line ends of Unix."""
    return _LINE_END.sub(b"\n", data).decode("ascii", "ignore")


def _line(data: bytes, position: int) -> int:
    return len(_LINE_END.findall(data[:position])) + 1
