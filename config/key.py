"""The description of a configuration key, and the short names that the tables in `keys/` use."""

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
    """How a broker key may change at run time (KIP-226): not at all, per broker, or for all brokers, too."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigKey(NamedTuple):
    """A key. It is a tuple, not a dataclass, because some 450 of them are created at every start.

    - `default`: typed; None is Kafka's null.
    - `synonyms`: broker keys for a topic or group without a value of its own, in order of precedence, each with its
      factor from its unit to this one's.
    - `family`: the broker keys of the same meaning in different units, including this one, in order of precedence.
    - `inert`: why an accepted key has no effect. Some reasons do not hold in a cluster (keys/why_inert.py).
    - `removed`: a key of earlier versions; `replaced_by`: the current keys that take the value over.
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
        """The allowed values, as text."""
        kind = self.type.name.lower()
        rule = str(self.valid) if self.valid is not None else ""
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.type in (ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS) and rule:
            return rule
        return f"{kind} {rule}".strip()

    def read(self, text: str) -> ConfigValue | Problem:
        """Return the typed value of `text`, or the problem. As in Kafka, a list keeps the first of equal entries."""
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
"""Keys by name, in the order of the tables."""


def table(*groups: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    """Join the keys of several files in one table. Raises ValueError for a duplicate key."""
    rows = [row for group in groups for row in group]
    named = {row.name: row for row in rows}
    if len(named) != len(rows):
        raise ValueError("duplicate keys: " + ", ".join(sorted({r.name for r in rows if named[r.name] is not r})))
    return named


BOOLEAN, STRING, LIST, CLASS = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
INT, SHORT, LONG, DOUBLE = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE
PASSWORD = ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
DOUBLE_MAX = 1.7976931348623157e308
