"""Record a new user's first minutes: `python -m bench.first_minutes [--python PYTHON] [--sources DIR]`.

Runs the commands of a new user in an empty folder, and records their output and times: create a virtual environment,
install from the project's folder (pip's cache as it is), start a broker, create a topic, write and read a record. It
updates docs/how-it-works/first-minutes.md between its marks, or prints with --print. Port 9092 has to be free.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.comparison.machine import commit
from bench.comparison.table import replace_between_marks

_ROOT = Path(__file__).parents[1]
_PAGE = _ROOT / "docs/how-it-works/first-minutes.md"
_LIMIT_S = 300
#: Each step runs in a new shell.
_ACTIVATED = "[ ! -e .venv/bin/activate ] || . .venv/bin/activate"
STEPS = (
    "$PYTHON -m venv .venv && . .venv/bin/activate",
    'pip install --quiet --disable-pip-version-check "$SOURCES[client]"',
    "pybroker serve --daemon --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=data",
    "pybroker topics create greetings",
    "echo hello | pybroker produce greetings",
    "pybroker consume greetings --from-beginning --max-messages 1",
)


@dataclass(frozen=True, slots=True)
class Done:
    """A finished step: its command, its output, and when it ended, in seconds from the start of the first step."""

    command: str
    printed: str
    took_s: float
    ended_s: float


def take(steps: Sequence[str], folder: Path, environment: dict[str, str]) -> list[Done]:
    """Run each step, in the virtual environment once it exists. CalledProcessError: a step failed."""
    done: list[Done] = []
    began = time.perf_counter()
    for step in steps:
        before = time.perf_counter()
        command = ["bash", "-euo", "pipefail", "-c", f"{_ACTIVATED}; {step}"]
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=_LIMIT_S,
        )
        now = time.perf_counter()
        done.append(Done(step, ran.stdout, now - before, now - began))
    return done


def transcript(done: Sequence[Done]) -> str:
    """Return the terminal's content, with the time before each command."""
    lines = []
    for each in done:
        lines += [f"[{each.took_s:5.1f} s] $ {each.command}", *each.printed.splitlines()]
    return "\n".join((f"{done[-1].ended_s:.1f} s from the first command to the message.", "", "```text", *lines, "```"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_minutes", description="From nothing to a message.")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment (default: this one)")
    parser.add_argument("--sources", type=Path, default=_ROOT, metavar="DIR", help="sources (default: this project)")
    parser.add_argument("--print", action="store_true", dest="printed", help="print instead of writing the page")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "PYTHON": options.python, "SOURCES": str(options.sources.resolve())}
        try:
            done = take(STEPS, folder, environment)
        except subprocess.CalledProcessError as error:
            print(f"{error.cmd[-1]}\n{error.stdout}", file=sys.stderr)
            return 1
        finally:
            if (folder / "pybroker.pid").exists():
                subprocess.run([folder / ".venv/bin/pybroker", "stop"], cwd=folder, check=False)
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"Taken at commit {commit()}, with CPython {version}.\n\n{transcript(done)}"
    if options.printed:
        print(text)
    else:
        _PAGE.write_text(replace_between_marks(_PAGE.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
