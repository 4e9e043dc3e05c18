"""What is wrong with a configuration: one `Problem` each, raised together as a `ConfigError`.

A problem has two faces. `str(problem)` is the line an operator reads at start: where the value came from, key, value,
what is wrong, what would be right. `problem.message` is the sentence a client gets with INVALID_CONFIG, in the form
that Kafka's tools print. A secret's value appears in neither.
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One refused value, or one rule that several values break together.

    `value` is None where there is none to show (a secret, or a rule over several keys). `origin` is "file:line", the
    name of the override or of the environment variable; empty for values which came over the wire.
    """

    key: str
    value: str | None
    reason: str
    allowed: str = ""
    origin: str = ""
    sentence: str = ""

    @property
    def message(self) -> str:
        """The whole matter as one sentence, as Kafka's clients know it."""
        if self.sentence:
            return self.sentence
        value = "[hidden]" if self.value is None else self.value
        return f"Invalid value {value} for configuration {self.key}: {self.reason}"

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        what = self.key if self.value is None else f"{self.key}={self.value}"
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{where}{what}: {self.reason}{allowed}"


class ConfigError(Exception):
    """A configuration that can not be used. `problems` has at least one entry; `str()` is the first one's message.

    `warnings` are what would have been told besides, had it been one to start with.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        self.warnings: tuple[str, ...] = ()
        super().__init__(problems[0].message)


class UnknownKeyError(ConfigError):
    """A key that does not exist for this kind of resource."""


def rule(sentence: str, key: str = "", origin: str = "") -> Problem:
    """A problem that is a broken rule over several keys; `key` is the one to name first."""
    return Problem(key=key, value=None, reason=sentence, origin=origin, sentence=sentence)
