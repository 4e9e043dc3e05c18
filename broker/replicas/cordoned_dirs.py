"""Cordoned log directories (KIP-1066): nothing new goes into them, what lies there is served as ever.

`cordoned.log.dirs` may change while the broker runs. Each process that has logs marks its own directories; the owner of
the metadata records them besides, as a broker whose directories are all cordoned is given no new partitions at all. A
metadata.version below 4.3 has no cordoned directories: what the file says counts once it is raised.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metadata import registration as lifecycle

if TYPE_CHECKING:
    from broker.broker import Broker
    from config import BrokerConfig
    from storage.log_manager import LogManager

KEY = "cordoned.log.dirs"
_ALL = "*"


def mark_cordoned(config: BrokerConfig, logs: LogManager) -> None:
    """Have new logs avoid the directories that are cordoned, from now on and after each change."""

    def mark(_: object = None) -> None:
        cordoned = config.get_list(KEY)
        paths = {os.path.abspath(path) for path in cordoned}
        for directory in logs.directories:
            directory.is_cordoned = _ALL in cordoned or os.path.abspath(directory.path) in paths

    mark()
    config.subscribe(KEY, mark)


def record_cordoned(broker: Broker) -> None:
    """Tell the metadata which directories are cordoned, now and after each change. `mark_cordoned` goes before."""

    def record_soon(_: BrokerConfig) -> None:
        # the metadata that tells of the change is just being carried out
        broker.loop.call_soon(lambda: record_marks(broker))

    record_marks(broker)
    broker.config.subscribe(KEY, record_soon)


def record_marks(broker: Broker) -> None:
    """Tell the metadata which directories are marked, where it does not know and its version has a place for them."""
    ids = (broker.directory_ids.get(each.path) for each in broker.logs.directories if each.is_cordoned)
    cordoned = [each for each in ids if each is not None]
    controller = broker.controller
    controller.submit(lifecycle.cordon_directories(controller.image, broker.config.node_id, cordoned))
