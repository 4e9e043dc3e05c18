"""A segment whose files were not used is small; the first use of a file creates the objects for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.segment.files import LOG_SUFFIX
from storage.segment.segment import Segment

CONFIG = LogConfig()


def unused(directory: Path) -> Segment:
    return Segment(OpenFiles(LOCAL), str(directory), 7, CONFIG, created_ms=0, sizes={LOG_SUFFIX: 12})


def test_size_and_name_are_known_without_its_files(tmp_path: Path) -> None:
    """A start and retention by size need no more."""
    segment = unused(tmp_path)
    assert (segment.base_offset, segment.size_bytes, segment.is_active) == (7, 12, False)
    segment.close()
    assert segment.file_objects is None


@pytest.mark.parametrize(
    "use",
    [
        lambda segment: segment.paths,
        lambda segment: segment.txn_index.may_have_any,
        lambda segment: segment.make_active(CONFIG),
        lambda segment: segment.remove_files(),
    ],
)
def test_file_access_creates_the_objects_once(tmp_path: Path, use: Callable[[Segment], object]) -> None:
    segment = unused(tmp_path)
    use(segment)
    created = segment.file_objects
    assert created is not None
    assert (segment.log, segment.offset_index) == (created.log, created.offset_index)
    assert (segment.time_index, segment.txn_index) == (created.time_index, created.txn_index)
    assert segment.log.path == f"{tmp_path}/00000000000000000007.log"


def test_unknown_attribute_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="colour"):
        unused(tmp_path).colour  # type: ignore[attr-defined]  # noqa: B018
