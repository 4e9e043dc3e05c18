"""Positions in manifests of `pybroker archive`, and files that are no manifests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.external_readers.archives import manifest
from broker.external_readers.archives.manifest import read_archive
from pybroker.archive.manifest import ArchivedFile, ArchivedRange, Manifest, encode
from runtime.foreign_files import UnreadableFile
from tests.support.archives import put_manifest

ENDS = {("orders", 0): 10, ("orders", 1): 7, ("clicks", 12): 0}


def test_position_is_the_end_of_the_last_range(tmp_path: Path) -> None:
    """Gaps before it were deleted by retention. The list of files is not used."""
    ranges = (
        ArchivedRange("orders", 0, 40, 90, 50, 1),
        ArchivedRange("orders", 0, 0, 20, 15, (1 << 64) - 1),
        ArchivedRange("orders", 1, 5, (1 << 63) - 1, 3, 0),
    )
    files = (ArchivedFile("topic=orders/date=2026-01-01/one.parquet", 5, 100),)
    path = put_manifest(tmp_path, {})
    path.write_bytes(encode(Manifest("read_committed", "run", ranges, files, ("topic=orders/gone.parquet",), "delta")))

    assert read_archive(str(tmp_path)).ends == {("orders", 0): 90, ("orders", 1): (1 << 63) - 1}


def test_new_archive_has_no_positions(tmp_path: Path) -> None:
    put_manifest(tmp_path, {})
    assert read_archive(str(tmp_path)).ends == {}


def test_unchanged_manifest_is_not_read_again(tmp_path: Path) -> None:
    """A replaced file has another identity and is read."""
    path = put_manifest(tmp_path, ENDS)
    before = read_archive(str(tmp_path))
    assert before.ends == ENDS
    found = path.stat()
    with path.open("r+b") as file:
        file.write(b"no")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert read_archive(str(tmp_path), before) is before

    put_manifest(tmp_path, {("orders", 0): 11})
    assert read_archive(str(tmp_path), before).ends == {("orders", 0): 11}


def test_truncated_manifest_is_rejected(tmp_path: Path) -> None:
    """At any byte."""
    path = put_manifest(tmp_path, ENDS)
    data = path.read_bytes().rstrip()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(UnreadableFile, match="is not JSON, or is incomplete"):
            read_archive(str(tmp_path))


def in_range(**values: object) -> Callable[[dict[str, Any]], object]:
    """Return a change of the second range."""
    return lambda stored: stored["ranges"][1].update(values)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda stored: stored.update(version=2), "unknown format"),
        (lambda stored: stored.update(format="another"), "unknown format"),
        (lambda stored: stored.update(path="x"), "unknown format"),
        (lambda stored: stored.pop("ranges"), "has no ranges"),
        (lambda stored: stored.update(ranges={"a": 1}), "has no ranges"),
        (lambda stored: stored["ranges"].insert(1, None), "range number 1 is invalid"),
        (lambda stored: stored["ranges"].insert(1, [1]), "range number 1 is invalid"),
        *(
            (in_range(**values), "range number 1 is invalid")
            for values in (
                *({"topic": topic} for topic in (None, 5, "", "..", "a/b", "line\nbreak", "x" * 250)),
                *({"partition": partition} for partition in (None, -1, "0", 1.0, True, 1 << 31)),
                *({"start": start} for start in (-1, "x", 8, None)),
                *({"end": end} for end in (-1, 1 << 63, 7.5, [], None)),
            )
        ),
    ],
)
def test_invalid_manifest_is_rejected_as_a_whole(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    """With one line that has the file's name."""
    path = put_manifest(tmp_path, ENDS)
    stored = json.loads(path.read_bytes())
    change(stored)
    path.write_text(json.dumps(stored))

    with pytest.raises(UnreadableFile, match=expected) as refused:
        read_archive(str(tmp_path))
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\xfd", b"[" * 100_000, b"9" * 10_000, b"null", b"[]", b"\0" * 100])
def test_other_files_are_rejected(tmp_path: Path, data: bytes) -> None:
    put_manifest(tmp_path, ENDS).write_bytes(data)
    with pytest.raises(UnreadableFile):
        read_archive(str(tmp_path))


def test_missing_and_oversized_manifests_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_archive(str(tmp_path))
    path = put_manifest(tmp_path, ENDS)
    monkeypatch.setattr(manifest, "_FILE_BYTES", path.stat().st_size)
    assert read_archive(str(tmp_path)).ends == ENDS
    monkeypatch.setattr(manifest, "_FILE_BYTES", path.stat().st_size - 1)
    with pytest.raises(UnreadableFile, match="has more than"):
        read_archive(str(tmp_path))
