"""The power fails at any call of a cleaning round: the log has its records, except those that a cleaner may remove."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.fault.test_cleaner_failures import CONFIG, check_after, expectations, fill, run_round
from tests.support.disk_doubles.power_cut import Disk, Journal, JournalingFileSystem
from tests.support.logs import crash, open_log
from tests.support.scale import SCALE, scaled


def test_power_loss_while_segments_are_replaced(tmp_path: Path) -> None:
    """W3, R1: an old segment and its replacement are never both there, and never both missing."""
    origin, live = tmp_path / "origin", tmp_path / "live"
    origin.mkdir()
    fill(origin)
    before, cleaned, producers = expectations(origin)
    shutil.copytree(origin, live)
    disk = Disk(live)
    disk.take_over()
    journal = Journal()
    fs = JournalingFileSystem(journal)
    log = open_log(live, CONFIG, fs=fs, clean=True)
    run_round(log, fs)
    crash(log)
    calls = journal.calls
    random = Random(3)
    moments = range(len(calls)) if SCALE >= 50 else random.sample(range(len(calls)), min(len(calls), scaled(30)))
    for moment, call in enumerate(calls):
        for _ in range(2 * (moment in moments)):
            disk.cut(tmp_path / "after", random)
            check_after(tmp_path / "after", before, cleaned, producers)
        disk.follow(call)
