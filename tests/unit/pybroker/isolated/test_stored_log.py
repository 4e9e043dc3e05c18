"""A partition's directory that changes while it is read, and segments during a swap."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.isolated.stored_log import StoredLog
from pybroker.source.errors import DamagedLog, DataLoss, UnusableOption
from storage.fs import FileSystem
from storage.log_config import LogConfig
from tests.support.logs import append, batch, crash, open_log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of ten records, each in its own segment."""
    log = open_log(tmp_path, LogConfig(segment_bytes=80))
    for number in range(10):
        append(log, batch(b"value-%d" % number))
    crash(log)
    return tmp_path / "orders-0"


def segment(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020}.log"


def test_segments_and_end_offsets(directory: Path) -> None:
    log = StoredLog(str(directory))

    assert [(each.base_offset, each.end_offset) for each in log.segments] == [
        *((number, number + 1) for number in range(9)),
        (9, None),
    ]
    assert (log.topic, log.partition, log.start_offset(), log.end_offset()) == ("orders", 0, 0, 10)


class ListedMeanwhile(FileSystem):
    """A directory that grows during its first listing: the last segment is listed, the one before it is not."""

    def __init__(self) -> None:
        self._listings = 0

    def names(self, path: str) -> list[str]:
        self._listings += 1
        return [name for name in super().names(path) if self._listings > 1 or not name.startswith(f"{8:020}")]


def test_segment_created_during_a_listing_is_found(directory: Path) -> None:
    log = StoredLog(str(directory), ListedMeanwhile())

    assert [segment.base_offset for segment in log.segments] == list(range(10))


def test_segment_deleted_meanwhile_is_data_loss(directory: Path) -> None:
    log = StoredLog(str(directory))
    segment(directory, 3).unlink()

    with pytest.raises(DataLoss, match="was removed"):
        list(log.read(0, 10))


def test_offset_before_the_first_segment_is_data_loss(directory: Path) -> None:
    segment(directory, 0).unlink()
    log = StoredLog(str(directory))

    assert log.start_offset() == 1
    with pytest.raises(DataLoss, match="begins at 1"):
        list(log.read(0, 10))


def test_segment_during_a_swap_is_an_error(directory: Path) -> None:
    segment(directory, 3).rename(f"{segment(directory, 3)}.swap")

    with pytest.raises(DamagedLog, match="about to replace a segment"):
        StoredLog(str(directory))


def test_directory_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableOption, match="TOPIC-PARTITION"):
        StoredLog(str(tmp_path / "orders"))
