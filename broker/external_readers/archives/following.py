"""Start following archives if `pybroker.archives` names any. Most brokers have none, and load none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.external_readers.holds import RetentionHolds
    from config import BrokerConfig
    from runtime.timers import Timers
    from storage.log_manager import LogManager


def follow_archives(
    config: BrokerConfig,
    logs: LogManager,
    holds: RetentionHolds,
    loop: AbstractEventLoop,
    timers: Timers,
) -> None:
    """Follow the configured archives, and make retention wait for them."""
    paths = config.get_list("pybroker.archives")
    if not paths:
        return
    from broker.external_readers.archives.archives import Archives

    opened = logs.logs

    def log_end(place: tuple[str, int]) -> int | None:
        found = opened.get(place)
        return found.log_end_offset if found is not None else None

    archives = Archives(paths, log_end, loop, timers)
    holds.add(archives)
    archives.start()
