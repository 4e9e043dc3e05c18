"""A cleaner with logs in a directory, time that a test advances, and workers that run tasks at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.maintenance.log_cleaner import Cleaner
from protocol.records.builder import BatchBuilder
from runtime.timers import Timers
from storage.checkpoints import CLEANER_OFFSETS
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.data_broker import DEFAULTS, InstantBackground
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.instant_workers import InstantWorkers

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=300, file_delete_delay_ms=0)
SETTINGS = {
    "log.cleaner.enable": True,
    "log.cleaner.threads": 1,
    "log.cleaner.backoff.ms": 15_000,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.cleaner.io.buffer.size": 512 << 10,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.max.bytes.per.second": 1.7976931348623157e308,
}


class Pool(InstantWorkers):
    """A pool of `size` workers; `closed` once it is closed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.closed = False

    def close(self) -> None:
        self.closed = True


class CleanerStage:
    """A cleaner with its logs, time and workers."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.values = {**DEFAULTS, **SETTINGS, **settings}
        self.changed: list[Callable[[Any], None]] = []
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        timers = Timers(self.loop, self.clock)
        self.root = root / "data"
        self.logs = LogManager([str(self.root)])
        self.logs.lock()
        self.logs.load(lambda topic: COMPACT, self.clock.now_ms())
        self.background = InstantBackground(self.logs, self, self.loop, timers, self.clock)
        self.pools: list[Pool] = []
        self.held = False
        self.cleaner = Cleaner(self.logs, self.background, self, self.loop, timers, self.clock, self.make_pool)  # type: ignore[arg-type]

    def make_pool(self, size: int) -> Any:
        self.pools.append(Pool(size))
        self.pools[-1].held = self.held
        return self.pools[-1]

    # the configuration's method
    def get_int(self, key: str) -> Any:
        return self.values[key]

    get_bool = get_float = get_int

    def subscribe(self, keys: tuple[str, ...], callback: Callable[[Any], None]) -> None:
        self.changed.append(callback)

    def change(self, **settings: Any) -> None:
        self.values.update(settings)
        for callback in self.changed:
            callback(self)

    def log(self, topic: str = "t", config: LogConfig = COMPACT) -> PartitionLog:
        return self.logs.create(topic, 0, bytes(16), config, self.clock.now_ms())

    def start(self) -> None:
        self.cleaner.start()
        self.loop.settle()

    def checkpoint(self) -> list[str]:
        path = self.root / CLEANER_OFFSETS
        return path.read_text().splitlines()[2:] if path.exists() else []


def fill(log: PartitionLog, count: int = 20, keys: int = 2, now_ms: int = 1_700_000_000_000) -> None:
    for number in range(count):
        builder = BatchBuilder()
        builder.append(now_ms, b"k%d" % (number % keys), b"%d" % number)
        log.append(bytearray(builder.build()), leader_epoch=0, now_ms=now_ms)
