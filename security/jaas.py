"""The syntax of `sasl.jaas.config`: login modules with options, as Apache Kafka reads it.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";

Kafka uses java.io.StreamTokenizer, which has surprising rules: a single slash begins a comment until the end of the
line, and a number is not a word, so that a value of digits needs quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_SIMPLE_ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_TOKEN = r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
      | (?P<quoted>"(?:\\[^\r\n]|[^"\\\r\n])*(?:"|(?=[\r\n])|\\?\Z)|'(?:\\[^\r\n]|[^'\\\r\n])*(?:'|(?=[\r\n])|\\?\Z))
      | (?P<number>-?(?:[0-9.][0-9.]*))
      | (?P<word>[A-Za-z_$MORE\-\xa0-\U0010ffff][A-Za-z0-9._$MORE\-\xa0-\U0010ffff]*)
      | (?P<other>.)"""
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """A syntax error, in Kafka's words. The message never has a value, which may be a secret."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module. Its `repr` leaves out the options, because they have passwords."""

    name: str
    flag: str
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or quoted text (`text`; for quoted text `sign` is the quote), or any other character (`sign`).

    `start` is its position in the text.
    """

    text: str | None
    sign: str = ""
    start: int = 0


def parse_jaas(text: str) -> list[LoginModule]:
    """Return all login modules in `text`. Raises JaasError."""
    found = tokens(text)
    modules = [_module(token, found) for token in found]
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def login_module(text: str) -> LoginModule:
    """Return the only login module in `text`. Raises JaasError."""
    modules = parse_jaas(text)
    if len(modules) > 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def _module(first: Token, found: Iterator[Token]) -> LoginModule:
    flag = next(found, None)
    if flag is None:
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag.text}' in JAAS config")
    options: dict[str, str] = {}
    for token in found:
        if token.sign == ";":
            return LoginModule(first.text or "", flag.text.upper(), options)
        sign, value = next(found, None), next(found, None)
        if sign is None or sign.sign != "=" or value is None or value.text is None:
            # Unlike in Kafka, the message does not name the option: the name may be the rest of a password without
            # quotes.
            raise JaasError(f"Value not specified for option {len(options) + 1} in JAAS config")
        options[token.text or ""] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def tokens(text: str, more: str = "") -> Iterator[Token]:
    """Yield the tokens of `text`, without blanks and comments. Words may also have the characters of `more`."""
    for match in _pattern(more).finditer(text):
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            yield Token(found, "", match.start())
        elif kind == "quoted":
            inner = found[1:-1] if len(found) > 1 and found[-1] == found[0] else found[1:]
            yield Token(_ESCAPE.sub(_unescape, inner), found[0], match.start())
        elif kind != "blank":
            yield Token(None, found, match.start())


@cache
def _pattern(more: str) -> re.Pattern[str]:
    return re.compile(_TOKEN.replace("MORE", more), re.DOTALL | re.VERBOSE)


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape.isdecimal() and escape < "8":
        return chr(int(escape, 8))
    return _SIMPLE_ESCAPES.get(escape, escape)
