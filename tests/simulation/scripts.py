"""Schedules as text. Those in scripts/ are dangerous: each fails with one of the planted faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.simulation.transport import Config
from tests.simulation.world import Step

FOLDER = Path(__file__).parent / "scripts"
#: The words in the first line for `Config.transactions`.
_PROTOCOLS = ((), ("older",), ("newer",))
_OWN = "own"


@cache
def scripts() -> dict[str, tuple[Config, tuple[Step, ...]]]:
    """Return the stored scripts by their names, in order."""
    return {each.stem: parse(each.read_text()) for each in sorted(FOLDER.iterdir())}


def script(config: Config, steps: Sequence[Step], comment: str) -> str:
    """Return a script: the cluster in the first line, then a step a line. `parse` reads it."""
    numbers = config.brokers, config.min_isr, config.partitions, int(config.in_transactions), int(config.reads_late)
    words = ["cluster", *map(str, numbers), *config.two_steps, *_PROTOCOLS[config.transactions]]
    words += [_OWN] * config.own_controller
    lines = [f"# {comment}", " ".join(words)]
    lines += [" ".join(map(str, each)) for each in steps]
    return "\n".join(lines) + "\n"


def parse(text: str) -> tuple[Config, tuple[Step, ...]]:
    """Return the cluster and the steps of a script."""
    lines = list(_words(text))
    _, brokers, min_isr, partitions, in_transactions, reads_late, *words = lines[0]
    numbers = int(brokers), int(min_isr), int(partitions)
    protocol = next((level for level, names in enumerate(_PROTOCOLS) if set(names) & set(words)), 0)
    two_steps = tuple(str(each) for each in words if each not in (*_PROTOCOLS[protocol], _OWN))
    config = Config(*numbers, bool(in_transactions), two_steps, bool(reads_late), protocol, _OWN in words)
    return config, tuple(lines[1:])


def _words(text: str) -> Iterator[Step]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield tuple(None if each == "None" else int(each) if each.isdigit() else each for each in line.split())
