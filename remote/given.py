"""Settings of a storage class as a user gives them: texts by key, without the prefix of these keys in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remote.errors import SettingError

#: Parts of keys whose values never appear in a message.
_SECRET = ("secret", "password", "token", "account.key", "access.key", "credentials", "connection.string")


class Given:
    """Values by key. Each getter raises SettingError, which names the whole key with its prefix."""

    def __init__(self, values: Mapping[str, str], prefix: str) -> None:
        self._values = values
        self._prefix = prefix

    def name(self, key: str) -> str:
        """Return the key as it is in the file."""
        return self._prefix + key

    def text(self, key: str) -> str | None:
        """Return the value; None if there is none or an empty one."""
        return self._values.get(key, "").strip() or None

    def required(self, key: str) -> str:
        """Return the value. There must be one."""
        value = self.text(key)
        if value is None:
            raise SettingError(self.name(key), None, "must be set")
        return value

    def flag(self, key: str) -> bool | None:
        """Return a boolean value; None if there is none."""
        value = self.text(key)
        if value is None:
            return None
        if value.lower() not in ("true", "false"):
            raise self.refused(key, "not a boolean", "true, false")
        return value.lower() == "true"

    def number(self, key: str, default: int, most: int) -> int:
        """Return a number from 1 to `most`."""
        value = self.text(key)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) <= most:
            raise self.refused(key, "not a number of this range", f"1 to {most}")
        return int(value)

    def words(self, key: str, allowed: Iterable[str]) -> tuple[str, ...]:
        """Return the words of a list with commas, each of them once."""
        words = tuple(dict.fromkeys(each.strip() for each in (self.text(key) or "").split(",") if each.strip()))
        if not set(words) <= set(allowed):
            raise self.refused(key, "unknown word", ", ".join(allowed))
        return words

    def refused(self, key: str, reason: str, allowed: str = "") -> SettingError:
        """Return the error for a value that is given. A secret is not in it."""
        is_secret = any(part in key for part in _SECRET)
        return SettingError(self.name(key), None if is_secret else self.text(key), reason, allowed)

    def others(self, known: Iterable[str]) -> list[str]:
        """Return the given keys that are not in `known`."""
        return sorted(key for key in set(self._values) - set(known) if self.text(key) is not None)
