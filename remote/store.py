"""The operations of a store of objects. A key is a relative path with slashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    size_bytes: int


class Source(NamedTuple):
    """A file to store as an object, up to `size_bytes`: it may still grow, or have more space than content."""

    path: str
    size_bytes: int


class Health(NamedTuple):
    """The state of a store, as far as requests have shown it. `reason` is None while it answers."""

    reason: str | None = None
    #: Requests that it may get at once.
    limit: int = 0
    #: Seconds since the oldest upload began that has not ended.
    oldest_upload_s: float = 0


class Store(Protocol):
    """Objects by key. All calls block, have a deadline of their own, and may be made from any thread.

    They raise the errors of `remote/errors.py`, and no other ones.
    """

    def put(self, key: str, content: bytes | Source) -> None:
        """Store an object as a whole, or not at all. Raises Exists if there is one, and OutOfSpace."""

    def get(self, key: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        """Return exactly so many bytes from `start`, or all to the end. Raises Absent, and Damaged if it has fewer."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. An object that is gone already is no error."""

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects whose keys begin with `prefix`, which ends at a slash or is empty, in any order."""
