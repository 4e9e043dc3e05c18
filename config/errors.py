"""Errors in a configuration: a `Problem` each, raised together as a `ConfigError`.

A problem has two texts. `str(problem)` is a line for operators at start: origin, key, value, reason, allowed values.
`problem.message` is the message to a client with INVALID_CONFIG, in the form that Kafka's tools print. Neither has the
value of a secret.
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """An invalid value, or a rule that several values break together.

    `value` is None if there is none to show (a secret, or a rule over several keys). `origin` is "file:line", the name
    of the override or of the environment variable; empty for values from a request.
    """

    key: str
    value: str | None
    reason: str
    allowed: str = ""
    origin: str = ""
    sentence: str = ""

    @property
    def message(self) -> str:
        """The problem as one sentence, in Kafka's words."""
        if self.sentence:
            return self.sentence
        value = "[hidden]" if self.value is None else self.value
        return f"Invalid value {value} for configuration {self.key}: {self.reason}"

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        what = self.key if self.value is None else f"{self.key}={self.value}"
        subject = f"{what}: " if what else ""  # a rule over several keys, or a file, may have none
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{where}{subject}{self.reason}{allowed}"


class ConfigError(Exception):
    """A configuration that cannot be used. `problems` has at least one entry; `str()` is the message of the first one.

    `warnings` are the warnings that a valid configuration would have had.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        self.warnings: tuple[str, ...] = ()
        super().__init__(problems[0].message)


class UnknownKeyError(ConfigError):
    """A key that this kind of resource does not have."""


def rule(sentence: str, key: str = "", origin: str = "") -> Problem:
    """Return the problem of a broken rule over several keys; `key` is the most relevant one."""
    return Problem(key=key, value=None, reason=sentence, origin=origin, sentence=sentence)
