"""A process of pybroker with its own directory, started and stopped by a test: a broker, or a cluster's controller."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import Any, Self

from pybroker import engine_process
from pybroker.testing.channel import Channel
from pybroker.testing.controlled import Controlled
from pybroker.testing.errors import BrokerError

NOTHING: Mapping[str, object] = MappingProxyType({})
_STOP_S = 60


class Node(Controlled):
    """Starts, stops and controls one process. `with` starts and stops it, or call `start` and `stop`.

    The process ends with the process that started it, even if that process is killed.
    """

    _noun = "broker"

    def __init__(self, config: Mapping[str, object], directory: Path | str | None, start_timeout_s: float) -> None:
        self._config = {key: as_text(value) for key, value in config.items()}
        self._kept = directory is not None
        self._directory = Path(directory).absolute() if directory is not None else None
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._listeners: dict[str, str] = {}
        self._announcement: dict[str, object] = {}
        self._log_before = 0
        self._is_suspended = False
        self._channel: Channel | None = None

    # ---- properties

    @property
    def listeners(self) -> Mapping[str, str]:
        """Return the address of each listener, by name. Raises BrokerError before the first start."""
        if not self._listeners:
            raise BrokerError(f"the {self._noun} has not been started")
        return self._listeners

    @property
    def announcement(self) -> Mapping[str, object]:
        """Return what `--print-json` says of the last start: addresses, process id, data directory."""
        return self._announcement

    @property
    def is_running(self) -> bool:
        """Return whether its process runs, or is suspended."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_suspended(self) -> bool:
        """Return whether `suspend` stopped its process."""
        return self._is_suspended and self.is_running

    @property
    def pid(self) -> int:
        """Return its process id. Raises BrokerError if it does not run."""
        return self._running().pid

    @property
    def directory(self) -> Path:
        """Return the directory of its data and its log. Raises BrokerError before the start and after `stop`."""
        if self._directory is None:
            raise BrokerError(f"the {self._noun} has no directory: it has not been started, or was stopped")
        return self._directory

    @property
    def data_directory(self) -> Path:
        """Return its `log.dirs`."""
        return self.directory / "data"

    @property
    def log(self) -> str:
        """Return its log, of all starts."""
        file = self.directory / f"{self._noun}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    # ---- start and stop

    def start(self) -> Self:
        """Start it, and return once clients can connect. Raises BrokerError with the reason if it fails."""
        self._spawn()
        self._wait_until_ready()
        return self

    def stop(self) -> None:
        """Shut it down cleanly, and remove its directory if it is a temporary one."""
        self._end()
        self._remove()

    def pause(self) -> None:
        """Shut it down cleanly, and keep its data for the next start."""
        self._end()

    def restart(self) -> None:
        """Shut it down cleanly, and start it again with the same data and ports."""
        self._end()
        self.start()

    def kill(self) -> None:
        """Kill it (SIGKILL), as a crash would. `start` starts it again with the same data and ports."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def suspend(self) -> None:
        """Stop its process (SIGSTOP) until `resume`: connections stay open, and nothing responds."""
        self._running().send_signal(signal.SIGSTOP)
        self._is_suspended = True

    def resume(self) -> None:
        """Let a suspended process go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)
        self._is_suspended = False

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- internals

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            raise BrokerError(f"the {self._noun} is not running")
        return self._process

    def _spawn(self) -> None:
        """Start the process without waiting for it."""
        if self.is_running:
            raise BrokerError(f"the {self._noun} is running")
        if self._process is not None:  # it ended by itself
            self._reap()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="pybroker-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        self._log_before = len(self.log)
        with (self._directory / f"{self._noun}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd="/"
            )

    def _wait_until_ready(self) -> None:
        """Wait for the line that the process prints once it serves clients. Raises BrokerError, and removes it."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        patience = Timer(self._start_timeout_s, process.kill)
        patience.daemon = True
        patience.start()
        try:
            line = process.stdout.readline()
        except BaseException:  # such as KeyboardInterrupt: the caller has nothing to stop
            self.kill()
            self._remove()
            raise
        finally:
            patience.cancel()
        if not line:
            self.kill()
            reason = self.log[self._log_before :].strip() or f"not up within {self._start_timeout_s} s"
            self._remove()
            raise BrokerError(f"the {self._noun} did not start:\n{reason}")
        self._announcement = json.loads(line)
        self._listeners = json.loads(line)["listeners"]
        assert process.stdin is not None
        self._channel = Channel(process.stdin.fileno(), process.stdout.fileno())
        if self._moved_on_ms:  # in an earlier start, or in the broker it was forked from
            self._ask("move_time_on", milliseconds=self._moved_on_ms, deadlines=False)

    def _ask(self, command: str, **arguments: object) -> Any:
        if self._channel is None:
            raise BrokerError(f"the {self._noun} is not running")
        return self._channel.ask(command, **arguments)

    def _tell(self, line: bytes) -> None:
        """Send a command to a process that is not ready yet."""
        process = self._running()
        assert process.stdin is not None
        os.write(process.stdin.fileno(), line)

    def _command(self) -> list[str]:
        overrides = {**self._config, "log.dirs": str(self.data_directory)}
        if self._listeners:
            overrides["listeners"] = ",".join(f"{name}://{address}" for name, address in self._listeners.items())
        options = [word for key, value in overrides.items() for word in ("--override", f"{key}={value}")]
        flags = ["--ephemeral", "--print-json", "--control"]
        # an isolated process: it imports nothing of the project under test, whatever PYTHONPATH and the folder are
        return engine_process.command("broker.main", [*flags, *options])

    def _end(self) -> None:
        if self._process is None:
            return
        self._ask_to_end()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def _ask_to_end(self) -> None:
        """Begin the clean shutdown, also of a suspended process."""
        if self._process is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        self._channel = None
        self._is_suspended = False

    def _remove(self) -> None:
        if self._directory is not None and not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            self._moved_on_ms = 0


def as_text(value: object) -> str:
    """Return a value as server.properties has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
