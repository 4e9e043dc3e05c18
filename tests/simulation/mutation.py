"""Faults planted in the state machines, and how to plant them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.simulation.schedule import COORDINATED, Failure, run
from tests.simulation.starting import forget_started


class Mutation(NamedTuple):
    """A fault: what it breaks, and (owner, attribute, replacement) of each patch.

    `is_rare`: it takes more than some hundred schedules to catch it. `is_coordinated`: only schedules with transactions
    and groups can. `own_controller`: whether only schedules with pybroker's own controller can, or only those without.
    """

    name: str
    breaks: str
    patches: tuple[tuple[Any, str, Any], ...]
    is_rare: bool = False
    is_coordinated: bool = False
    own_controller: bool | None = None

    def run(self, seed: int) -> Failure | None:
        """Run a schedule with a controller that can have the fault. It has to be planted."""
        return run(seed, self.own_controller)

    def seeds(self, seeds: range) -> range:
        """Return as many seeds whose schedules can catch the fault."""
        if not self.is_coordinated:
            return seeds
        first, end = (each * COORDINATED + COORDINATED - 1 for each in (seeds.start, seeds.stop))
        return range(first, end, COORDINATED)


MUTATIONS: list[Mutation] = []


def mutation(
    name: str,
    breaks: str,
    *targets: tuple[Any, str],
    is_rare: bool = False,
    is_coordinated: bool = False,
    own_controller: bool | None = None,
) -> Callable[[Any], Any]:
    """Register a function, or a property, as the replacement of attributes."""

    def register(replacement: Any) -> Any:
        patches = tuple((owner, each, replacement) for owner, each in targets)
        MUTATIONS.append(Mutation(name, breaks, patches, is_rare, is_coordinated, own_controller))
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
