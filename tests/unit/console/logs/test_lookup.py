"""Look-up of an offset in the files of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.errors import NotFound
from console.logs.batches import read_batch, read_batches
from console.logs.folder import read_folder
from console.logs.lookup import find
from protocol.records.builder import BatchBuilder

COUNT = 40


def write(folder: Path, base_offset: int) -> None:
    """Write a segment of batches with two records each; every tenth has an index entry."""
    log, index = bytearray(), bytearray()
    for number in range(COUNT):
        builder = BatchBuilder(base_offset + 2 * number)
        builder.append(1, None, b"a")
        builder.append(2, None, b"b")
        if number and number % 10 == 0:
            index += (2 * number + 1).to_bytes(4, "big") + len(log).to_bytes(4, "big")
        log += builder.build()
    (folder / f"{base_offset:020d}.log").write_bytes(log)
    (folder / f"{base_offset:020d}.index").write_bytes(index + bytes(80))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    write(path, 10)
    write(path, 100)
    return path


@pytest.mark.parametrize(
    ("offset", "segment", "entry", "stepped_over"),
    [(10, 10, None, 0), (30, 10, None, 10), (31, 10, 0, 0), (89, 10, 2, 9), (100, 100, None, 0), (179, 100, 2, 9)],
)
def test_steps_are_segment_entry_and_batches(
    folder: Path, offset: int, segment: int, entry: int | None, stepped_over: int
) -> None:
    """By the segment's name, the entry's offset, then batch by batch."""
    lookup = find(read_folder(str(folder)), offset)

    assert lookup.segment.base_offset == segment
    assert (lookup.entry.number if lookup.entry else None) == entry
    assert lookup.entry_count == 3  # the zeros behind them are free space
    assert lookup.stepped_over == stepped_over
    assert lookup.batch.base_offset == offset // 2 * 2


@pytest.mark.parametrize("offset", [0, 9, 95, 180])
def test_offsets_without_a_batch(folder: Path, offset: int) -> None:
    """Before the first segment, between two, behind the last."""
    with pytest.raises(NotFound):
        find(read_folder(str(folder)), offset)


def test_pages_of_batches_are_contiguous(folder: Path) -> None:
    """To the end of the file. Bytes that are no batch are counted."""
    path = folder / f"{10:020d}.log"
    path.write_bytes(path.read_bytes() + b"torn")
    segment = read_folder(str(folder)).segment(10)
    offsets: list[int] = []
    position: int | None = 0
    while position is not None:
        page = read_batches(segment, position, 7)
        offsets += [row.base_offset for row in page.rows]
        position = page.next_position

    assert offsets == list(range(10, 90, 2))
    assert page.left_over == 4


def test_wrong_checksum_is_shown(folder: Path) -> None:
    """With the batch."""
    path = folder / f"{10:020d}.log"
    data = bytearray(path.read_bytes())
    segment = read_folder(str(folder)).segment(10)
    assert read_batch(segment, 0).crc_is_right
    data[62] ^= 1
    path.write_bytes(data)
    assert not read_batch(segment, 0).crc_is_right
