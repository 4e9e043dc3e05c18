"""Entries of a time index compared with the batches. Other damage to indexes is in test_verify.py."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from tests.support.logs import T0, append, close, open_log
from tools.data.checks.log import LogCheck, LogOptions


def written(root: Path, codec: Codec) -> Path:
    """A log of three batches: offsets 0 to 2, whose record 1 has the largest timestamp; 3 and 4 with the
    same one; 5.
    """
    log = open_log(root)
    for timestamps in ([T0, T0 + 9, T0 + 5], [T0 + 9, T0 + 9], [T0 + 20]):
        builder = BatchBuilder(codec=codec)
        for timestamp in timestamps:
            builder.append(timestamp, b"key", b"value")
        append(log, bytearray(builder.build()))
    close(log)
    return root / "orders-0"


def findings(directory: Path, *entries: tuple[int, int]) -> list[str]:
    """Return the findings for a time index with these entries: milliseconds after T0, and offsets."""
    path = directory / "00000000000000000000.timeindex"
    path.write_bytes(b"".join(pack(">qi", T0 + timestamp, offset) for timestamp, offset in entries))
    return [found.what for found in LogCheck(str(directory), LogOptions()).findings()]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    ("offset", "wrong"),
    [
        (0, "entry 0 names neither the batch's last offset, 2, nor the record of its timestamp"),
        (1, None),  # the record itself, as older releases write it
        (2, None),
        (3, "entry 0 names a batch after the first one of its timestamp"),
        (4, "entry 0 names a batch after the first one of its timestamp"),
    ],
)
def test_entry_has_to_name_the_first_batch_of_its_time(
    offset: int, wrong: str | None, codec: Codec, tmp_path: Path
) -> None:
    """With a later one, look-ups would miss records. Within the batch, older releases wrote another offset."""
    directory = written(tmp_path, codec)
    assert findings(directory, (9, 2), (20, 5)) == []
    assert findings(directory, (9, offset), (20, 5)) == ([] if wrong is None else [wrong])


def test_entry_of_unreadable_records_is_not_judged(tmp_path: Path) -> None:
    """The batch is the finding. Whether the entry names one of its records is unknown."""
    directory = written(tmp_path, Codec.ZSTD)
    path = directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[61] ^= 0xFF
    path.write_bytes(data)
    assert findings(directory, (9, 0), (20, 5)) == ["the checksum of the batch is wrong"]
