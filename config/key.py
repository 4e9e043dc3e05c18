"""The row that describes one configuration key, and the short names with which the tables in `keys/` are written."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from .errors import Problem
from .validators import ListOf, Validator
from .values import ConfigType, ConfigValue, parse, to_text


class Importance(Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class UpdateMode(Enum):
    """Who may change a broker's key while it runs (KIP-226): nobody, one broker at a time, or also all at once."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigKey(NamedTuple):
    """One row. A tuple, not a dataclass: some 450 of them are made at every start.

    `default` is typed; None is Kafka's null. `synonyms` are the broker's keys which give the value where a topic's or
    group's is not set, in order of precedence, each with the factor from its unit to this one's. `family` is the order
    of precedence, this key included, among broker keys that say the same in different units. `inert` says why a key
    that is accepted has no effect here. `removed` marks keys of former versions; `replaced_by` are the keys of today
    which take the value over.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    valid: Validator | None
    importance: Importance
    update_mode: UpdateMode
    doc: str
    synonyms: tuple[tuple[str, int], ...] = ()
    family: tuple[str, ...] = ()
    required: bool = False
    internal: bool = False
    removed: bool = False
    replaced_by: tuple[str, ...] = ()
    inert: str = ""

    @property
    def default_text(self) -> str | None:
        return to_text(self.default)

    @property
    def allowed(self) -> str:
        """What a value may be, for people."""
        kind = self.type.name.lower()
        rule = str(self.valid) if self.valid is not None else ""
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.type in (ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS) and rule:
            return rule
        return f"{kind} {rule}".strip()

    def read(self, text: str) -> ConfigValue | Problem:
        """The typed value of `text`, or what is wrong with it. A list keeps the first of equal entries, as in Kafka."""
        shown = None if self.type is ConfigType.PASSWORD else text
        try:
            value = parse(self.type, text)
        except ValueError as error:
            return Problem(self.name, shown, str(error), self.allowed)
        if self.valid is not None:
            problem = self.valid.check(self.name, value)
            if problem is not None:
                return problem
            if isinstance(value, tuple) and isinstance(self.valid, ListOf):
                return tuple(dict.fromkeys(value))
        return value


KeyTable = Mapping[str, ConfigKey]
"""Rows by name, in the order of the tables."""


def table(*groups: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    """One table of several files' rows; a key which stands twice is a mistake in the tables."""
    rows = [row for group in groups for row in group]
    named = {row.name: row for row in rows}
    if len(named) != len(rows):
        raise ValueError("a key stands twice: " + ", ".join(sorted({r.name for r in rows if named[r.name] is not r})))
    return named


BOOLEAN, STRING, LIST, CLASS = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
INT, SHORT, LONG, DOUBLE = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE
PASSWORD = ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
DOUBLE_MAX = 1.7976931348623157e308
