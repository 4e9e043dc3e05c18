"""Run the load generator: the Go program in bench/load where Go is installed, else bench/comparison/sender.py.

Either is a process of its own that executes one plan. It prints "ready" when its clients are connected, so that the
broker's work for connecting them is not measured.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.comparison.plan import Client, Plan
from bench.comparison.usage import cpu_seconds
from tests.support.brokers import RunningBroker

_ROOT = Path(__file__).parents[2]
_SOURCES = _ROOT / "bench" / "load"
_PROGRAM = _ROOT / ".cache" / "load"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a group of clients.

    Times are response times; for a pair of producer and consumer, the time of a batch from one to the other.
    """

    requests: int
    bytes: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class GeneratorFailed(SystemExit):
    """The generator ended early: the broker closed a connection, answered with an error, or did not answer.

    As a SystemExit it ends the benchmark unless a caller catches it. The message has the generator's exit code, and
    after `run` also the end of the broker's output.
    """


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of a plan: the broker's processor time in seconds, and each group's outcome."""

    cpu_s: float
    groups: dict[str, Outcome]


def _compile() -> bool:
    """Compile the Go program. Return whether it is up to date."""
    go = shutil.which("go")
    if go is None:
        return False
    done = subprocess.run(
        [go, "build", "-o", str(_PROGRAM), "."],
        cwd=_SOURCES,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"Go does not compile the load generator:\n{done.stderr}", file=sys.stderr)
    return not done.returncode


@functools.cache
def command() -> tuple[str, ...]:
    """Return the command line of the generator, without its plan."""
    return (str(_PROGRAM),) if _compile() else (sys.executable, "-m", "bench.comparison.sender")


def language() -> str:
    """Return the language that the generator is written in."""
    return "Go" if command()[0] == str(_PROGRAM) else "Python"


class Generator:
    """A generator whose clients are connected to the broker at `address`, and wait.

    Raises GeneratorFailed if it ends before its clients are connected.
    """

    def __init__(self, address: str, seconds: float, clients: Sequence[Client], folder: Path) -> None:
        plan = Plan(address, seconds, clients).write(folder)
        self._process = subprocess.Popen(
            [*command(), str(plan)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        assert self._process.stdout
        if not self._process.stdout.readline():
            raise GeneratorFailed(f"the load generator ended with {self._process.wait()} before it was connected")

    def go(self) -> None:
        """Start the load."""
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def outcome(self) -> dict[str, Outcome]:
        """Wait until the time is over; return each group's results."""
        answer, _ = self._process.communicate()
        if self._process.returncode:
            raise GeneratorFailed(f"the load generator ended with {self._process.returncode}")
        return {group: Outcome(**found) for group, found in json.loads(answer).items()}


def run(broker: RunningBroker, seconds: float, clients: Sequence[Client]) -> Outcomes:
    """Put the clients' load on a broker for `seconds`. Raises GeneratorFailed if the generator fails."""
    with tempfile.TemporaryDirectory(prefix="plan-") as scratch:
        generator = Generator(broker.bootstrap, seconds, clients, Path(scratch))
        before = cpu_seconds(broker.pid)
        generator.go()
        try:
            groups = generator.outcome()
        except GeneratorFailed as end:
            raise GeneratorFailed(f"{end}; the broker:\n{broker.output[-2000:]}") from None
        used = cpu_seconds(broker.pid) - before
    return Outcomes(used, groups)
