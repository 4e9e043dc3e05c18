"""Validators of values, beyond their types. `str()` of a validator is the text in Kafka's documentation.

`check(name, value)` gets the typed value and returns None or a `Problem`. Null values are never checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .errors import Problem
from .values import ConfigValue, to_text


class Validator(Protocol):
    def check(self, name: str, value: ConfigValue) -> Problem | None:
        """Return None if the value is valid, else the problem."""


class Range:
    """A number from `low` to `high`, both inclusive; None is no bound. `extra` is allowed, too."""

    __slots__ = ("extra", "high", "low")

    def __init__(self, low: float | None = None, high: float | None = None, extra: int | None = None) -> None:
        self.low, self.high, self.extra = low, high, extra

    def check(self, name: str, value: ConfigValue) -> Problem | None:
        assert isinstance(value, int | float)
        if value == self.extra:
            return None
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        if not too_low and not too_high:
            return None
        if self.extra is not None:
            reason = f"Value must be between {self.low} and {self.high} or equal to {self.extra}"
        else:
            reason = f"Value must be at least {self.low}" if too_low else f"Value must be no more than {self.high}"
        return Problem(name, to_text(value), reason, str(self))

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low},"
        high = "" if self.high is None else f",{self.high}"
        return f"[{low}...{high}]" + (f" or {self.extra}" if self.extra is not None else "")


class OneOf:
    """One of a few words."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words, self.ignore_case = words, ignore_case

    def check(self, name: str, value: ConfigValue) -> Problem | None:
        assert isinstance(value, str)
        if value in self.words or (self.ignore_case and value.upper() in self.words):
            return None
        how = " (case insensitive)" if self.ignore_case else ""
        return Problem(name, value, f"String must be one of{how}: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignore_case else ''}[{', '.join(self.words)}]"


class ListOf:
    """A list without empty entries; of `words` only, if there are any; the empty list only with `empty`."""

    __slots__ = ("empty", "words")

    def __init__(self, *words: str, empty: bool = True) -> None:
        self.words, self.empty = words, empty

    def check(self, name: str, value: ConfigValue) -> Problem | None:
        assert isinstance(value, tuple)
        what = str(self) or "any non-empty value"
        if not value and not self.empty:
            sentence = f"Configuration '{name}' must not be empty. Valid values include: {what}"
            return Problem(name, "", "must not be empty", what, sentence=sentence)
        for entry in value:
            if not entry:
                sentence = f"Configuration '{name}' values must not be empty."
                return Problem(name, to_text(value), "has an empty entry", what, sentence=sentence)
            if self.words and entry not in self.words:
                return Problem(name, entry, f"String must be one of: {', '.join(self.words)}")
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class Rule:
    """Any other check: `test` returns None or the reason. `text` is the text in Kafka's documentation."""

    __slots__ = ("test", "text")

    def __init__(self, text: str, test: Callable[[str, ConfigValue], str | None]) -> None:
        self.text, self.test = text, test

    def check(self, name: str, value: ConfigValue) -> Problem | None:
        reason = self.test(name, value)
        if reason is None:
            return None
        shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else to_text(value)
        return Problem(name, shown, reason, self.text)

    def __str__(self) -> str:
        return self.text
