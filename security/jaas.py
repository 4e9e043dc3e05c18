"""The syntax of `sasl.jaas.config`: login modules with options, as Apache Kafka reads it.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";

Kafka reads it by java.io.StreamTokenizer, and so it has some properties that nobody would think of: a single slash
begins a comment that ends with the line, and a number is no word, so that a value of digits needs quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_SIMPLE_ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
      | (?P<quoted>"(?:\\[^\r\n]|[^"\\\r\n])*(?:"|(?=[\r\n])|\\?\Z)|'(?:\\[^\r\n]|[^'\\\r\n])*(?:'|(?=[\r\n])|\\?\Z))
      | (?P<number>-?(?:[0-9.][0-9.]*))
      | (?P<word>[A-Za-z_$\-\xa0-\U0010ffff][A-Za-z0-9._$\-\xa0-\U0010ffff]*)
      | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """What is wrong with the text, in Kafka's words. It never holds a value, which may be a secret."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry. Its options are not shown: they hold passwords."""

    name: str
    flag: str
    options: dict[str, str] = field(repr=False)


class _Token(msgspec.Struct, frozen=True):
    """`text` of a word or of what stands between quotes; `sign` of any other character."""

    text: str | None
    sign: str = ""


def parse_jaas(text: str) -> list[LoginModule]:
    """All login modules in `text`. Raises JaasError."""
    tokens = _tokens(text)
    modules = [_module(token, tokens) for token in tokens]
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def login_module(text: str) -> LoginModule:
    """The only login module in `text`. Raises JaasError."""
    modules = parse_jaas(text)
    if len(modules) > 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def _module(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if flag is None:
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag.text}' in JAAS config")
    options: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            return LoginModule(first.text or "", flag.text.upper(), options)
        sign, value = next(tokens, None), next(tokens, None)
        if sign is None or sign.sign != "=" or value is None or value.text is None:
            raise JaasError(f"Value not specified for key '{token.text}' in JAAS config")
        options[token.text or ""] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            yield _Token(found)
        elif kind == "quoted":
            inner = found[1:-1] if len(found) > 1 and found[-1] == found[0] else found[1:]
            yield _Token(_ESCAPE.sub(_unescape, inner))
        elif kind != "blank":
            yield _Token(None, found)


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape.isdecimal() and escape < "8":
        return chr(int(escape, 8))
    return _SIMPLE_ESCAPES.get(escape, escape)
