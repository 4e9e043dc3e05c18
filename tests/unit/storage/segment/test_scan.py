"""Scanning batches of any format, whole or by their headers, valid or damaged."""

from pathlib import Path

import pytest

from protocol.records.errors import CorruptBatch
from storage.fs import LOCAL
from storage.segment.scan import has_right_checksum, scan_entries, scan_valid, scan_whole
from tests.support.dump_log import LOGS, dump_files, dumped_logs
from tests.support.logs import batch

#: All formats: v0 and v1 with their wrappers, v2, and logs with all three.
DUMPS = [path for path in dump_files() if "2-damaged" not in str(path) and path.parent.name.startswith("v3.9.1")]


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_recorded_logs_of_all_formats(dump: Path) -> None:
    """Position, size, last offset and magic of each entry, with small and large windows (S4.13)."""
    for file in dumped_logs(dump):
        handle = LOCAL.open_read(str(file.path))
        size = file.path.stat().st_size
        for window in (64, 1 << 20):
            entries = list(scan_entries(LOCAL, handle, 0, size, window))
            assert entries == [entry for entry, _ in scan_valid(LOCAL, handle, 0, size, window)]
            assert len(entries) == len(file.entries)
            for entry, expected in zip(entries, file.entries, strict=True):
                assert entry.position == int(expected.fields["position"])
                assert entry.size_bytes == int(expected.fields["size"])
                assert entry.magic == int(expected.fields["magic"])
                last_offset = expected.fields.get("lastOffset") or expected.fields["offset"]
                assert entry.last_offset == int(last_offset)
        LOCAL.close(handle)


@pytest.mark.parametrize("window", [61, 100, 200, 1 << 20])
def test_wrong_checksum_is_found_with_any_window(window: int, tmp_path: Path) -> None:
    """The checksum of a batch larger than the window is computed in pieces."""
    one, two = batch(bytes(300)), batch(bytes(400))
    path = tmp_path / "log"
    path.write_bytes(one + two)
    handle = LOCAL.open_read(str(path))
    size = len(one) + len(two)
    assert [entry.size_bytes for entry, _ in scan_valid(LOCAL, handle, 0, size, window)] == [len(one), len(two)]
    two[-1] ^= 1
    path.write_bytes(one + two)
    found = scan_valid(LOCAL, handle, 0, size, window)
    next(found)
    with pytest.raises(CorruptBatch):
        next(found)
    whole = scan_whole(LOCAL, handle, 0, size, window)  # continues
    assert [has_right_checksum(LOCAL, handle, *each, window) for each in whole] == [True, False]
    LOCAL.close(handle)


@pytest.mark.parametrize(
    ("at", "value", "corrupt"),
    [
        (8, b"\0\0\0\x0d", True),
        (8, b"\xff\xff\xff\xff", True),
        (8, b"\0\0\0\x20", True),
        (16, b"\x03", True),
        (8, b"\x7f\xff\xff\xff", False),
    ],
)
def test_impossible_length_or_magic(at: int, value: bytes, corrupt: bool, tmp_path: Path) -> None:
    """An impossible length is corrupt; one beyond the end is a torn batch."""
    data = bytearray(batch() + batch())
    data[len(data) // 2 + at : len(data) // 2 + at + len(value)] = value
    (tmp_path / "log").write_bytes(data)
    handle = LOCAL.open_read(str(tmp_path / "log"))
    for scan in (scan_entries(LOCAL, handle, 0, len(data)), scan_valid(LOCAL, handle, 0, len(data))):
        next(scan)
        if corrupt:
            with pytest.raises(CorruptBatch):
                next(scan)
        else:
            assert list(scan) == []
    LOCAL.close(handle)


def test_truncated_file_ends_the_scan(tmp_path: Path) -> None:
    """Another program has truncated it."""
    path = tmp_path / "log"
    path.write_bytes(batch() + batch()[:30])
    handle = LOCAL.open_read(str(path))
    assert len(list(scan_entries(LOCAL, handle, 0, 10_000))) == 1
    assert len(list(scan_valid(LOCAL, handle, 0, 10_000))) == 1
    LOCAL.close(handle)
    assert LOGS.exists()
