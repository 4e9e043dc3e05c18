"""The machine loses power at any call. Any part of what was not forced to the disk is lost or out of order.

docs/reference/durability.md has the promises for this case. These tests cover logs, checkpoints and directories as a
broker uses them; test_power_loss_broker.py covers a whole broker.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from storage.log_config import LONG_MAX
from tests.support.disk_doubles.power_cut import Disk, Journal, JournalingFileSystem
from tests.support.log_scenario import Scenario
from tests.support.scale import SCALE, scaled

STEPS = 50
CUTS = 12
#: At the full size, the number of seeds that lose power at every sync.
WHOLE = 8


@pytest.mark.parametrize("flush_messages", [LONG_MAX, 1], ids=["page-cache", "group-commit"])
@pytest.mark.parametrize("seed", range(min(40, scaled(8))))
def test_flushed_data_survives_power_loss(seed: int, flush_messages: int, tmp_path: Path) -> None:
    """Rules W3, W4, R4, R6, with appends, rolls, flushes, checkpoints, retention, topics and stops in any order."""
    journal = Journal()
    live = tmp_path / "live"
    random = Random(seed)
    fs = JournalingFileSystem(journal)
    scenario = Scenario(live / "logs", random, fs, moment=journal.__len__, flush_messages=flush_messages)
    scenario.run(STEPS)
    scenario.leave()
    calls = journal.calls
    syncs = [number for number, call in enumerate(calls) if call[0].startswith("sync")]
    count = len(syncs) if SCALE >= 50 and seed < WHOLE else min(CUTS, len(syncs))
    moments = {*random.sample(syncs, count), *(random.randrange(len(calls)) for _ in range(4))}
    disk = Disk(live)
    target = tmp_path / "after"
    for moment, call in enumerate(calls):
        if moment in moments:
            for attempt in range(2):
                disk.cut(target, Random(f"{seed} {moment} {attempt}"))
                scenario.check(target / "logs", moment, lambda topic, moment=moment: topic.forced_below(moment))
        disk.follow(call)
