"""Regular expressions as Kafka's brokers take them: the language of RE2J, by way of RE2, from which it comes.

Matching takes time linear in the text, whoever wrote the expression, but also in the size of the program that it
becomes, which a hundred characters can make as large as is allowed: less is allowed here than by RE2 itself. The few
things that RE2 takes and RE2J does not are refused here too, so that a group can move between the brokers; and errors
are told in RE2J's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

from coordinator.group.refused import Refused
from protocol.errors import ErrorCode

#: What RE2 says of an expression -> what RE2J says of it.
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

#: Quoted text and escapes, which are passed over as wholes; names of groups; repetitions that are none to RE2.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|(?P<escape>\\.)|\(\?P?<(?P<name>\w+)>|(?P<count>\{\d{5,}(?:,\d*)?\})", re.DOTALL)


#: What an expression's program may take, some 10,000 steps. With RE2's own 8 MiB to look at one name could take half a
#: second, and those that are kept 8 GiB.
_PROGRAM_BYTES = 256 * 1024
#: Longer expressions are refused unread: for each character RE2 takes up to 160 bytes before it finds it too much.
_MOST_CHARACTERS = 32_767
_TOO_LARGE = "pattern too large - compile failed"
_TOLD_CHARACTERS = 100


class Pattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> object: ...


class BadExpression(ValueError):
    """What RE2 says of an expression that it does not take."""


@lru_cache(maxsize=256)
def compile_expression(expression: str) -> Pattern:
    """The compiled expression. Raises Refused: INVALID_REGULAR_EXPRESSION."""
    try:
        pattern = compile_bounded(expression)
    except BadExpression as error:
        told = expression if len(expression) <= _MOST_CHARACTERS else f"{expression[:_TOLD_CHARACTERS]}..."
        raise invalid(told, WORDS.get(str(error), str(error))) from error
    only_re2 = find_what_only_re2_takes(expression)
    if only_re2 is not None:
        raise invalid(expression, only_re2)
    return pattern


def compile_bounded(expression: str) -> Pattern:
    """Whatever RE2 takes of the size that is allowed. Raises BadExpression."""
    if len(expression) > _MOST_CHARACTERS:
        raise BadExpression(_TOO_LARGE)
    import re2  # loaded when the first one comes: few groups have any

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    try:
        pattern: Pattern = re2.compile(expression, options)
    except re2.error as error:
        told = error.args[0]
        reason, _, _ = (told.decode(errors="replace") if isinstance(told, bytes) else str(told)).partition(": ")
        raise BadExpression(reason) from error
    return pattern


def find_what_only_re2_takes(expression: str) -> str | None:
    """What RE2J would say of an expression that RE2 takes; None if both take it."""
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
