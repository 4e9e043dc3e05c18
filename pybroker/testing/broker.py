"""A broker in its own process, started and stopped by a test."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import Any

from pybroker import engine_process
from pybroker.testing.channel import Channel
from pybroker.testing.controlled import Controlled
from pybroker.testing.errors import BrokerError
from pybroker.testing.forks import fork_directory
from pybroker.testing.topics import create_topic

_NOTHING: Mapping[str, object] = MappingProxyType({})
_STOP_S = 60
_NOT_RUNNING = "the broker is not running"
_OF_SEVERAL_WORKERS = "a broker of several workers (num.workers) takes no commands: each has a clock of its own"
_ENDED_CLEANLY = ".kafka_cleanshutdown"


class Broker(Controlled):
    """A broker with its own directory. `with` starts and stops it, or call `start` and `stop`.

    Args:
        config: keys of server.properties, such as `{"num.partitions": 3}`. They override defaults that suit tests.
        directory: for its data and its log, which `stop` keeps. By default, a temporary directory that `stop` removes.
        start_timeout_s: how long a start may take, in seconds.

    The broker ends with the process that started it, even if that process is killed. While the broker runs, the
    methods of `Controlled` inject faults, move its clock and run its background work.
    """

    def __init__(
        self,
        config: Mapping[str, object] = _NOTHING,
        *,
        directory: Path | str | None = None,
        start_timeout_s: float = 60,
    ) -> None:
        self._config = {key: _text(value) for key, value in config.items()}
        self._kept = directory is not None
        self._directory = Path(directory).absolute() if directory is not None else None
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._listeners: dict[str, str] = {}
        self._channel: Channel | None = None

    # ---- properties

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients, `127.0.0.1:40123`: of the first listener. `restart` keeps it."""
        return next(iter(self.listeners.values()))

    @property
    def listeners(self) -> Mapping[str, str]:
        """Return the address of each listener, by name. Raises BrokerError before the first start."""
        if not self._listeners:
            raise BrokerError("the broker has not been started")
        return self._listeners

    @property
    def is_running(self) -> bool:
        """Return whether the broker's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the broker's process id. Raises BrokerError if it does not run."""
        if self._process is None:
            raise BrokerError(_NOT_RUNNING)
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Return the directory of its data and its log. Raises BrokerError before the start and after `stop`."""
        if self._directory is None:
            raise BrokerError("the broker has no directory: it has not been started, or was stopped")
        return self._directory

    @property
    def data_directory(self) -> Path:
        """Return its `log.dirs`."""
        return self.directory / "data"

    @property
    def log(self) -> str:
        """Return its log, of all starts."""
        file = self.directory / "broker.log"
        return file.read_text(errors="replace") if file.exists() else ""

    # ---- start and stop

    def start(self) -> Broker:
        """Start the broker, and return once clients can connect. Raises BrokerError with the reason if it fails."""
        if self.is_running:
            raise BrokerError("the broker is running")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="pybroker-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        written = len(self.log)
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd="/"
            )
        assert self._process.stdout is not None
        patience = Timer(self._start_timeout_s, self._process.kill)
        patience.daemon = True
        patience.start()
        try:
            line = self._process.stdout.readline()
        except BaseException:  # such as KeyboardInterrupt: the caller has no broker to stop
            self.kill()
            self._remove()
            raise
        finally:
            patience.cancel()
        if not line:
            self.kill()
            reason = self.log[written:].strip() or f"not up within {self._start_timeout_s} s"
            self._remove()
            raise BrokerError(f"the broker did not start:\n{reason}")
        self._listeners = json.loads(line)["listeners"]
        if self._is_controlled:
            assert self._process.stdin is not None
            self._channel = Channel(self._process.stdin.fileno(), self._process.stdout.fileno())
        if self._moved_on_ms:  # in an earlier start, or in the broker it was forked from
            self._ask("move_time_on", milliseconds=self._moved_on_ms, deadlines=False)
        return self

    def stop(self) -> None:
        """Shut the broker down cleanly, and remove its directory if it is a temporary one."""
        self._end()
        self._remove()

    def pause(self) -> None:
        """Shut the broker down cleanly, and keep its data for `start` or `fork`."""
        self._end()

    def restart(self) -> None:
        """Shut the broker down cleanly, and start it again with the same data and ports."""
        self._end()
        self.start()

    def kill(self) -> None:
        """Kill the broker (SIGKILL), as a crash would. `start` starts it again with the same data and ports."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def fork(self, config: Mapping[str, object] = _NOTHING) -> Broker:
        """Return a new broker, not started yet, with a copy of this one's data. This one must be paused.

        Closed segments become hard links: a fork takes milliseconds, whatever the size of the topics.

        Args:
            config: keys that differ from this broker's.

        Raises BrokerError while this broker runs, or if it did not shut down cleanly.
        """
        if not (self.data_directory / _ENDED_CLEANLY).exists():
            raise BrokerError("the broker is running, or has not ended cleanly: start() and pause() it first")
        other = Broker({**self._config, **config}, start_timeout_s=self._start_timeout_s)
        # in the same file system: hard links do not cross file systems
        other._directory = Path(tempfile.mkdtemp(prefix=f"{self.directory.name}-fork-", dir=self.directory.parent))
        other._moved_on_ms = self._moved_on_ms
        fork_directory(self.data_directory, other.data_directory)
        return other

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] = _NOTHING) -> None:
        """Create a topic, over the first listener, which must be PLAINTEXT. Raises BrokerError."""
        if not self.is_running:
            raise BrokerError(_NOT_RUNNING)
        host, _, port = self.bootstrap_servers.rpartition(":")
        settings = {key: _text(value) for key, value in config.items()}
        problem = create_topic((host.strip("[]"), int(port)), name, partitions, settings)
        if problem is not None:
            raise BrokerError(f"topic {name} was not made: {problem}")

    def __enter__(self) -> Broker:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- internals

    def _command(self) -> list[str]:
        overrides = {**self._config, "log.dirs": str(self.data_directory)}
        if self._listeners:
            overrides["listeners"] = ",".join(f"{name}://{address}" for name, address in self._listeners.items())
        options = [word for key, value in overrides.items() for word in ("--override", f"{key}={value}")]
        flags = ["--ephemeral", "--print-json", "--control" if self._is_controlled else "--until-stdin-ends"]
        # an isolated process: it imports nothing of the project under test, whatever PYTHONPATH and the folder are
        return engine_process.command("broker.main", [*flags, *options])

    @property
    def _is_controlled(self) -> bool:
        """Return whether it takes commands: it has one worker. A broker with a moved clock can only have one."""
        return self._moved_on_ms > 0 or str(self._config.get("num.workers", 1)) == "1"

    def _ask(self, command: str, **arguments: object) -> Any:
        if self._channel is None:
            raise BrokerError(_OF_SEVERAL_WORKERS if self.is_running else _NOT_RUNNING)
        return self._channel.ask(command, **arguments)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        self._channel = None

    def _remove(self) -> None:
        if self._directory is not None and not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            self._moved_on_ms = 0


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
