"""Regular expressions as Kafka's brokers accept them: the syntax of RE2J, compiled by RE2.

Matching takes linear time in the length of the text, for any expression. It also depends on the size of the compiled
program, which an expression of a hundred characters can make as large as the limit. The limit here is lower than RE2's
own. The few constructs that RE2 accepts and RE2J does not are rejected here, too, so that a group can move between
brokers. Error messages are RE2J's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode

#: RE2's error messages, and RE2J's for the same errors.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "missing )": "missing closing )",
        "missing ]": "missing closing ]",
        "unexpected )": "regexp/syntax: internal error",
        "trailing \\": "trailing backslash at end of expression",
        "no argument for repetition operator": "missing argument to repetition operator",
        "invalid repetition size": "invalid repeat count",
        "bad repetition operator": "invalid nested repetition operator",
        "invalid perl operator": "invalid or unsupported Perl syntax",
        "invalid named capture group": "invalid named capture",
    }
)

#: Quoted text and escapes, which are skipped as a whole; group names; repetitions that RE2 takes as plain text.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|(?P<escape>\\.)|\(\?P?<(?P<name>\w+)>|(?P<count>\{\d{5,}(?:,\d*)?\})", re.DOTALL)


#: The limit of a compiled expression, some 10,000 steps. With RE2's own 8 MiB, matching one name could take half a
#: second, and cached expressions could take 8 GiB.
_PROGRAM_BYTES = 256 * 1024
#: Longer expressions are rejected unread: RE2 takes up to 160 bytes per character before it rejects one as too large.
_MOST_CHARACTERS = 32_767
_TOO_LARGE = "pattern too large - compile failed"
_TOLD_CHARACTERS = 100


class Pattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> object: ...


class BadExpression(ValueError):
    """RE2's message for an expression that it rejects."""


@lru_cache(maxsize=256)
def compile_expression(expression: str) -> Pattern:
    """Return the compiled expression. Raises Refused: INVALID_REGULAR_EXPRESSION."""
    try:
        pattern = compile_bounded(expression)
    except BadExpression as error:
        shown = expression if len(expression) <= _MOST_CHARACTERS else f"{expression[:_TOLD_CHARACTERS]}..."
        raise invalid(shown, WORDS.get(str(error), str(error))) from error
    only_re2 = find_re2_only_syntax(expression)
    if only_re2 is not None:
        raise invalid(expression, only_re2)
    return pattern


def compile_bounded(expression: str) -> Pattern:
    """Compile an expression that RE2 accepts within the size limit. Raises BadExpression."""
    if len(expression) > _MOST_CHARACTERS:
        raise BadExpression(_TOO_LARGE)
    import re2  # imported on first use: few groups have expressions

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    try:
        pattern: Pattern = re2.compile(expression, options)
    except re2.error as error:
        shown = error.args[0]
        reason, _, _ = (shown.decode(errors="replace") if isinstance(shown, bytes) else str(shown)).partition(": ")
        raise BadExpression(reason) from error
    return pattern


def find_re2_only_syntax(expression: str) -> str | None:
    """Return RE2J's error for an expression that RE2 accepts and RE2J rejects; None if both accept it."""
    names = set()
    for token in _TOKEN.finditer(expression):
        if token["escape"] == r"\C":
            return "invalid escape sequence"
        if token["count"]:
            return "invalid repeat count"
        if token["name"]:
            if token["name"] in names:
                return "duplicate capture group name"
            names.add(token["name"])
    return None


def invalid(expression: str, reason: str) -> Refused:
    message = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}."
    return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
