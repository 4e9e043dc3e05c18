"""`python -m tools.site`: build the site into .cache/site, from the project's root. A warning is an error.

python -m tools.site --serve           serve it at http://127.0.0.1:8000, and rebuild it when pages change
python -m tools.site --site-dir DIR    build into another folder
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run MkDocs and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the documentation site.")
    parser.add_argument("--serve", action="store_true", help="serve it at http://127.0.0.1:8000 instead")
    parser.add_argument("--site-dir", default=".cache/site", metavar="DIR", help="output folder (default: .cache/site)")
    options = parser.parse_args(arguments)
    verb = ["serve"] if options.serve else ["build", "--clean", "--site-dir", os.path.abspath(options.site_dir)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # silences the theme's notice about MkDocs 2
    return subprocess.run([sys.executable, "-m", "mkdocs", *verb, "--strict"], env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
