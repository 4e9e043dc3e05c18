"""Cordoned log directories (KIP-1066): they get no new partitions, and still serve the ones that they have.

`cordoned.log.dirs` may change while the broker runs. Each process marks its own directories. The main process also
records them in the metadata: a broker whose directories are all cordoned gets no new partitions at all. A
metadata.version below 4.3 has no cordoned directories: they are recorded once it is raised.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metadata import registration as lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from config import BrokerConfig
    from controller.controller import Controller
    from storage.log_manager import LogManager

KEY = "cordoned.log.dirs"
_ALL = "*"


def mark_cordoned(config: BrokerConfig, logs: LogManager) -> None:
    """Exclude cordoned directories from new logs, now and after each change."""

    def mark(_: object = None) -> None:
        cordoned = config.get_list(KEY)
        paths = {os.path.abspath(path) for path in cordoned}
        for directory in logs.directories:
            directory.is_cordoned = _ALL in cordoned or os.path.abspath(directory.path) in paths

    mark()
    config.subscribe(KEY, mark)


class CordonRecorder:
    """Records the cordoned directories in the metadata. Call `mark_cordoned` first.

    Args:
        directory_ids: ids of the log directories, by path.
        call_soon: calls a function in the loop's next turn.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        directory_ids: Mapping[str, bytes],
        controller: Controller,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._config = config
        self._logs = logs
        self._directory_ids = directory_ids
        self._controller = controller
        self._call_soon = call_soon

    def start(self) -> None:
        """Record them, now and after each change."""

        def record_soon(_: BrokerConfig) -> None:
            self._call_soon(self.record)  # later, because the change of metadata is still being applied

        self.record()
        self._config.subscribe(KEY, record_soon)

    def record(self) -> None:
        """Record changed marks, if the metadata.version has them."""
        ids = (self._directory_ids.get(each.path) for each in self._logs.directories if each.is_cordoned)
        cordoned = [each for each in ids if each is not None]
        controller, node_id = self._controller, self._config.node_id
        registered = controller.image.brokers.get(node_id)
        if cordoned or (registered is not None and registered.cordoned_log_directories):
            controller.submit(lifecycle.cordon_directories(controller.image, node_id, cordoned))
