"""Lists of directories in the local file system."""

from __future__ import annotations

from .values import ConfigValue


def local_paths_reason(_: str, value: ConfigValue) -> str | None:
    """Return why a list of directories is invalid, or None."""
    assert isinstance(value, tuple)
    for path in value:
        if not path or "\0" in path:
            return "one of them is empty" if not path else "a path cannot have null characters"
        if "://" in path or path.startswith("file:"):
            return f"{path} is not a path of the local file system"
    return None
