"""Log managers in directories of a test's own."""

from collections.abc import Iterable
from pathlib import Path

from storage.log.tasks import Task
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0

TOPIC_ID = bytes(range(16))


def started(*paths: Path, config: LogConfig | None = None, now_ms: int = T0) -> LogManager:
    manager = LogManager([str(path) for path in paths])
    manager.lock()
    manager.load(lambda topic: config or LogConfig(), now_ms)
    return manager


def do(tasks: Iterable[Task]) -> int:
    count = 0
    for task in tasks:
        task.run()
        task.apply()
        count += 1
    return count


def killed(manager: LogManager) -> None:
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()
