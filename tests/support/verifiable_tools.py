"""Apache Kafka's verifiable producer and consumer, each in a JVM of its own, which print JSON lines until their end."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.jars import kafka_classpath
from tests.support.java import QUICK, java_command
from tests.support.tools import MAIN_CLASSES

#: the exit code of a JVM that SIGTERM ended, after its shutdown hooks
ENDED_BY_SIGTERM = 128 + signal.SIGTERM


class VerifiableTool:
    """A running tool, with its output in `directory`; killed if a test leaves it running."""

    def __init__(self, tool: str, directory: Path, *arguments: str) -> None:
        directory.mkdir()
        self._told, self._errors = directory / "stdout.jsonl", directory / "stderr.txt"
        command = java_command(MAIN_CLASSES[tool], arguments, [kafka_classpath()], options=(*QUICK, "-Xmx256m"))
        with self._told.open("wb") as told, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def story(self) -> str:
        """Return its whole output, for people."""
        return self._told.read_text() + self._errors.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return its events of this name so far."""
        lines = self._told.read_text().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in told if event["name"] == name]

    def wait(self, timeout_s: float = 180) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """Stop it as its users do; return the exit code."""
        self._process.terminate()
        return self.wait()
