"""Map the name in a client's certificate to a user: ssl.principal.mapping.rules (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@example.org/L,DEFAULT

The first rule that matches the whole name counts. The matches of its pattern in the name are replaced as by Java's
replaceAll: $1 and ${name} are groups, and a backslash escapes the next character. L and U convert the result to lower
or upper case. DEFAULT is the unchanged name. Patterns are Java's, if Python reads them in the same way
(java_pattern.py).

Two rules differ from Kafka. Rules are separated by commas, and any other text between them is rejected, also line
breaks, for which Kafka uses the last line. A reference to a missing group is kept as text everywhere; Kafka misplaces
the backslash before it if there are several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from security.java_pattern import compile_java

_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|)\s*(?:,|\Z)", re.ASCII | re.DOTALL
)
#: The pieces of a replacement. Only the first three can be read.
_PIECE = re.compile(
    r"\\(?P<plain>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<bad>[$\\])", re.DOTALL
)


class RulesError(ValueError):
    """The rules cannot be read, or no rule matches a name."""


class _Rule(msgspec.Struct, frozen=True):
    """A rule; `pattern` None is DEFAULT."""

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
        """Yield the pieces of the replaced name.

        As in Java, the search continues one character after an empty match.
        """
        assert self.pattern is not None
        begin, end = 0, 0
        while begin <= len(name) and (match := self.pattern.search(name, begin)) is not None:
            yield name[end : match.start()]
            yield _PIECE.sub(lambda piece: _meant(piece, match), self.replacement)
            end = match.end()
            begin = end + (match.start() == end)
        yield name[end:]


def _meant(piece: re.Match[str], match: re.Match[str]) -> str:
    """Return the text for a piece of a replacement. Raises RulesError."""
    plain, number, name = piece["plain"], piece["number"], piece["name"]
    if plain is not None:
        return str(plain)
    if number is not None:
        return _group(str(number), match)
    if name is None or name not in match.re.groupindex:
        raise RulesError(f"Invalid replacement: `{piece.string}`")
    return match[name] or ""


def _group(digits: str, match: re.Match[str]) -> str:
    """Return the group that the longest prefix of the digits names, and the other digits.

    Without such a group, return the text itself.
    """
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
        """Return the user for a certificate's distinguished name. Raises RulesError if no rule matches."""
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
