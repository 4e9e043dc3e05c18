"""The command `pybroker`: starts the broker, or one of the commands that stand around it.

The broker is a process of its own in Python's isolated mode, in this process's place: its rooms have names (`storage`,
`protocol`) that a folder one happens to stand in may have too.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

USAGE = """usage: pybroker CONFIG [--override KEY=VALUE ...] [...]    start the broker with a server.properties
       pybroker --help-broker                              all options of the broker
       pybroker pipeline SPEC.yaml [...]                   run a data pipeline on Spark
       pybroker --version
"""


def main() -> NoReturn:
    """Run the command line."""
    match sys.argv[1:]:
        case [] | ["-h" | "--help" | "help", *_]:
            sys.stdout.write(USAGE)
            sys.exit(0 if sys.argv[1:] else 2)
        case ["--version"]:
            from importlib.metadata import version

            print(f"pybroker {version('pybroker')}")
            sys.exit(0)
        case ["--help-broker"]:
            _become_broker(["--help"])
        case ["pipeline", *arguments]:
            from pybroker.pipeline.main import main as pipeline

            sys.exit(pipeline(arguments))
        case arguments:
            _become_broker(arguments)


def _become_broker(arguments: list[str]) -> NoReturn:
    os.execv(sys.executable, [sys.executable, "-I", "-m", "broker.main", *arguments])
