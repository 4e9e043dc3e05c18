"""A segment whose files were not used is small; the first use of a file makes it an ordinary segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.segment.files import LOG_SUFFIX
from storage.segment.segment import Segment
from storage.segment.unused import UnusedSegment

CONFIG = LogConfig()


def unused(directory: Path) -> UnusedSegment:
    return UnusedSegment(OpenFiles(LOCAL), str(directory), 7, CONFIG, created_ms=0, sizes={LOG_SUFFIX: 12})


def test_size_and_name_are_known_without_its_files(tmp_path: Path) -> None:
    """A start and retention by size need no more."""
    segment = unused(tmp_path)
    assert (segment.base_offset, segment.size_bytes, segment.is_active) == (7, 12, False)
    segment.close()
    assert type(segment) is UnusedSegment


@pytest.mark.parametrize(
    "ask",
    [
        lambda segment: segment.paths,
        lambda segment: segment.txn_index.may_have_any,
        lambda segment: segment.make_active(CONFIG),
        lambda segment: segment.remove_files(),
    ],
)
def test_file_access_makes_it_an_ordinary_segment(tmp_path: Path, ask: Callable[[Segment], object]) -> None:
    segment: Segment = unused(tmp_path)
    ask(segment)
    assert type(segment) is Segment
    assert segment.log.path == f"{tmp_path}/00000000000000000007.log"


def test_unknown_attribute_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="colour"):
        unused(tmp_path).colour  # type: ignore[attr-defined]  # noqa: B018
