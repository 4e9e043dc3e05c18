"""A value as it was given, and by whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """The text of a value. `origin` says where it stands, for people: "config/server.properties:12"."""

    text: str
    origin: str


Settings = dict[str, Setting]
"""By key, in the order in which they were given."""
