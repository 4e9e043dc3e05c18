"""Producer snapshots: Apache Kafka's bytes, and damage."""

from pathlib import Path

import pytest

from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.producers.snapshot import decode_snapshot, encode_snapshot, read_snapshot, write_snapshot
from storage.producers.state import BatchMetadata, ProducerEntry
from tests.support.dump_log import LOGS

RECORDED = sorted(LOGS.glob("v4*/*/*.snapshot"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.stem}")
def test_recorded_snapshot_reads_and_writes_the_same(path: Path) -> None:
    """Every recorded snapshot."""
    data = path.read_bytes()
    assert encode_snapshot(decode_snapshot(data, str(path))) == data


def test_producers_are_in_the_order_of_a_hash_map() -> None:
    """Kafka writes them in the iteration order of java.util.HashMap."""
    ids = [40, 3, 17, 1, (1 << 40) + 5, 16]
    entries = decode_snapshot(encode_snapshot([ProducerEntry(number, 0) for number in ids]), "x")
    assert [entry.producer_id for entry in entries] == [16, 17, 1, 3, (1 << 40) + 5, 40]
    many = encode_snapshot([ProducerEntry(number, 0) for number in reversed(range(13))])
    assert [entry.producer_id for entry in decode_snapshot(many, "x")] == list(range(13))


def test_last_batch_alone_is_kept(tmp_path: Path) -> None:
    """A producer without batches is known only by its marker."""
    batches = [BatchMetadata(number, 10 + number, 0, 99) for number in range(3)]
    entries = [ProducerEntry(1, 2, 3, 99, 12, batches), ProducerEntry(2, 5, 6, 77)]
    path = str(tmp_path / "x.snapshot")
    write_snapshot(LOCAL, path, entries)
    one, two = read_snapshot(LOCAL, path)
    assert (one.batches, one.transaction_offset, one.complete) == (batches[-1:], 12, False)
    assert (two.batches, two.producer_epoch, two.coordinator_epoch, two.transaction_offset) == ([], 5, 6, -1)


@pytest.mark.parametrize("at", [0, 3, 9, 20, -1])
def test_damaged_snapshot_is_rejected(at: int) -> None:
    """Rule R6: the previous snapshot is used then."""
    data = bytearray(encode_snapshot([ProducerEntry(1, 2, 3, 99)]))
    data[at] ^= 0x40
    with pytest.raises(CorruptFile):
        decode_snapshot(bytes(data), "x")
    with pytest.raises(CorruptFile):
        decode_snapshot(bytes(data[:-1]), "x")
    with pytest.raises(CorruptFile):
        decode_snapshot(b"", "x")
