"""The files of a simulated broker."""

from __future__ import annotations

from tests.simulation.disk import Disk
from tests.simulation.metadata import TOPIC
from tests.simulation.transport import Config
from tests.simulation.world import World


def test_repair_makes_room_in_failed_directories() -> None:
    """Else a follower whose disk was full before its directory failed gives the partition up for ever."""
    key = TOPIC, 0
    disk = Disk(1, World(Config()).checks)
    log = disk.log(key, disk.directories[0], is_new=True)
    assert log is not None
    log.broken = True
    disk.failed.add(disk.directories[0])
    disk.begin()
    assert key in disk.hidden
    disk.repair()
    assert not log.broken
