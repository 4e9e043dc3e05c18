"""The manifest of an archive."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.archive.errors import DamagedArchive
from pybroker.archive.manifest import ArchivedFile, ArchivedRange, Manifest, decode, encode, merged

BIG = (1 << 64) - 1
FILE = ArchivedFile("topic=orders/date=2026-01-01/one.parquet", 5, 100)
MANIFEST = Manifest("read_committed", "run-1", (ArchivedRange("orders", 0, 0, 7, 5, BIG),), (FILE,), ("topic=a/b",))


def test_manifest_is_read_as_written() -> None:
    assert decode(encode(MANIFEST), "here") == MANIFEST
    assert decode(encode(Manifest()), "here") == Manifest()
    assert decode(encode(Manifest(table="delta")), "here") == Manifest(table="delta")


def test_runs_are_added() -> None:
    """Ranges and files of a run are appended; the list of replaced files is cleared."""
    more = ArchivedRange("orders", 0, 7, 9, 2, 3)
    other = ArchivedFile("topic=orders/date=2026-01-02/two.parquet", 2, 50)

    after = MANIFEST.with_run("run-2", [more], [other])

    assert after.ends() == {("orders", 0): 9}
    assert after.files == (FILE, other)
    assert (after.run, after.replaced) == ("run-2", ())
    assert after.topics() == ["orders"]


def test_compaction_replaces_files_and_merges_ranges() -> None:
    after = MANIFEST.with_run("run-2", [ArchivedRange("orders", 0, 7, 9, 2, 3)], []).with_compacted(
        "run-3", [FILE._replace(path="topic=orders/date=2026-01-01/new.parquet")], [FILE.path]
    )

    assert [each.path for each in after.files] == ["topic=orders/date=2026-01-01/new.parquet"]
    assert after.replaced == (FILE.path,)
    assert after.ranges == (ArchivedRange("orders", 0, 0, 9, 7, 2),)


def test_ranges_with_gaps_or_of_other_partitions_stay_apart() -> None:
    ranges = [
        ArchivedRange("orders", 1, 5, 6, 1, 1),
        ArchivedRange("orders", 0, 0, 4, 4, 1),
        ArchivedRange("orders", 0, 5, 6, 1, 1),
        ArchivedRange("clicks", 0, 4, 5, 1, 1),
    ]

    assert merged(ranges) == tuple(sorted(ranges))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda manifest: manifest.update(version=2), "version 2 is not supported"),
        (lambda manifest: manifest.pop("ranges"), "damaged"),
        (lambda manifest: manifest["ranges"][0].update(start="x"), "damaged"),
        (lambda manifest: manifest["ranges"][0].update(records=8), "with 8 records is not a valid range"),
        (lambda manifest: manifest["ranges"][0].update(end=-1), "is not a valid range"),
        (lambda manifest: manifest["ranges"].append({**manifest["ranges"][0], "start": 6, "end": 12}), "overlap"),
        (lambda manifest: manifest["files"][0].update(path="topic=a/../../x"), "cannot be a file of an archive"),
        (lambda manifest: manifest.update(replaced=["/etc/passwd"]), "cannot be a file of an archive"),
        (lambda manifest: manifest.update(table="iceberg"), "table format 'iceberg' is not supported"),
    ],
)
def test_invalid_manifest_is_rejected(change: Callable[[dict[str, Any]], object], expected: str) -> None:
    manifest = json.loads(encode(MANIFEST))
    change(manifest)

    with pytest.raises(DamagedArchive, match=expected):
        decode(json.dumps(manifest).encode(), "here")


def test_truncated_manifest_is_rejected() -> None:
    """No part of it is used."""
    data = encode(MANIFEST).rstrip()
    for size in range(len(data)):
        with pytest.raises(DamagedArchive):
            decode(data[:size], "here")
