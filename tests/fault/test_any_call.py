"""Any call to the disk fails, or is the last of the process. The rules of storage/README.md hold for what is left.

The calls are those of everything that moves files: appends, rolls, flushes, checkpoints, retention, DeleteRecords,
topic creation and deletion, stops and starts, and the metadata log with its snapshots. The full size covers all calls.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from storage.errors import LogOffline, StorageError
from tests.support.disk_doubles.failing_fs import Died, FailingFileSystem
from tests.support.log_scenario import Scenario, Topic
from tests.support.scale import SCALE, scaled

STEPS = 30
CALLS = 25
EVERYTHING = 1 << 62


def some(count: int, random: Random) -> Iterator[int]:
    """Return numbers of calls out of `count`: all of them at the full size."""
    yield from range(1, count + 1) if SCALE >= 50 else random.sample(range(1, count + 1), min(count, scaled(CALLS)))


def scenario(root: Path, seed: int, fs: FailingFileSystem) -> Scenario:
    return Scenario(root / "logs", Random(seed), fs)


def calls_of(root: Path, seed: int) -> int:
    fs = FailingFileSystem()
    whole = scenario(root, seed, fs)
    whole.run(STEPS)
    whole.leave()
    return len(fs.calls)


def answered(topic: Topic) -> int:
    """Without a power loss the broker promises everything that it acknowledged."""
    return max(topic.values, default=-1) + 1


@pytest.mark.parametrize("seed", range(2))
def test_broker_dies_at_any_call(seed: int, tmp_path: Path) -> None:
    """W1-W4, D1, R1, R4, R6: the process makes no call after this one. A write has written half of its bytes."""
    for number in some(calls_of(tmp_path / "whole", seed), Random(seed)):
        fs = FailingFileSystem(number, dies=True)
        run = scenario(tmp_path / str(number), seed, fs)
        with pytest.raises(Died):
            run.run(STEPS)
        run.manager.unlock()
        run.check(run.log_dir, EVERYTHING, answered)


@pytest.mark.parametrize("broken", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_any_call_fails(code: int, broken: bool, tmp_path: Path) -> None:
    """W1-W4, D3, H3: the directory goes offline and accepts nothing more.

    A start with a working disk recovers it all.
    """
    seed = code
    for number in some(calls_of(tmp_path / "whole", seed), Random(seed + broken)):
        fs = FailingFileSystem(number, code=code, broken=broken)
        run = scenario(tmp_path / str(number), seed, fs)
        try:
            run.run(STEPS)
        except (StorageError, OSError):
            assert fs.has_failed
        directory = run.manager.directories[0]
        if directory.failure is not None:
            with pytest.raises(LogOffline):
                run.make("three")
        run.leave()
        run.check(run.log_dir, EVERYTHING, answered)
