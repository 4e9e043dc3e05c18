"""Faults planted in the state machines, and how to plant them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.simulation.starting import forget_started


class Mutation(NamedTuple):
    """A fault: what it breaks, and (owner, attribute, replacement) of each patch.

    `is_rare`: it takes more than some hundred schedules to catch it.
    """

    name: str
    breaks: str
    patches: tuple[tuple[Any, str, Any], ...]
    is_rare: bool = False


MUTATIONS: list[Mutation] = []


def mutation(name: str, breaks: str, *targets: tuple[Any, str], is_rare: bool = False) -> Callable[[Any], Any]:
    """Register a function, or a property, as the replacement of attributes."""

    def register(replacement: Any) -> Any:
        MUTATIONS.append(Mutation(name, breaks, tuple((owner, each, replacement) for owner, each in targets), is_rare))
        return replacement

    return register


@contextmanager
def planted(found: Mutation) -> Iterator[None]:
    """Run with a fault."""
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in found.patches]
    forget_started()
    try:
        for owner, name, replacement in found.patches:
            setattr(owner, name, replacement)
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
        forget_started()
