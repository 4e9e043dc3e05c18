"""Measure the functions' times by pyperf: `python -m bench.micro [-o FILE] [--fast]`, or any other of its options.

Times are processor times, so that other work on the machine disturbs them less.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import pyperf

from bench.micro.functions import FUNCTIONS, Call, Prepare


def timer(prepare: Prepare, folder: Path) -> Callable[[int], float]:
    """Return a function for pyperf: it makes the given number of calls and returns their seconds."""
    ready: list[Call] = []

    def seconds(calls: int) -> float:
        if not ready:  # only the process that measures the function prepares it
            ready.append(prepare(folder))
        call = ready[0]
        began = time.process_time()
        for _ in repeat(None, calls):
            call()
        return time.process_time() - began

    return seconds


def main() -> None:
    runner = pyperf.Runner(processes=5, values=3, warmups=1, min_time=0.05, program_args=("-m", "bench.micro"))
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/dev/shm") as scratch:
        for name, prepare in FUNCTIONS.items():
            runner.bench_time_func(name, timer(prepare, Path(scratch)))


if __name__ == "__main__":
    main()
