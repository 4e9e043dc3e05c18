"""Seeded schedules in which all checks hold; repetition, scripts, and shrinking."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, planted
from tests.simulation.schedule import Failure, describe, many, replay, run
from tests.simulation.scripts import parse
from tests.simulation.shrink import shrink
from tests.support.scale import scaled

#: They take a minute of CPU; test_mutations.py finds its faults in fewer. Larger numbers: `make simulate`.
SCHEDULES = scaled(10_000)
ROOT = Path(__file__).parents[2]


def test_checks_hold_in_all_schedules() -> None:
    with many():
        for seed in range(SCHEDULES):
            failure = run(seed)
            assert failure is None, shrink(failure).script


def test_seed_repeats_in_another_process() -> None:
    """Neither the hashes of a process nor earlier schedules have an influence."""
    seeds = [3, 5, 8, 15]
    here = [describe(seed) for seed in seeds]
    code = f"from tests.simulation.schedule import describe\nfor seed in {seeds}: print(describe(seed))"
    for hashes in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.split() == here


@pytest.fixture(scope="module")
def failure() -> Failure:
    """A failure of a planted fault."""
    with planted(_mutation("truncate-to-high-watermark")):
        return next(found for found in map(run, range(100)) if found is not None)


def _mutation(name: str) -> Mutation:
    return next(each for each in MUTATIONS if each.name == name)


def test_failure_shrinks_and_replays(failure: Failure) -> None:
    with planted(_mutation("truncate-to-high-watermark")):
        short = shrink(failure)
        assert len(short.steps) < min(25, len(failure.steps))
        assert replay(*parse(short.script)) == (failure.check, short.message)
    assert replay(*parse(short.script)) is None
