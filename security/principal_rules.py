"""From the name in a client's certificate to a user: ssl.principal.mapping.rules (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@example.org/L,DEFAULT

The first rule that fits counts. $1 is a group of its pattern; L and U make the result lower or upper case; DEFAULT is
the whole name as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|\Z)")
_REFERENCE = re.compile(r"\$(\d)")


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
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        groups = (match[0], *(group or "" for group in match.groups()))
        user = _REFERENCE.sub(lambda found: _group(groups, found), self.replacement)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


def _group(groups: tuple[str, ...], reference: re.Match[str]) -> str:
    """What a reference stands for; one to a group that the pattern does not have stands for itself."""
    number = int(reference[1])
    return groups[number] if number < len(groups) else reference[0]


class PrincipalRules:
    """The rules of a listener. Raises RulesError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = tuple(_parse(text.strip() or "DEFAULT"))

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
            continue
        try:
            pattern = re.compile(match[2])
        except re.error as error:
            raise RulesError(f"Invalid rule: `{match[0]}`: {error}") from None
        yield _Rule(pattern, match[3], match[4])
