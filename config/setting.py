"""The text of a value, with its origin."""

from __future__ import annotations

import msgspec


class Setting(msgspec.Struct, frozen=True):
    """The text of a value. `origin` is where it was set, for people: "config/server.properties:12".

    `given` is the original text, if config providers have replaced a part of it; else empty.
    """

    text: str
    origin: str
    given: str = ""

    @property
    def shown(self) -> str:
        """The text to show: a value from a config provider may be a secret."""
        return self.given or self.text


Settings = dict[str, Setting]
"""Settings by key, in the order in which they were set."""
