"""The same damaged directory after a kill: pybroker and Apache Kafka recover the same records.

Each partition of the topic has other damage: a flipped bit under a checksum, a cut-off end, zeros, garbage after the
end, damaged indexes, snapshots, epochs.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from protocol.records.batch import iter_batches
from tests.fault.written_directory import TOPIC, write
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.damage import empty, garble, halve, remove, zero
from tests.support.data_client import DataClient, Refused
from tests.support.eventually import eventually
from tests.support.scale import scaled

#: base offset, length, leader epoch, magic: not covered by the checksum of a batch
_UNCOVERED = 17

Damage = Callable[[Path, random.Random], None]


def _batch(path: Path, dice: random.Random) -> tuple[int, int]:
    """Return where a random batch of a segment file begins, and its size."""
    places = [(position, header.size_bytes) for position, header in iter_batches(path.read_bytes())]
    return dice.choice(places)


def _log(partition: Path, dice: random.Random) -> Path:
    return dice.choice([path for path in sorted(partition.glob("*.log")) if path.stat().st_size])


def flip_covered_bit(partition: Path, dice: random.Random) -> None:
    path = _log(partition, dice)
    position, size = _batch(path, dice)
    data = bytearray(path.read_bytes())
    data[position + dice.randrange(_UNCOVERED, size)] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def cut_end(partition: Path, dice: random.Random) -> None:
    path = _log(partition, dice)
    position, size = _batch(path, dice)
    path.write_bytes(path.read_bytes()[: position + dice.randrange(1, size)])


def zero_batch(partition: Path, dice: random.Random) -> None:
    path = _log(partition, dice)
    position, size = _batch(path, dice)
    data = bytearray(path.read_bytes())
    data[position : position + size] = bytes(size)
    path.write_bytes(data)


def garbage_behind(partition: Path, dice: random.Random) -> None:
    path = max(partition.glob("*.log"))
    path.write_bytes(path.read_bytes() + dice.randbytes(dice.randrange(1, 3000)))


def damage_derived(partition: Path, dice: random.Random) -> None:
    for suffix in ("index", "timeindex", "snapshot"):
        dice.choice([remove, empty, halve, zero, garble])(dice.choice(sorted(partition.glob(f"*.{suffix}"))))


DAMAGES: list[Damage] = [flip_covered_bit, flip_covered_bit, cut_end, zero_batch, garbage_behind, damage_derived]
PARTITIONS = min(120, scaled(12))


def left(kind: type[RunningBroker], directory: Path) -> list[tuple[int, int, list[tuple[int, int, bytes | None]]]]:
    """Return bounds and records of each partition after the broker's recovery."""
    broker = kind(directory)
    try:
        with DataClient(HOST, broker.port) as client:
            wait_for_leaders(client)
            return [
                (
                    *client.bounds(TOPIC, partition),
                    [
                        (record.offset, record.timestamp, record.value and bytes(record.value))
                        for record in client.read_all(TOPIC, partition)
                    ],
                )
                for partition in range(PARTITIONS)
            ]
    finally:
        broker.kill()


def wait_for_leaders(client: DataClient) -> None:
    """Wait for leaders: Apache Kafka answers earlier."""
    for partition in range(PARTITIONS):
        eventually(partial(client.bounds, TOPIC, partition), retried=Refused)


def test_both_recover_the_same_from_a_damaged_directory(tmp_path: Path) -> None:
    """R4: recovery truncates where Apache Kafka does."""
    written = write(tmp_path / "ours", PARTITIONS, clean=False)
    dice = random.Random(1)
    damages = [DAMAGES[partition % len(DAMAGES)] for partition in range(PARTITIONS)]
    for partition, damage in enumerate(damages):
        damage(written.log_dir / f"{TOPIC}-{partition}", dice)
    shutil.copytree(written.log_dir, tmp_path / "kafka/logs")
    ours, kafka = left(OurBroker, tmp_path / "ours"), left(KafkaBroker, tmp_path / "kafka")
    for damage, mine, theirs in zip(damages, ours, kafka, strict=True):
        assert mine[:2] == theirs[:2], damage.__name__
        assert mine[2] == theirs[2], damage.__name__
    assert any(end < len(written.records) for _, end, _ in ours)
