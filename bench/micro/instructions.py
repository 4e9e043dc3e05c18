"""Count the instructions of a call by valgrind: `python -m bench.micro.instructions`.

Unlike times, counts do not depend on other load on the machine. One process runs all the functions under callgrind,
which writes and resets its counts whenever the process calls getpriority(): before and after each function.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import repeat
from pathlib import Path

from bench.micro.functions import FUNCTIONS

_WARM_CALLS, _CALLS = 20, 200
_ROOT = Path(__file__).parents[2]


def can_count() -> bool:
    """Return whether valgrind is installed."""
    return shutil.which("valgrind") is not None


def count() -> dict[str, float]:
    """Return the instructions of a call, by the function's name. CalledProcessError carries valgrind's output."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getpriority", f"--callgrind-out-file={scratch}/out"]
        subprocess.run(
            [*callgrind, sys.executable, "-m", "bench.micro.instructions", "--counted"],
            check=True,
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stderr=subprocess.PIPE,
        )
        return instructions_per_call(
            [(Path(scratch) / f"out.{part}").read_text() for part in range(1, 2 * len(FUNCTIONS) + 1)]
        )


def instructions_per_call(parts: list[str]) -> dict[str, float]:
    """Return the instructions per call from callgrind's parts: one before each function, and one with its calls."""
    counted = [int(found[1]) for part in parts if (found := re.search(r"^totals: (\d+)", part, re.MULTILINE))]
    return {name: instructions / _CALLS for name, instructions in zip(FUNCTIONS, counted[1::2], strict=True)}


def run_counted() -> None:
    """Run all functions; callgrind observes this."""
    for prepare in FUNCTIONS.values():
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            call = prepare(Path(scratch))
            for _ in range(_WARM_CALLS):
                call()
            gc.disable()
            os.getpriority(os.PRIO_PROCESS, 0)
            for _ in repeat(None, _CALLS):
                call()
            os.getpriority(os.PRIO_PROCESS, 0)
            gc.enable()


def main() -> None:
    if "--counted" in sys.argv:
        run_counted()
        return
    for name, instructions in count().items():
        print(f"{name:60} {instructions:12,.0f}")


if __name__ == "__main__":
    main()
