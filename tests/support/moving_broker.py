"""A broker whose partition moves between two log directories, without sockets; see DataBroker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.maintenance.replica_move import REST_BYTES
from broker.maintenance.replica_moves import ReplicaMoves
from broker.replicas.partition import Partition
from metadata.features import MAX_METADATA_VERSION
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from storage.fs import LOCAL, FileSystem
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.instant_workers import InstantWorkers
from tests.support.logs import batch, read_all

CONFIG = LogConfig(file_delete_delay_ms=0)
#: more than is copied on the loop: a round for a worker
BIG = bytes(REST_BYTES + 1000)


class Copies(InstantWorkers):
    """Rounds of copying, on that file system. A stop of the broker discards a worker's current round."""

    def __init__(self, fs: FileSystem) -> None:
        super().__init__()
        self._fs = fs

    def run(self, function: Any, *args: Any) -> Any:
        return function(*args, self._fs)

    def close(self) -> None:
        self.held = True


class Moving(DataBroker):
    """A broker with two log directories, whose workers run when the test releases them. `told`: metadata records."""

    def __init__(self, home: Path, fs: FileSystem = LOCAL, config: LogConfig = CONFIG, may_wait: bool = False) -> None:
        super().__init__(home, directories=2, fs=fs, may_wait=may_wait)
        self.values: dict[str, str] = {}
        self.told: list[object] = []
        self.copies = Copies(fs)
        self.config.get = lambda key: None
        self.cleaner = SimpleNamespace(moved=lambda old, new: None)
        self.directory_ids: dict[str, bytes] = {}
        image = SimpleNamespace(
            config=lambda kind, name: self.values, brokers={1: None}, metadata_version=MAX_METADATA_VERSION
        )
        self.controller = self.metadata = SimpleNamespace(image=image, append=self.told.append)
        self.placements, self.assign_first = self.controller, None
        self.background.start()
        self.moves: Any = ReplicaMoves(self, lambda size: self.copies)  # type: ignore[arg-type, return-value]
        self.home = home
        self.partition = self.topic("t", config=config)
        self.partition.log.config = config

    def append(self, *values: bytes) -> None:
        self.partition.append(batch(*values), self.clock.now_ms())

    def values_now(self) -> list[bytes]:
        return [bytes(record.value or b"") for record in read_all(self.partition.log)]

    @property
    def place(self) -> str:
        return Path(self.partition.log.directory.path).name

    def send_to(self, number: int, partition: Partition | None = None) -> ErrorCode:
        topic, index = ("t", 0) if partition is None else (partition.topic, partition.index)
        return self.moves.alter(topic, index, str(self.home / f"data{number}"))  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        """Return the files of the partition, without those that are being deleted."""
        self.background.flush_due()
        self.settle()
        return sorted(
            f"{path.parent.name}/{path.name.partition('.')[0]}{'-future' if path.name.endswith('-future') else ''}"
            for path in self.home.glob("data*/t-*")
        )

    def futures(self) -> list[tuple[int, bool]]:
        """Return (lag, is it a copy) of each replica in DescribeLogDirs."""
        answer = self.call(DESCRIBE_LOG_DIRS, 5, topics=None)
        return sorted(
            (partition.offset_lag, partition.is_future_key)
            for result in answer.results
            for topic in result.topics
            for partition in topic.partitions
        )
