"""Measure index look-ups, in microseconds of one core with files in the page cache: `python -m bench index`.

The index is that of a full segment at the defaults: 1 GiB of records, one entry per 4 KiB. A read costs its look-up and
finding the batch behind the entry. Times include system calls.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack
from time import process_time
from timeit import repeat

from bench.storage_log import T0, batch, new_log
from storage.fs import LOCAL
from storage.index.offset import OffsetIndex
from storage.log_config import LogConfig
from storage.open_files import OpenFiles

ENTRIES = (1 << 30) // 4096
OFFSETS = 4 * ENTRIES
LOOK_UPS = 5000


def measure(name: str, call: Callable[[int], object], targets: Sequence[int]) -> None:
    def each() -> None:
        for target in targets:
            call(target)

    each()
    print(f"{name:52} {min(repeat(each, number=1, repeat=7, timer=process_time)) / len(targets) * 1e6:7.2f} us")


def main() -> None:
    chosen = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        path = Path(scratch) / f"{0:020d}.index"
        path.write_bytes(b"".join(pack(">ii", 4 * entry + 3, 4100 * entry + 1) for entry in range(ENTRIES)))
        index = OffsetIndex(OpenFiles(LOCAL), str(path), 0, 8 * ENTRIES)
        anywhere = [chosen.randrange(OFFSETS) for _ in range(LOOK_UPS)]
        measure(f"look-up among {ENTRIES} entries: anywhere", index.look_up, anywhere)
        measure("  near the end", index.look_up, [OFFSETS - 1 - chosen.randrange(4000) for _ in range(LOOK_UPS)])
        measure("  in ascending order", index.look_up, range(0, OFFSETS, 17))

        config = LogConfig(index_interval_bytes=0)
        log = new_log(Path(scratch), "read", config)
        records = batch(100)
        for _ in range(ENTRIES // 4):
            records[0:8] = bytes(8)
            log.append(records, leader_epoch=0, now_ms=T0)
        end = log.log_end_offset
        measure(
            f"read of a segment with {end} entries: anywhere",
            lambda offset: log.read(offset, 4096, end),
            [chosen.randrange(end) for _ in range(LOOK_UPS)],
        )
        measure("  by time", lambda _: log.offset_for_timestamp(T0), range(LOOK_UPS // 10))
        log.close()


if __name__ == "__main__":
    main()
