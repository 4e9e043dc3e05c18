"""From the name in a client's certificate to a user: ssl.principal.mapping.rules (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@example.org/L,DEFAULT

The first rule that fits the whole name counts. What its pattern finds in the name is replaced, as Java's replaceAll
does it: $1 and ${name} are groups, a backslash takes the next character as it is; L and U make the result lower or
upper case. DEFAULT is the whole name as it is. Patterns are Java's, as far as Python reads them alike
(java_pattern.py).

Two things are not as in Kafka. Between rules are commas: what stands there else is refused, also lines, of which Kafka
takes the last one. And a reference to a group that there is not stands for itself, wherever it is: of several Kafka
misplaces the backslash that it puts before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from security.java_pattern import compile_java

_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|)\s*(?:,|\Z)", re.ASCII | re.DOTALL
)
#: In a replacement; what is none of the first three cannot be read.
_PIECE = re.compile(
    r"\\(?P<plain>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<bad>[$\\])", re.DOTALL
)


class RulesError(ValueError):
    """Rules that cannot be read, or none of which fits a name."""


class _Rule(msgspec.Struct, frozen=True):
    """`pattern` None is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        user = "".join(self._replaced(name))
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user

    def _replaced(self, name: str) -> Iterator[str]:
        """The name in pieces, as Java looks for one match after the other: behind an empty one it goes on by one."""
        assert self.pattern is not None
        begin, told = 0, 0
        while begin <= len(name) and (match := self.pattern.search(name, begin)) is not None:
            yield name[told : match.start()]
            yield _PIECE.sub(lambda piece: _meant(piece, match), self.replacement)
            told = match.end()
            begin = told + (match.start() == told)
        yield name[told:]


def _meant(piece: re.Match[str], match: re.Match[str]) -> str:
    """What stands for a piece of a replacement. Raises RulesError."""
    plain, number, name = piece["plain"], piece["number"], piece["name"]
    if plain is not None:
        return str(plain)
    if number is not None:
        return _group(str(number), match)
    if name is None or name not in match.re.groupindex:
        raise RulesError(f"Invalid replacement: `{piece.string}`")
    return match[name] or ""


def _group(digits: str, match: re.Match[str]) -> str:
    """The group that most of the digits name, with the others behind it; where none do, all of it as it is."""
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= match.re.groups:
            return (match[int(digits[:end])] or "") + digits[end:]
    if not match.re.groups:
        raise RulesError(f"Invalid replacement: there is no group {digits}")
    return f"${digits}"


class PrincipalRules:
    """The rules of a listener. Raises RulesError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = tuple(_parse(text.strip()))

    def user_of(self, name: str) -> str:
        """The user for a certificate's distinguished name. Raises RulesError where no rule fits."""
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return user
        raise RulesError(f"No rules apply to {name}, rules {self._text}")


def _parse(text: str) -> Iterator[_Rule]:
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise RulesError(f"Invalid rule: `{text[position:]}`")
        position = match.end()
        if match[1]:
            yield _Rule()
        elif match[2] is not None:
            yield _Rule(_compiled(match[2]), match[3], match[4])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_java(pattern)
    except ValueError as error:
        raise RulesError(f"Invalid rule: `{pattern}`: {error}") from None
