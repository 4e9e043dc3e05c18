"""Makes a failing schedule short: drops steps while the same check fails (delta debugging), and writes a script."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.schedule import Failure, replay
from tests.simulation.transport import Config
from tests.simulation.world import Step

#: Replays of one schedule.
MOST_REPLAYS = 3000


def shrink(failure: Failure) -> Failure:
    """Return a failure of the same check with fewer steps."""
    steps, replays = failure.steps, 0
    size = max(1, len(steps) // 2)
    while True:
        first, is_shorter = 0, False
        while first < len(steps):
            shorter = steps[:first] + steps[first + size :]
            replays += 1
            found = replay(failure.config, shorter)
            if found is not None and found[0] == failure.check:
                steps, is_shorter = shorter, True
                failure = failure._replace(steps=shorter, message=found[1])
            else:
                first += size
            if replays > MOST_REPLAYS:
                return failure
        if size == 1 and not is_shorter:
            return failure
        size = max(1, size // 2)


def script(failure: Failure) -> str:
    """Return a script of the failure: the cluster in the first line, then a step a line. `parse` reads it."""
    config = failure.config
    numbers = config.brokers, config.min_isr, config.partitions, int(config.in_transactions), int(config.reads_late)
    lines = [f"# seed {failure.seed}: {failure.message}", " ".join(["cluster", *map(str, numbers), *config.two_steps])]
    lines += [" ".join(map(str, each)) for each in failure.steps]
    return "\n".join(lines) + "\n"


def parse(text: str) -> tuple[Config, tuple[Step, ...]]:
    """Return the cluster and the steps of a script."""
    lines = list(_words(text))
    _, brokers, min_isr, partitions, in_transactions, reads_late, *two_steps = lines[0]
    numbers = int(brokers), int(min_isr), int(partitions)
    config = Config(*numbers, bool(in_transactions), tuple(map(str, two_steps)), bool(reads_late))
    return config, tuple(lines[1:])


def _words(text: str) -> Iterator[Step]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield tuple(None if each == "None" else int(each) if each.isdigit() else each for each in line.split())
