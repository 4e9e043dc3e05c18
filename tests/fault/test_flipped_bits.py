"""One flipped bit, in any file of a log directory, at any position: readers never get wrong records.

They get the original records or fewer, and a loss is reported. 2,000 bits at the full size. The directory comes from a
stop, or from a kill; each bit is flipped in a copy of it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from protocol.records.batch import HEADER_SIZE, BatchHeader, iter_batches
from protocol.records.entries import iter_records
from protocol.records.errors import RecordsError
from storage.errors import CorruptFile
from storage.log.partition_log import PartitionLog
from storage.log_manager import LogManager
from tests.support.log_rules import check_rules
from tests.support.log_scenario import CONFIG
from tests.support.logs import T0, append, batch, end, idempotent, read_all
from tests.support.scale import scaled
from tools.data.verify import check_directory

#: In a batch's header: base offset, length, leader epoch, magic.
UNCOVERED = range(17)
TOPIC_ID = bytes(range(16))
SUFFIXES = ("index", "timeindex", "txnindex", "snapshot")
SMALL = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


@dataclass(frozen=True)
class Place:
    """A batch in a file."""

    file: str
    position: int
    header: BatchHeader


@dataclass(frozen=True)
class Original:
    """A directory, and its contents."""

    log_dir: Path
    values: dict[int, bytes | None]
    batches: list[Place]
    end: int
    aborted: list[tuple[int, int]]

    def copy(self, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.log_dir, target)
        return target


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    root = tmp_path_factory.mktemp(request.param) / "logs"
    manager = LogManager([str(root)])
    manager.lock()
    log = manager.create("orders", 0, TOPIC_ID, CONFIG, T0)
    for number in range(24):
        append(
            log, batch(b"plain-%d" % number, bytes(number * 5), timestamp=T0 + 10 * number), leader_epoch=number // 9
        )
        append(log, idempotent(number), leader_epoch=number // 9)
        if number % 5 == 0:
            append(log, idempotent(number // 5, producer_id=9, transactional=True), leader_epoch=number // 9)
            end(log, commit=number % 10 == 0, producer_id=9, leader_epoch=number // 9)
    values = {record.offset: record.value for record in read_all(log)}
    aborted = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, log.log_end_offset)]
    assert aborted
    if request.param == "stopped":
        manager.close(T0)
    else:
        for task in manager.checkpoint_tasks():
            task.run()
        log.close_files()
        manager.unlock()
    batches = [
        Place(path.name, position, header)
        for path in sorted(root.glob("orders-0/*.log"))
        for position, header in iter_batches(path.read_bytes())
    ]
    return Original(root, values, batches, max(values) + 1, aborted)


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def opened(log_dir: Path) -> tuple[LogManager, PartitionLog]:
    manager = LogManager([str(log_dir)])
    manager.lock()
    manager.load(lambda topic: CONFIG, T0)
    assert manager.directories[0].is_online
    assert not manager.unopened.refused
    log = manager.open("orders", 0)
    assert log is not None
    return manager, log


def goes_on(log: PartitionLog) -> None:
    before = log.log_end_offset
    assert append(log, batch(b"next"), leader_epoch=9) == before
    assert read_all(log, before)[0].value == b"next"


def is_clean(log_dir: Path) -> bool:
    return (log_dir / ".kafka_cleanshutdown").exists()


def after(one: Place, other: Place) -> bool:
    return (one.file, one.position) > (other.file, other.position)


def test_flipped_bits_under_the_checksum(original: Original, tmp_path: Path) -> None:
    """`pybroker verify` names the batch. R4 after a kill: the log ends before it, and the rest is kept. R3 after a
    stop: no check.
    """
    random = Random(1)
    for _ in range(scaled(8)):
        log_dir = original.copy(tmp_path / "logs")
        place = random.choice(original.batches)
        offset_in_batch = random.randrange(UNCOVERED.stop, place.header.size_bytes)
        flip(log_dir / "orders-0" / place.file, place.position + offset_in_batch, random.randrange(8))
        named = [(found.path, found.position) for found in check_directory(str(log_dir)) if found.loses_records]
        assert (str(log_dir / "orders-0" / place.file), place.position) in named
        killed = not is_clean(log_dir)
        manager, log = opened(log_dir)
        if killed:
            lost = [each for each in original.batches if each.header.base_offset >= place.header.base_offset]
            found = {record.offset: record.value for record in check_rules(log)}
            first = place.header.base_offset
            assert found == {offset: value for offset, value in original.values.items() if offset < first}
            assert log.log_end_offset == place.header.base_offset
            assert sum(cut.size_bytes for cut in manager.cuts) == sum(each.header.size_bytes for each in lost)
            assert sum(path.stat().st_size for path in log_dir.glob("orders-0/*.corrupt")) >= place.header.size_bytes
            assert all(str(cut.position) in str(cut) and cut.path in str(cut) for cut in manager.cuts)
        else:
            assert log.log_end_offset == original.end
            # Another last offset hides what comes after it; a consumer finds the wrong checksum there.
            in_header = offset_in_batch < HEADER_SIZE
            others = [each for each in original.batches if each != place and not (in_header and after(each, place))]
            for each in others:
                [*records] = read_all(log, each.header.base_offset, each.header.next_offset)
                assert [record.value for record in records] == [
                    original.values[offset] for offset in range(each.header.base_offset, each.header.next_offset)
                ]
        goes_on(log)
        manager.close(T0)


def test_flipped_bits_outside_the_checksum(original: Original, tmp_path: Path) -> None:
    """Base offset, length, leader epoch, magic: the log stays readable, and no used offset is reused below the
    remaining records.
    """
    random = Random(2)
    for _ in range(scaled(8)):
        log_dir = original.copy(tmp_path / "logs")
        place = random.choice(original.batches)
        flip(
            log_dir / "orders-0" / place.file,
            place.position + random.choice(UNCOVERED),
            random.randrange(8),
        )
        killed = not is_clean(log_dir)
        manager, log = opened(log_dir)
        if killed:
            check_rules(log)
        else:
            assert log.log_end_offset >= place.header.base_offset
        readable = readable_values(log)
        assert set(readable.values()) <= set(original.values.values()), "nothing is made up"
        for earlier in original.batches:
            if after(place, earlier):
                assert earlier.header.last_offset in readable, "records before the damage are readable"
        end_offset = log.log_end_offset
        goes_on(log)
        manager.close(T0)
        manager, log = opened(log_dir)
        assert log.log_end_offset > end_offset, "offsets never go back"
        manager.close(T0)


def readable_values(log: PartitionLog) -> dict[int, bytes | None]:
    """Return the records of consumers that skip unreadable ones. Offsets increase."""
    found: dict[int, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        before = offset
        with suppress(RecordsError, CorruptFile):
            part = log.read(offset, 4096, log.log_end_offset)
            for record in iter_records(part if isinstance(part, bytes) else part.read()):
                if record.offset >= offset:
                    found[record.offset] = record.value
                    offset = record.offset + 1
        offset = max(offset, before + 1)
    return found


@pytest.mark.parametrize("kind", [*SUFFIXES, *SMALL])
def test_flipped_bits_in_derived_files(kind: str, original: Original, tmp_path: Path) -> None:
    """R6, D2: indexes, snapshots, epochs, checkpoints, the topic id. All records are read as before."""
    random = Random(kind)
    pattern = f"orders-0/*.{kind}" if kind in SUFFIXES else f"**/{kind}"
    for _ in range(scaled(2)):
        log_dir = original.copy(tmp_path / "logs")
        paths = [path for path in sorted(log_dir.glob(pattern)) if path.stat().st_size]
        path = random.choice(paths)
        place = random.randrange(path.stat().st_size), random.randrange(8)
        print(f"{path.relative_to(log_dir)}: bit {place[1]} of byte {place[0]}")
        flip(path, *place)
        manager, log = opened(log_dir)
        found = {record.offset: record.value for record in check_rules(log)}
        assert found == original.values
        assert log.log_end_offset == original.end
        aborted = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, original.end)]
        assert aborted == original.aborted
        assert not manager.cuts
        goes_on(log)
        manager.close(T0)
