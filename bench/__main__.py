"""Run named benchmarks, or compare pybroker with Apache Kafka: `python -m bench [NAME ...] [--OPTION ...]`.

Each benchmark is also a module of its own; `all` runs all of them. Options apply to the benchmark that is named last.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    known = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if module.name != "__main__" and not module.ispkg
    )
    arguments = sys.argv[1:]
    first = next((place for place, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    options = arguments[first:]
    wanted = arguments[:first] or ["compare"]
    if wanted == ["all"]:
        wanted = known
    if unknown := set(wanted) - set(known):
        print(f"unknown benchmark {', '.join(sorted(unknown))}; known are: {', '.join(known)}, all", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *(options if name == wanted[-1] else ())]
        if (code := subprocess.run(command).returncode) != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
