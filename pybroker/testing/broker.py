"""A broker as a process of its own, for as long as a test wants it."""

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
    """A broker in a directory of its own; `with` starts and stops it, or `start` and `stop` do.

    Args:
        config: keys of server.properties, such as `{"num.partitions": 3}`, over defaults that suit tests.
        directory: where its data and its log go, and stay; unless given, a temporary one that `stop` removes.
        start_timeout_s: after so long, a start has failed.

    It does not outlive the process that started it, even one that is killed. While it runs it does what `Controlled`
    has: faults, time, background work.
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

    # ---- what it is

    @property
    def bootstrap_servers(self) -> str:
        """What clients take: `127.0.0.1:40123`; with several listeners the first one's. The same after `restart`."""
        return next(iter(self.listeners.values()))

    @property
    def listeners(self) -> Mapping[str, str]:
        """The address of each listener, by name. Raises BrokerError before it was started."""
        if not self._listeners:
            raise BrokerError("the broker has not been started")
        return self._listeners

    @property
    def is_running(self) -> bool:
        """Whether there is a process, and it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the broker. Raises BrokerError unless there is one."""
        if self._process is None:
            raise BrokerError(_NOT_RUNNING)
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Where its data directory and its log are. Raises BrokerError before the start and after `stop`."""
        if self._directory is None:
            raise BrokerError("the broker has no directory: it has not been started, or was stopped")
        return self._directory

    @property
    def data_directory(self) -> Path:
        """Its `log.dirs`."""
        return self.directory / "data"

    @property
    def log(self) -> str:
        """What it has logged, in all its starts."""
        file = self.directory / "broker.log"
        return file.read_text(errors="replace") if file.exists() else ""

    # ---- its life

    def start(self) -> Broker:
        """Start it and return when clients can connect. Raises BrokerError with the reason when it ends instead."""
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
        except BaseException:  # an interrupt: nobody will stop it
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
        if self._moved_on_ms:  # before it was restarted, or forked
            self._ask("move_time_on", milliseconds=self._moved_on_ms, deadlines=False)
        return self

    def stop(self) -> None:
        """End it cleanly, and remove its directory if that was a temporary one."""
        self._end()
        self._remove()

    def pause(self) -> None:
        """End it cleanly and keep its data, for `start` or `fork`."""
        self._end()

    def restart(self) -> None:
        """End it cleanly and start it again, with its data and on its ports."""
        self._end()
        self.start()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would; `start` brings it back with its data, on its ports."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def fork(self, config: Mapping[str, object] = _NOTHING) -> Broker:
        """A broker of its own, not started yet, with the data that this one has; this one must be paused.

        Closed segments are shared as hard links, so that it takes milliseconds whatever there is in the topics.

        Args:
            config: keys that differ from this one's.

        Raises BrokerError while this one runs, or where it has not ended cleanly.
        """
        if not (self.data_directory / _ENDED_CLEANLY).exists():
            raise BrokerError("the broker is running, or has not ended cleanly: start() and pause() it first")
        other = Broker({**self._config, **config}, start_timeout_s=self._start_timeout_s)
        # beside this one's: hard links do not go from one file system to another
        other._directory = Path(tempfile.mkdtemp(prefix=f"{self.directory.name}-fork-", dir=self.directory.parent))
        other._moved_on_ms = self._moved_on_ms
        fork_directory(self.data_directory, other.data_directory)
        return other

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] = _NOTHING) -> None:
        """Make a topic, over the first listener, which has to be a PLAINTEXT one. Raises BrokerError."""
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

    # ---- inside

    def _command(self) -> list[str]:
        overrides = {**self._config, "log.dirs": str(self.data_directory)}
        if self._listeners:
            overrides["listeners"] = ",".join(f"{name}://{address}" for name, address in self._listeners.items())
        options = [word for key, value in overrides.items() for word in ("--override", f"{key}={value}")]
        flags = ["--ephemeral", "--print-json", "--control" if self._is_controlled else "--until-stdin-ends"]
        # isolated: what it imports is never the project's under test, whatever PYTHONPATH and the current folder say
        return engine_process.command("broker.main", [*flags, *options])

    @property
    def _is_controlled(self) -> bool:
        """Whether it takes commands: not with several workers, and one whose time was moved on cannot have those."""
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
