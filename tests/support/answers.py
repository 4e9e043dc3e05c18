"""Compare an answer with the recorded answer to the same request.

Paths name fields as `Metadata.topics[].topic_id`; in rules, `*` matches any characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from protocol.schema import Struct

_NOTHING = (None, "", 0, -1, b"", bytes(16))


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs from the recorded one."""

    path: str
    recorded: Any
    given: Any

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.given)} where {_short(self.recorded)} was recorded"


class Names:
    """A one-to-one map from recorded ids to this run's ids, by kind ("topic", "member", ...)."""

    def __init__(self, **known: Mapping[Any, Any]) -> None:
        self._given: dict[str, dict[Any, Any]] = {kind: dict(pairs) for kind, pairs in known.items()}

    def given(self, kind: str, recorded: Any) -> Any:
        """Return this run's id for a recorded one, or the recorded one if none is known."""
        return self._given.get(kind, {}).get(recorded, recorded)

    def match(self, kind: str, recorded: Any, given: Any) -> bool:
        """Return whether a recorded id maps to a given one; two ids that are both new are paired. No id matches only no
        id.
        """
        if recorded in _NOTHING or given in _NOTHING:
            return bool(recorded == given)
        known = self._given.setdefault(kind, {})
        if recorded not in known and given not in known.values():
            known[recorded] = given
        return bool(known.get(recorded) == given)


@dataclass(frozen=True)
class Rules:
    """Which differences are allowed.

    `ids`: path -> kind of id; each recorded id maps to one id of this run. `unordered`: path of a list -> field by
    which both sides are sorted before they are compared ("" for plain values). `ignored`: path -> reason why the field
    is not compared. `elsewhere`: path of a list -> whether to keep a recorded element. `compared`: path of a list ->
    whether to compare an element of either side.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    unordered: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    compared: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)

    def id_kind(self, path: str) -> str | None:
        """Return the kind of id in the field at `path`, if any."""
        kind: str | None = _find(self._patterns["ids"], path)
        return kind

    def differences(self, path: str, recorded: Any, given: Any, names: Names) -> Iterator[Difference]:
        """Yield the fields in which two values at `path` differ."""
        if _find(self._patterns["ignored"], path) is not None:
            return
        if isinstance(recorded, Struct) and isinstance(given, Struct):
            for each in recorded.struct_type.fields:
                inner = getattr(recorded, each.name), getattr(given, each.name)
                yield from self.differences(f"{path}.{each.name}", *inner, names)
        elif isinstance(recorded, list) and isinstance(given, list):
            yield from self._list_differences(path, recorded, given, names)
        elif kind := self.id_kind(path):
            if not names.match(kind, recorded, given):
                yield Difference(path, names.given(kind, recorded), given)
        elif recorded != given:
            yield Difference(path, recorded, given)

    def _list_differences(self, path: str, recorded: list[Any], given: list[Any], names: Names) -> Iterator[Difference]:
        belongs = _find(self._patterns["elsewhere"], path)
        if belongs is not None:
            recorded = [each for each in recorded if belongs(each)]
        counts = _find(self._patterns["compared"], path)
        if counts is not None:
            recorded, given = ([each for each in side if counts(each)] for side in (recorded, given))
        key = _find(self._patterns["unordered"], path)
        if key is not None:
            recorded, given = (sorted(side, key=lambda each: _sort_key(each, key)) for side in (recorded, given))
        if len(recorded) != len(given):
            yield Difference(path, recorded, given)
            return
        for one, other in zip(recorded, given, strict=True):
            yield from self.differences(f"{path}[]", one, other, names)

    @cached_property
    def _patterns(self) -> dict[str, dict[re.Pattern[str], Any]]:
        groups: dict[str, Mapping[str, Any]] = {
            "ids": self.ids,
            "unordered": self.unordered,
            "ignored": self.ignored,
            "elsewhere": self.elsewhere,
            "compared": self.compared,
        }
        return {
            name: {re.compile(re.escape(path).replace(r"\*", ".*")): value for path, value in group.items()}
            for name, group in groups.items()
        }


def _find(patterns: Mapping[re.Pattern[str], Any], path: str) -> Any:
    return next((value for pattern, value in patterns.items() if pattern.fullmatch(path)), None)


def _sort_key(element: Any, name: str) -> Any:
    value = getattr(element, name) if name else element
    return "" if value is None else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
