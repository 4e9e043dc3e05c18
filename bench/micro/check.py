"""Check whether functions of the hot path became slower: `make bench-check`, `python -m bench.micro.check [--update]`.

Compares each function's time with a baseline, as a multiple of the time of a fixed piece of Python (the reference).
If valgrind is installed, it also compares instructions. `--only time` or `--only instructions` measures one of the two.
baseline.json has a baseline for each minor version of Python; `--update` writes the baseline of the running version.
Exit codes: 1 a function is slower than its tolerance allows, 2 there is no baseline.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyperf

from bench.micro import instructions
from bench.micro.functions import REFERENCE

BASELINE = Path(__file__).parent / "baseline.json"
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
#: The tolerated growth of a multiple. Instruction counts of the same code differ by less than 1 % from run to run, and
#: more between compilers of Python; times differ with other load on the machine.
TOLERANCES = {"time": 1.25, "instructions": 1.05}

#: "time" or "instructions" -> function -> multiple of the reference's
Multiples = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Change:
    """A function's multiple of the reference, before and now; NaN where the function is missing."""

    kind: str
    name: str
    before: float
    now: float

    @property
    def is_regression(self) -> bool:
        return self.now > self.before * TOLERANCES[self.kind]

    def __str__(self) -> str:
        verdict = "SLOWER" if self.is_regression else ""
        change = "" if math.isnan(self.before + self.now) else f"{self.now / self.before - 1:+7.1%}"
        return f"{self.kind:13} {self.name:60} {self.before:9.5f} {self.now:9.5f} {change:>8} {verdict}".rstrip()


def multiples(measured: Mapping[str, float]) -> dict[str, float]:
    """Return the multiples of the reference's measure, for all other functions."""
    reference = measured[REFERENCE]
    return {name: value / reference for name, value in measured.items() if name != REFERENCE}


def changes(before: Multiples, now: Multiples) -> Iterator[Change]:
    """Compare a baseline with the present measurements; leave out kinds that one of them lacks."""
    for kind in before.keys() & now.keys():
        for name in before[kind] | now[kind]:
            yield Change(kind, name, before[kind].get(name, math.nan), now[kind].get(name, math.nan))


def _times() -> dict[str, float]:
    """Return the seconds of a call: the best of all processes, because disturbances only add time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        path = Path(scratch) / "times.json"
        subprocess.run([sys.executable, "-m", "bench.micro", "--quiet", "-o", str(path)], check=True)
        suite = pyperf.BenchmarkSuite.load(str(path))
        return {each.get_name(): min(each.get_values()) for each in suite.get_benchmarks()}


MEASURES: dict[str, Callable[[], dict[str, float]]] = {"time": _times, "instructions": instructions.count}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="compare the hot path's functions with the baseline")
    parser.add_argument("--update", action="store_true", help="write the measurements as the baseline")
    parser.add_argument("--only", choices=MEASURES, help="measure one of the two")
    options = parser.parse_args(argv)
    baselines: dict[str, Multiples] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    if not options.update and _VERSION not in baselines:
        print(f"no baseline for Python {_VERSION}: --update writes one", file=sys.stderr)
        return 2
    kinds = [options.only] if options.only else ["time", *(["instructions"] if instructions.can_count() else [])]
    now = {kind: multiples(MEASURES[kind]()) for kind in kinds}
    compared = sorted(changes(baselines.get(_VERSION, {}), now), key=lambda change: (change.kind, change.name))
    print("\n".join(str(change) for change in compared))
    if options.update:
        rounded = {kind: {name: round(value, 6) for name, value in found.items()} for kind, found in now.items()}
        baselines[_VERSION] = baselines.get(_VERSION, {}) | rounded
        BASELINE.write_text(json.dumps(baselines, indent=1, sort_keys=True) + "\n")
        return 0
    return int(any(change.is_regression for change in compared))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
