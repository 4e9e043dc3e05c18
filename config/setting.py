"""A value as it was given, and by whom."""

from __future__ import annotations

import msgspec


class Setting(msgspec.Struct, frozen=True):
    """The text of a value. `origin` says where it stands, for people: "config/server.properties:12".

    `given` is what was written there, where config providers have put something else in its place; else empty.
    """

    text: str
    origin: str
    given: str = ""

    @property
    def shown(self) -> str:
        """What people may see: what a provider had to be asked for is nobody's business."""
        return self.given or self.text


Settings = dict[str, Setting]
"""By key, in the order in which they were given."""
