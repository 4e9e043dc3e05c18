"""All benchmarks, or those that are named: `python -m bench [NAME ...]`. Each is also a module of its own."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    known = sorted(
        module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name != "__main__"
    )
    wanted = sys.argv[1:] or known
    if unknown := set(wanted) - set(known):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"\n== {name}", flush=True)
        if (code := subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode) != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
