"""Read files that users name: pipes that nobody fills, byte order marks, and encodings that are not UTF-8."""

from __future__ import annotations

import codecs
import errno
import os
import re
import select
import stat
import time
from typing import BinaryIO

_LINE_END = re.compile(rb"\r\n|\r|\n")
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


#: The size of the largest configuration file. /dev/zero has no end.
MOST_BYTES = 16 << 20


#: How long a process may take to open a named pipe for writing, and then to write.
_WRITER_S, _WRITE_S = 3.0, 60.0
_TURN_S = 0.05


class UnreadableText(Exception):
    """A file is not text: the line, from 1, and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for a pipe: `open` waits until another process opens it."""
    return open(path, "rb", opener=_opened_file)


def file_bytes(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file or pipe. Raises OSError, also if it has more than `most_bytes` bytes.

    A pipe has to have a writer within seconds; a shell's `<(COMMAND)` is one.
    """
    with open(path, "rb", buffering=0, opener=_opened) as file:
        is_pipe = not os.get_blocking(file.fileno())
        data = _pipe_bytes(path, file.fileno(), most_bytes) if is_pipe else _all(file.fileno(), most_bytes)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", os.fspath(path))
    return data


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting. The descriptor of a pipe does not block."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISFIFO(os.fstat(handle).st_mode):
        os.set_blocking(handle, True)  # a terminal would have no input yet
    return handle


def _opened_file(path: str, flags: int) -> int:
    handle = _opened(path, flags)
    if not os.get_blocking(handle):
        os.close(handle)
        raise OSError(errno.ESPIPE, "it is a pipe, not a file", path)
    return handle


def _all(handle: int, most_bytes: int) -> bytes:
    data = bytearray()
    while len(data) <= most_bytes and (part := os.read(handle, most_bytes + 1 - len(data))):
        data += part
    return bytes(data)


def _pipe_bytes(path: str | os.PathLike[str], handle: int, most_bytes: int) -> bytes:
    """Return what a pipe has until its writers close it. Raises OSError if there is no writer, or it does not write."""
    data = bytearray()
    has_writer = False
    written = select.poll()  # select cannot wait for descriptors above 1,023
    written.register(handle, select.POLLIN)
    deadline = time.monotonic() + _WRITER_S
    while len(data) <= most_bytes:
        try:
            part = os.read(handle, most_bytes + 1 - len(data))
        except BlockingIOError:
            has_writer = True
            if not written.poll(_WRITE_S * 1000):
                raise OSError(errno.ENXIO, f"nothing was written to this pipe in {_WRITE_S:g} s", path) from None
            continue
        data += part
        if part:
            has_writer = True
        elif has_writer:
            break
        elif time.monotonic() > deadline:
            raise OSError(errno.ENXIO, "no process writes to this pipe", path)
        else:
            time.sleep(_TURN_S)
    return bytes(data)


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
