"""The choice of files that a compaction merges."""

from __future__ import annotations

from pybroker.archive.compacting import plan
from pybroker.archive.manifest import ArchivedFile


def file(topic: str, day: int, number: int, size: int, records: int = 10) -> ArchivedFile:
    return ArchivedFile(f"topic={topic}/date=2026-01-0{day}/{number}.parquet", records, size)


def test_small_files_of_a_day_are_merged() -> None:
    """Large files, and single small ones, stay. Each topic is compacted separately."""
    small = [file("orders", 1, number, 40) for number in range(3)]
    alone, large = file("orders", 2, 0, 40), file("orders", 1, 9, 50)
    others = [file("clicks", 1, number, 1) for number in range(2)]

    clicks, orders = plan([alone, large, *small, *others], target_bytes=100)

    assert (clicks.topic, clicks.files, clicks.folders) == ("clicks", others, 1)
    assert (orders.topic, orders.files, orders.folders) == ("orders", small, 1)
    assert orders.most_rows == 30 * 100 // 120
    assert plan([alone, large], target_bytes=100) == []


def test_rows_larger_than_a_file_have_a_file_each() -> None:
    huge = [file("orders", 1, number, 4, records=1) for number in range(2)]
    [planned] = plan(huge, target_bytes=10)
    assert planned.most_rows == 2
    [empty] = plan([each._replace(records=0) for each in huge], target_bytes=10)
    assert empty.most_rows == 1
