"""A span: bytes next to each other, what they are called and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`start` and `end` count within the bytes that were looked at; `parts` fill it without gaps, if there are any.

    `kind` is the type in the schema's words, `value` what the bytes say in it, `meaning` what that amounts to.
    """

    name: str
    start: int
    end: int
    kind: str
    value: str = ""
    meaning: str = ""
    parts: tuple[Span, ...] = ()

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Span]]:
        """It and all that is in it, in the order of the bytes, with depths."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    def leaves(self) -> Iterator[Span]:
        """Those without parts, which every byte belongs to one of."""
        return (span for _, span in self.walk() if not span.parts)
