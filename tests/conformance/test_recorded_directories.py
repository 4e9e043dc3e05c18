"""Log directories of real brokers, opened by ours: clients get every batch exactly as stored.

Deliberately damaged directories of killed brokers recover to the same files as under Apache Kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.records.batch import entry_at, parse_header
from storage.checkpoints import CLEAN_SHUTDOWN, LOG_START_OFFSETS, PARTITION_METADATA, read_offsets
from storage.fs import LOCAL
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.dump_log import LOGS

SETS = sorted(path.name for path in LOGS.iterdir() if path.is_dir())
#: The result of Apache Kafka's own recovery of a set.
RECOVERED = {
    "v4.3.1-unclean-1-killed": None,  # intact except for its clean-shutdown mark
    "v4.3.1-unclean-2-damaged": "v4.3.1-unclean-3-recovered",
    "v4.3.1-unclean-crc-1-killed": None,
    "v4.3.1-unclean-crc-2-damaged": "v4.3.1-unclean-crc-3-recovered",
}
#: The topic configurations of recorded sets; those with a metadata log contain them.
CONFIGS = {"index.interval.bytes": "100", "internal.segment.bytes": "3000", "retention.ms": "-1"}


def partitions(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.glob("*-[0-9]*") if path.is_dir() and path.name != "__cluster_metadata-0")


def configs(topic: str) -> dict[str, str]:
    found = dict(CONFIGS)
    if "unclean" in topic:
        found["segment.index.bytes"] = "512"
    if "compacted" in topic:
        found |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}
    return found


def taken_over(source: Path, directory: Path) -> OurBroker:
    """Start our broker on a copy of a recorded set; without a metadata log, create the topics of its partitions."""
    if (source / "__cluster_metadata-0").exists():
        shutil.copytree(source, directory / "logs")
        return OurBroker(directory)
    broker = OurBroker(directory)
    try:
        with DataClient(HOST, broker.port) as client:
            for path in partitions(source):
                topic = path.name.rpartition("-")[0]
                client.create_topic(topic, 1, configs(topic))
        assert broker.stop() == 0
        for path in partitions(source):
            metadata = (broker.log_dir / path.name / PARTITION_METADATA).read_bytes()
            shutil.rmtree(broker.log_dir / path.name)
            shutil.copytree(path, broker.log_dir / path.name)
            (broker.log_dir / path.name / PARTITION_METADATA).write_bytes(metadata)
        for checkpoint in source.glob("*-checkpoint"):
            shutil.copy(checkpoint, broker.log_dir)
        if not (source / CLEAN_SHUTDOWN).exists():
            (broker.log_dir / CLEAN_SHUTDOWN).unlink()
        broker.start()
    except BaseException:
        broker.kill()
        raise
    return broker


def entries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (next offset, bytes) of each whole batch, or message of an old format."""
    position = 0
    while (entry := entry_at(data, position)) is not None:
        offset, size, magic = entry
        piece = data[position : position + size]
        yield parse_header(piece).next_offset if magic == 2 else offset + 1, piece
        position += size


def written(directory: Path, start_offset: int) -> list[bytes]:
    """Return the content of the segments from an offset on."""
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return [piece for next_offset, piece in entries(data) if next_offset > start_offset]


def served(client: DataClient, topic: str, partition: int) -> list[bytes]:
    """Return all batches that a client gets, from the first offset to the last."""
    offset, end = client.bounds(topic, partition)
    found: list[bytes] = []
    while offset < end:
        some = list(entries(bytes(client.fetch(topic, offset, partition, max_bytes=5000).records)))
        if not some:  # the end of a compacted log may be a gap
            break
        found += [piece for _, piece in some]
        offset = some[-1][0]
    return found


@pytest.fixture(params=SETS)
def recorded(request: pytest.FixtureRequest) -> Path:
    return LOGS / str(request.param)


def test_all_stored_records_are_served(recorded: Path, tmp_path: Path) -> None:
    """Bytes, offsets and ends; damaged logs as Apache Kafka recovers them."""
    expected = LOGS / (RECOVERED.get(recorded.name) or recorded.name)
    starts = read_offsets(LOCAL, str(expected / LOG_START_OFFSETS))
    broker = taken_over(recorded, tmp_path / "broker")
    try:
        with DataClient(HOST, broker.port) as client:
            for path in partitions(expected):
                topic, _, number = path.name.rpartition("-")
                index = int(number)
                segments = sorted(int(segment.stem) for segment in path.glob("*.log"))
                start = starts.get((topic, index), segments[0])
                pieces = written(path, start)
                assert served(client, topic, index) == pieces, path.name
                whole = written(path, 0)
                end = next(entries(whole[-1]))[0] if whole else segments[-1]
                assert client.bounds(topic, index) == (start, end), path.name
        assert broker.stop() == 0
        if RECOVERED.get(recorded.name):
            for path in partitions(expected):
                compare_files(broker.log_dir / path.name, path)
    finally:
        broker.kill()


def compare_files(ours: Path, kafka: Path) -> None:
    """Segments and indexes equal Apache Kafka's. Snapshots may or may not have the producers of old records."""
    for pattern in ("*.log", "*.index", "*.timeindex", "*.txnindex"):
        found = {path.name: path.read_bytes() for path in ours.glob(pattern)}
        assert found == {path.name: path.read_bytes() for path in kafka.glob(pattern)}, pattern
