"""The data of a process, opened at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.startup.missing_partitions import Missing
    from storage.log_manager import LogManager


class OpenedData(Protocol):
    """A node's data. `directory_ids` are the ids of log directories by path."""

    @property
    def logs(self) -> LogManager:
        """The logs of this process."""

    @property
    def directory_ids(self) -> Mapping[str, bytes]:
        """The ids of the log directories, by path."""

    @property
    def missing(self) -> Missing:
        """Partitions that the metadata has, and the directories do not have."""

    def close(self, now_ms: int) -> None:
        """Flush and close all logs, and mark the directories that work as clean."""
