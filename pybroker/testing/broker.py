"""A broker in its own process, started and stopped by a test."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pybroker.testing.controlled import ControlledBroker
from pybroker.testing.errors import BrokerError
from pybroker.testing.forks import fork_directory
from pybroker.testing.node import NOTHING, Node, as_text
from pybroker.testing.topics import create_topic

_ENDED_CLEANLY = ".kafka_cleanshutdown"


class Broker(Node, ControlledBroker):
    """A broker with its own directory. `with` starts and stops it, or call `start` and `stop`.

    Args:
        config: keys of server.properties, such as `{"num.partitions": 3}`. They override defaults that suit tests.
        directory: for its data and its log, which `stop` keeps. By default, a temporary directory that `stop` removes.
        start_timeout_s: how long a start may take, in seconds.

    The broker ends with the process that started it, even if that process is killed. While the broker runs, the
    methods of `ControlledBroker` inject faults, move its clock and run its background work.
    """

    def __init__(
        self,
        config: Mapping[str, object] = NOTHING,
        *,
        directory: Path | str | None = None,
        start_timeout_s: float = 60,
    ) -> None:
        super().__init__(config, directory, start_timeout_s)

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients, `127.0.0.1:40123`: of the first listener. `restart` keeps it."""
        return next(iter(self.listeners.values()))

    def fork(self, config: Mapping[str, object] = NOTHING) -> Broker:
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

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] = NOTHING) -> None:
        """Create a topic, over the first listener, which must be PLAINTEXT. Raises BrokerError."""
        self._create_topic(name, partitions, 1, config)

    def cut_off(self) -> None:
        """Cut it off from its clients, as a network that loses packets does, until `reconnect` or a restart.

        Requests and responses wait, and arrive afterwards. No connection is seen to end, and no new one answers.
        """
        self._ask("cut_off")

    def reconnect(self) -> None:
        """Let clients reach it again."""
        self._ask("reconnect")

    # ---- internals

    def _create_topic(self, name: str, partitions: int, replication: int, config: Mapping[str, object]) -> None:
        self._running()
        settings = {key: as_text(value) for key, value in config.items()}
        problem = create_topic(self._address, name, partitions, settings, replication)
        if problem is not None:
            raise BrokerError(f"topic {name} was not made: {problem}")

    @property
    def _address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap_servers.rpartition(":")
        return host.strip("[]"), int(port)
