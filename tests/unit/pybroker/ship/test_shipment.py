"""Logs that are sent to a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.ship.positions import PositionFile
from pybroker.ship.shipment import _Shipment, begin
from tests.support.written_logs import WrittenLog


class UnusedProducer:
    """A producer that must not be used."""

    def abandon(self) -> None:
        """There is nothing to drop."""


def test_log_named_twice_is_sent_once(tmp_path: Path) -> None:
    """Two patterns of a shell may match it."""
    log = WrittenLog(tmp_path)
    log.write("one\n")
    sender: Any = UnusedProducer()
    with PositionFile(tmp_path / "positions", "t") as positions:
        begin([log.path, log.path], positions, 1000, from_beginning=True)
        shipment = _Shipment(sender, positions, lambda line: None)
        shipment.open([log.path, log.path], 1000)
        assert [follower.path for follower in shipment._logs] == [log.path]
        shipment.close()
