"""kill -9 at random moments while segments are copied, expire and are deleted: M2 and M4 of tiered/README.md.

After each kill the files alone must have every acknowledged record from the log start on, in one of the tiers, and
after the next start clients read them. In the end nothing is left of what was half copied or half deleted.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from protocol.records.batch import iter_batches
from protocol.records.entries import iter_records
from protocol.records.errors import RecordsError
from storage.checkpoints import LOG_START_OFFSETS
from tests.support.brokers import HOST
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.tiered_brokers import TieredOurs, remote_directory
from tests.support.tiered_client import METADATA_TOPIC, TieredClient, remote_files, remote_starts
from tiered.metadata_records import decode
from tiered.segment import RemoteSegment, SegmentState
from tiered.segments import RemoteSegments

TOPIC = "t"
KILLS = min(40, scaled(5))
STEPS = 8
#: Ten records in five batches.
SEGMENT_BYTES = 2000
PROPERTIES = {
    "remote.log.manager.task.interval.ms": "20",
    "remote.log.manager.task.retry.backoff.ms": "10",
    "log.retention.check.interval.ms": "20",
    "log.initial.task.delay.ms": "10",
    "log.flush.offset.checkpoint.interval.ms": "30",
    "log.flush.start.offset.checkpoint.interval.ms": "30",
}
CONFIGS = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": SEGMENT_BYTES,
    "retention.ms": "-1",
    "retention.bytes": 20 * SEGMENT_BYTES,
    "local.retention.bytes": 1,
}


def readable(path: Path) -> dict[int, bytes]:
    """Return the records in a file of batches by offset, up to a torn one."""
    found: dict[int, bytes] = {}
    data = path.read_bytes()
    try:
        for position, header in iter_batches(data):
            piece = data[position : position + header.size_bytes]
            found |= {record.offset: bytes(record.value or b"") for record in iter_records(piece)}
    except RecordsError:
        pass
    return found


class Disk:
    """The content of the files of a killed broker."""

    def __init__(self, broker: TieredOurs) -> None:
        self.remote = remote_directory(broker.directory / "remote")
        self._logs = broker.log_dir

    def log_start(self) -> int:
        """Return the log start that is on the disk, without which a start begins at offset 0."""
        path = self._logs / LOG_START_OFFSETS
        rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
        return next((int(offset) for topic, _, offset in rows if topic == TOPIC), 0)

    def segments(self) -> RemoteSegments:
        """Return the remote segments by the records of the metadata."""
        found = RemoteSegments()
        for path in sorted(self._logs.glob(f"{METADATA_TOPIC}-*/*.log")):
            for record in iter_records(path.read_bytes()):
                assert record.value is not None
                _, event = decode(record.value)
                if isinstance(event, RemoteSegment):
                    found.add(event)
                else:
                    found.update(event)  # type: ignore[arg-type]
        return found

    def records(self) -> dict[int, bytes]:
        """Return the records of finished copies and of local segments."""
        finished = {each.start_offset for each in self.segments() if each.state is SegmentState.COPY_FINISHED}
        found: dict[int, bytes] = {}
        for name, path in _remote_logs(self.remote).items():
            if name in finished:
                found |= readable(path)
        for path in (self._logs / f"{TOPIC}-0").glob("*.log"):
            found |= readable(path)
        return found


def _remote_logs(remote: Path) -> dict[int, Path]:
    files = {path.name: path for folder in remote.glob(f"{TOPIC}-0-*") for path in folder.glob("*.log")}
    return {int(name[:20]): path for name, path in sorted(files.items())}


class Load:
    """Random steps of clients, and what was acknowledged."""

    def __init__(self, broker: TieredOurs, rng: random.Random) -> None:
        self._broker, self._rng = broker, rng
        self.values: list[bytes] = []

    def run(self) -> None:
        """Take some steps."""
        steps = (self._write, self._write, self._write, self._pause, self._delete, self._retain)
        with DataClient(HOST, self._broker.port) as client:
            for _ in range(STEPS):
                self._rng.choice(steps)(client)

    def write(self, client: DataClient, count: int) -> None:
        for _ in range(count):
            values = [b"%d" % (len(self.values) + number) + b"x" * 150 for number in range(2)]
            assert client.produce(TOPIC, batch(*values)) == len(self.values)
            self.values += values

    def _write(self, client: DataClient) -> None:
        self.write(client, self._rng.randrange(1, 25))

    def _pause(self, client: DataClient) -> None:
        time.sleep(self._rng.random() / 5)

    def _delete(self, client: DataClient) -> None:
        start, end = client.bounds(TOPIC)
        try:
            client.delete_records(TOPIC, 0, self._rng.randrange(start, min(end, start + 30) + 1))
        except Refused:  # retention was faster
            assert client.bounds(TOPIC)[0] > start

    def _retain(self, client: DataClient) -> None:
        client.set_topic_config(TOPIC, "retention.bytes", str(self._rng.randrange(4, 20) * SEGMENT_BYTES))


@pytest.mark.parametrize("seed", range(min(20, scaled(1))))
def test_kill_while_segments_move_between_tiers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with TieredOurs(tmp_path / "broker", PROPERTIES) as broker:
        load, disk = Load(broker, rng), Disk(broker)
        with DataClient(HOST, broker.port) as client:
            client.create_topic(TOPIC, 1, CONFIGS)
        for kill in range(KILLS):
            load.run()
            with DataClient(HOST, broker.port) as client:
                before = client.bounds(TOPIC)[0]
            broker.kill()
            start, found = disk.log_start(), disk.records()
            missing = [offset for offset in range(start, len(load.values)) if found.get(offset) != load.values[offset]]
            assert not missing, f"kill {kill}: offsets {missing[:3]}... from the log start {start} on are lost"
            broker.start()
            with DataClient(HOST, broker.port) as client:
                after, end = client.bounds(TOPIC)
                assert (start <= after, end) == (True, len(load.values)), f"kill {kill}: before it {before}"
            # a read fails if its records expire meanwhile
            eventually(lambda: _reads_all(broker, load.values), f"all values after kill {kill}", retried=AssertionError)
        with DataClient(HOST, broker.port) as client:
            load.write(client, 10)
            client.set_topic_config(TOPIC, "retention.bytes", str(5 * SEGMENT_BYTES))
        eventually(lambda: _is_tidy(disk), lambda: f"{list(disk.segments())}, {remote_starts(disk.remote, TOPIC)}")


def _reads_all(broker: TieredOurs, values: list[bytes]) -> bool:
    """Return whether a client gets these values from the log start on."""
    with TieredClient(HOST, broker.port) as client:
        found = client.read_all(TOPIC)
    return [bytes(each.value or b"") for each in found] == values[len(values) - len(found) :]


def _is_tidy(disk: Disk) -> bool:
    """Return whether all copies are finished, and there are no other files; some are being deleted until then."""
    segments = list(disk.segments())
    try:
        remote = remote_files(disk.remote, TOPIC)
    except (OSError, AssertionError):
        return False
    logs = {int(name.removesuffix(".log")) for name in remote if name.endswith(".log")}
    others = {int(name.partition(".")[0]) for name in remote}
    finished = {each.start_offset for each in segments if each.state is SegmentState.COPY_FINISHED}
    return len(finished) == len(segments) and logs == finished == others
