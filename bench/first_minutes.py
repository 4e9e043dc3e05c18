"""From nothing to a first message: `python -m bench.first_minutes [--python PYTHON] [--sources DIR]`.

What a new user types, in an empty folder, with what it prints and how long it takes: a virtual environment, the install
from the project's folder with pip's cache as it is, a broker, a topic, a record in and out. It writes
docs/how-it-works/first-minutes.md between its marks, or prints it with --print. Port 9092 has to be free.
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
from bench.comparison.table import put_between_marks

_ROOT = Path(__file__).parents[1]
_PAGE = _ROOT / "docs/how-it-works/first-minutes.md"
_LIMIT_S = 300
#: Each step has a shell of its own.
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
    """A step that was taken: its command, what it printed, and when it ended, in seconds from the first one's start."""

    command: str
    printed: str
    took_s: float
    ended_s: float


def take(steps: Sequence[str], folder: Path, environment: dict[str, str]) -> list[Done]:
    """Take each step, in the virtual environment as soon as there is one. Raises CalledProcessError."""
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
    """What stood on the terminal, each command with its time before it."""
    lines = []
    for each in done:
        lines += [f"[{each.took_s:5.1f} s] $ {each.command}", *each.printed.splitlines()]
    return "\n".join((f"{done[-1].ended_s:.1f} s from the first command to the message.", "", "```text", *lines, "```"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_minutes", description="From nothing to a message.")
    parser.add_argument("--python", default=sys.executable, help="for the environment (this one)")
    parser.add_argument("--sources", type=Path, default=_ROOT, metavar="DIR", help="what is installed (this project)")
    parser.add_argument("--print", action="store_true", dest="printed", help="instead of writing the page")
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
    told = f"Taken at commit {commit()}, with CPython {version}.\n\n{transcript(done)}"
    if options.printed:
        print(told)
    else:
        _PAGE.write_text(put_between_marks(_PAGE.read_text(), told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
