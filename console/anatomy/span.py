"""A span: adjacent bytes with a name, a value and a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`start` and `end` count within the inspected bytes; `parts`, if any, fill the span without gaps.

    `kind` is the type in the schema's terms, `value` the decoded bytes, `meaning` an explanation of the value.
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
        """Yield the span and all spans within it, in the order of the bytes, with their depths."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    def leaves(self) -> Iterator[Span]:
        """Yield the spans without parts; every byte belongs to exactly one."""
        return (span for _, span in self.walk() if not span.parts)
