"""Archives that a broker waits for, where `pybroker.archives` names any; most need nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.broker import Broker


def follow_archives(broker: Broker) -> None:
    """Follow the archives that are named, and have retention wait for them."""
    paths = broker.config.get_list("pybroker.archives")
    if not paths:
        return
    from broker.external_readers.archives.archives import Archives

    logs = broker.logs.logs

    def log_end(place: tuple[str, int]) -> int | None:
        found = logs.get(place)
        return found.log_end_offset if found is not None else None

    archives = Archives(paths, log_end, broker.loop, broker.timers, tells_problems=not broker.number)
    broker.background.holds.add(archives)
    archives.start()
