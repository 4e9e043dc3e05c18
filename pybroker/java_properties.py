"""Parse Java's .properties syntax, like `java.util.Properties.load`, with line numbers.

Comments begin with # or !. `=`, `:` or white space separates key and value. A backslash at the end continues a line.
Escapes: `\\t \\n \\r \\f \\uXXXX` are escapes and a backslash before anything else is dropped. Blanks at the end of a
value stay, as in Java. The parser rejects `\\u` without four hexadecimal digits.

Java reads Latin-1. A file that is UTF-8 is read as such here, so that names and passwords are those that its author
sees; any other file is Latin-1. A byte order mark is no part of the first key. UTF-16, with which Java reads no key
correctly, is an error.

Broker and client files are read with it. It is in this package because commands may import it.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from pybroker.text_files import UnreadableText, check_encoding, utf8_text

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_TRAILING_BACKSLASHES = re.compile(r"\\+$")
_KEY_AND_VALUE = re.compile(r"((?:[^\\=: \t\f]++|\\.)*+)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One entry and the number of the line on which it begins, from 1."""

    key: str
    value: str
    line: int


class UnreadableProperties(Exception):
    """A file cannot be parsed: the entry, if known, its line, the problem and what is allowed."""

    def __init__(self, entry: str, line: int, reason: str, allowed: str) -> None:
        super().__init__(reason)
        self.entry = entry
        self.line = line
        self.reason = reason
        self.allowed = allowed


def parse_properties(data: bytes, *, is_utf8: bool = False) -> list[Property]:
    """Return the entries of a file in order, with duplicates. Raises UnreadableProperties for the first problem.

    `is_utf8`: reject files in Latin-1, as the methods of Java do that read characters instead of bytes.
    """
    try:
        text = utf8_text(data) if is_utf8 else decoded_properties(data)
    except UnreadableText as error:
        raise UnreadableProperties("", error.line, error.reason, "UTF-8 text") from None
    return [_property(logical, number) for logical, number in _logical_lines(text)]


def decoded_properties(data: bytes) -> str:
    """Return the text of a properties file. Raises UnreadableText for UTF-16 and binary files."""
    try:
        return utf8_text(data)
    except UnreadableText:
        check_encoding(data)
        return data.removeprefix(codecs.BOM_UTF8).decode("latin-1")


def _logical_lines(text: str) -> list[tuple[str, int]]:
    """Return the lines with an entry, continuations joined, each with the number of its first line."""
    lines = _LINE_END.split(text)
    logical = []
    at = 0
    while at < len(lines):
        line = lines[at].lstrip(_BLANKS)
        at += 1
        if not line or line[0] in "#!":
            continue
        first = at
        while _goes_on(line):
            line = line[:-1]
            if at == len(lines):
                break
            line += lines[at].lstrip(_BLANKS)
            at += 1
        logical.append((line, first))
    return logical


def _goes_on(line: str) -> bool:
    backslashes = _TRAILING_BACKSLASHES.search(line)
    return backslashes is not None and len(backslashes[0]) % 2 == 1


def _property(logical: str, line: int) -> Property:
    match = _KEY_AND_VALUE.fullmatch(logical)
    assert match is not None, "the pattern takes any text"
    try:
        return Property(_unescape(match[1]), _unescape(match[2]), line)
    except ValueError as error:
        raise UnreadableProperties(logical, line, str(error), "\\u and four hexadecimal digits") from None


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise ValueError("malformed \\uXXXX escape")
        return _CONTROL.get(escape, escape)

    # Java's \u escapes are UTF-16 units: a character beyond U+FFFF is written as two of them.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
