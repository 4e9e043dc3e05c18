"""Benchmarks run seldom. This shows whether the code that they measure still exists."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
MODULES = [module for module in pkgutil.iter_modules([str(BENCH)]) if module.name != "__main__"]
NAMES = sorted(module.name for module in MODULES if not module.ispkg)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    """`python -m bench` runs `main` of each."""
    module = importlib.import_module(f"bench.{name}")

    assert callable(module.main)
