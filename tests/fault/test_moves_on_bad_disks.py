"""The power fails, a call fails, or the process ends, at any disk call while a partition moves to another log directory
and back.

Every promised record is in one of them, once, and the move continues.
"""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import broker.maintenance.replica_move
from protocol.error_codes import ErrorCode
from storage.errors import StorageError
from storage.fs import LOCAL, FileSystem
from storage.log_config import LogConfig
from tests.support.disk_doubles.failing_fs import Died, FailingFileSystem
from tests.support.disk_doubles.power_cut import Disk, Journal, JournalingFileSystem
from tests.support.moving_broker import Moving
from tests.support.scale import scaled

STEPS = 40
#: Moments of one story, at the full size.
MOST = 150
CONFIG = LogConfig(file_delete_delay_ms=0, segment_bytes=2_000, segment_index_bytes=1_200, index_interval_bytes=300)


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce a round to a hundred bytes."""
    monkeypatch.setattr(broker.maintenance.replica_move, "REST_BYTES", 400)
    monkeypatch.setattr(broker.maintenance.replica_move, "ROUND_BYTES", 1_500)


class Story:
    """The same story for the same seed.

    `answered`: the appended values, in order; the first `forced` of them are on the disk for sure. `refused`: those
    which may be among them nevertheless.
    """

    def __init__(self, home: Path, seed: int, fs: FileSystem) -> None:
        self.random = Random(seed)
        self.answered: list[bytes] = []
        self.refused: set[bytes] = set()
        self.forced = self.moves = 0
        self.broker = Moving(home, fs, CONFIG)
        for directory in self.broker.logs.directories:
            directory.on_failure = self.broker.partitions.take_offline
        self.broker.copies.held = True

    def append(self) -> None:
        value = b"%d:" % (len(self.answered) + len(self.refused)) + bytes(self.random.randrange(400))
        self.refused.add(value)
        with suppress(StorageError):
            self.broker.append(value)
            self.answered.append(value)
            self.refused.remove(value)

    def flush(self) -> None:
        """Flush, as before the response to a producer where flush.messages requires it."""
        broker, before = self.broker, len(self.answered)
        if broker.partition.online:
            broker.background.held = False
            broker.background.release()
            flushed = broker.background.flush(broker.partition.log)
            broker.settle()
            with suppress(StorageError):
                flushed.result()
                self.forced = before

    def move(self) -> None:
        place = self.broker.place if self.broker.partition.online else "data0"
        self.moves += self.broker.send_to(int(place == "data0")) is ErrorCode.NONE

    def copy(self) -> None:
        """Run a round of a worker."""
        if self.broker.copies.is_wanted:
            self.broker.copies.release()

    def background(self) -> None:
        """Slow the background thread down, or let it catch up."""
        self.broker.background.held = not self.broker.background.held
        self.broker.background.release()

    def wait(self) -> None:
        self.broker.advance(5_000)
        self.broker.background.flush_due()

    def step(self, number: int) -> None:
        first = (self.append, self.flush, self.move, self.copy)
        often = (*first, self.append, self.copy, self.background, self.wait)
        (first[number] if number < len(first) else self.random.choice(often))()

    def run(self) -> None:
        for number in range(STEPS):
            self.step(number)


def check(home: Path, story: Story, promised: int) -> None:
    """Start with a working disk: no promised record is missing, and the move completes.

    Above that there may be gaps (docs/reference/durability.md), and nothing out of order.
    """
    again = Moving(home, LOCAL, CONFIG)
    found = again.values_now()
    answered = [value for value in found if value not in story.refused]
    assert answered[:promised] == story.answered[:promised]
    others = iter(story.answered[promised:])
    assert all(value in others for value in answered[promised:])
    again.moves.start()
    for _ in range(20):
        again.advance(5_000)
    assert list(again.moves.futures()) == []
    assert again.values_now() == found
    again.append(b"more")
    assert again.names() == [f"{again.place}/t-0"]
    again.moves.close()
    again.close()


def some(count: int, random: Random, examples: int) -> set[int]:
    """Return the numbers below `count`."""
    return set(random.sample(range(count), min(count, MOST, scaled(examples))))


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_at_any_call_of_a_move(seed: int, tmp_path: Path) -> None:
    """W3, D5: every record that was forced to the disk is there, in either of the two directories."""
    home, after = tmp_path / "live", tmp_path / "after"
    home.mkdir()
    disk, journal = Disk(home), Journal()
    story = Story(home, seed, JournalingFileSystem(journal))
    promises: list[tuple[int, int]] = []  # (calls until then, records that are on the disk)
    for number in range(STEPS):
        story.step(number)
        promises.append((len(journal), story.forced))
    assert story.moves
    assert story.forced
    random = Random(seed)
    moments = some(len(journal), random, 12)
    for moment, call in enumerate(journal.calls):
        if moment in moments:
            promised = max((forced for calls, forced in promises if calls <= moment), default=0)
            disk.cut(after, random)
            check(after, story, promised)
        disk.follow(call)


def calls_of(home: Path, seed: int) -> int:
    fs = FailingFileSystem()
    Story(home, seed, fs).run()
    return len(fs.calls)


@pytest.mark.parametrize("seed", range(2))
def test_broker_dies_at_any_call_of_a_move(seed: int, tmp_path: Path) -> None:
    """D5, W1: every acknowledged record is there."""
    count = calls_of(tmp_path / "whole", seed)
    for number in some(count, Random(seed), 8):
        home = tmp_path / str(number)
        fs = FailingFileSystem(number + 1, dies=True)
        story: Story | None = None
        with suppress(Died):
            story = Story(home, seed, fs)
            story.run()
        assert fs.has_failed
        if story is not None:
            story.broker.logs.unlock()
            check(home, story, len(story.answered))
        shutil.rmtree(home, ignore_errors=True)  # the first call creates it


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_any_call_of_a_move_fails(code: int, tmp_path: Path) -> None:
    """D3, D5: a directory may go offline, or only the call may fail. The next start has every acknowledged record."""
    count = calls_of(tmp_path / "whole", code)
    for number in some(count, Random(code), 8):
        home = tmp_path / str(number)
        fs = FailingFileSystem(number + 1, code=code)
        story: Story | None = None
        with suppress(StorageError, OSError):
            story = Story(home, code, fs)
            story.run()
        assert fs.has_failed
        if story is not None:
            story.broker.moves.close()
            story.broker.logs.unlock()
            check(home, story, len(story.answered))
        shutil.rmtree(home, ignore_errors=True)  # the first call creates it
