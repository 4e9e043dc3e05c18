"""The same requests to pybroker and to Apache Kafka: the same answers, and finally the same log directories.

Scripts are random, from a seed, or cover a special case. Where answers differ, the shortest script that shows it is
printed. Files are compared byte for byte, after a clean stop and after a kill; `differences` names the
exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.records.compression import Codec
from storage.fs import LOCAL
from storage.producers.snapshot import encode_snapshot, read_snapshot
from tests.support.batch_values import comparable_batches
from tests.support.brokers import KafkaBroker, OurBroker
from tests.support.scale import scaled
from tests.support.script_steps import OLD_MS, PROPERTIES, Append, Produce, Sequenced, Step
from tests.support.scripts import Script, Twins, generate

# ids differ, and the clock decides when deleted files disappear
_LEFT_OUT = ("partition.metadata", ".deleted")
# these depend on LogAppendTime, compressors, or index.interval.bytes
_OF_TIME = (".timeindex", ".snapshot")
_OF_SIZE = (".index", ".timeindex")
_LEADER_EPOCHS = "leader-epoch-checkpoint"


def partition_files(log_dir: Path, topic: str) -> dict[str, Path]:
    """Return the files of a topic's partitions by name, `partition directory/file`."""
    found = {}
    for directory in log_dir.glob(f"{topic}-*"):
        name, _, index = directory.name.rpartition("-")
        if name == topic and index.isdigit():
            for path in directory.iterdir():
                if not path.name.endswith(_LEFT_OUT):
                    found[f"{directory.name}/{path.name}"] = path
    return found


def differences(ours: Path, kafka: Path, script: Script, *, killed: bool = False) -> Iterator[str]:
    """Yield the differences between the partitions of a script's topic, a line each; both brokers are stopped.

    `killed`: at some time before. A kill costs Kafka's partitions two leader epochs and ours one. It rebuilds the last
    index with the current index.interval.bytes, and our broker may know more producers (docs/decisions/interchange.md).
    """
    topic = script.name
    left, right = partition_files(ours, topic), partition_files(kafka, topic)
    if left.keys() != right.keys():
        yield f"{topic}: only ours {sorted(left.keys() - right)}, only Kafka's {sorted(right.keys() - left)}"
    anew = script.reencoded or (killed and script.changes_index_interval)
    excepted = (_OF_SIZE if anew else ()) + (_OF_TIME if script.stamped else ())
    for name in sorted(left.keys() & right.keys()):
        if name.endswith(excepted):
            continue
        mine, theirs = left[name].read_bytes(), right[name].read_bytes()
        if name.endswith(".log") and (script.reencoded or script.stamped):
            batches, others = (comparable_batches(data, reencoded=script.reencoded) for data in (mine, theirs))
            if batches != others:
                yield f"{name}: {batches} and {others}"
        elif killed and name.endswith(_LEADER_EPOCHS):
            if _start_offsets(mine) != _start_offsets(theirs):
                yield f"{name}: {mine!r} and {theirs!r}"
        elif killed and name.endswith(".snapshot"):
            if not _producers(right[name]).items() <= _producers(left[name]).items():
                yield f"{name}: Apache Kafka knows other producers"
        elif mine != theirs:
            yield f"{name}: {len(mine)} and {len(theirs)} bytes, the first other one at {_first_other(mine, theirs)}"


def _producers(snapshot: Path) -> dict[int, bytes]:
    return {entry.producer_id: encode_snapshot([entry]) for entry in read_snapshot(LOCAL, str(snapshot))}


def _start_offsets(epochs: bytes) -> list[bytes]:
    """Return the start offsets of a leader-epoch-checkpoint, a line for each epoch."""
    return [line.split()[1] for line in epochs.splitlines()[2:]]


def _first_other(left: bytes, right: bytes) -> int:
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return position
    return min(len(left), len(right))


SEEDS = min(scaled(20), 300)
STEPS = 60
COMPRESSION_TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    home = tmp_path_factory.mktemp("twins")
    with OurBroker(home / "ours", PROPERTIES) as ours, KafkaBroker(home / "kafka", PROPERTIES) as kafka:
        yield Twins(ours, kafka)


def written(name: str, codec: Codec, configs: dict[str, str]) -> Script:
    """Write batches of one record to eighty, small and large, every other one of an idempotent producer."""
    steps: list[Step] = []
    sequence = 0
    for number in range(90):
        count = (1, 3, 20, 80)[number % 4]
        sequenced = None
        if number % 2:
            sequenced = Sequenced(0, 0, sequence)
            sequence += count
        times = tuple(OLD_MS + 700 * number + 10 * record - (5000 if number % 9 == 8 else 0) for record in range(count))
        steps.append(Produce((Append(0, count, 10 + 13 * number, codec.value, times, number, sequenced=sequenced),)))
    return Script(name, 1, configs, tuple(steps), reencoded="compression.type" in configs)


@pytest.mark.parametrize("codec", Codec)
def test_batches_compressed_by_clients_give_the_same_segments(codec: Codec, twins: Twins) -> None:
    """S3.1-S3.3, S4.2: rolled by size and by time, with dense indexes; a later test compares all files."""
    configs = {"internal.segment.bytes": "60000", "segment.ms": "30000", "index.interval.bytes": "500"}
    assert twins.compare(written(f"sent-{codec.name.lower()}", codec, configs)) is None


@pytest.mark.parametrize("compression_type", COMPRESSION_TYPES)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_batches_compressed_by_the_broker_have_equal_records(codec: Codec, compression_type: str, twins: Twins) -> None:
    """Records, offsets and attributes; compressors may differ in bytes."""
    name = f"made-{compression_type}-of-{codec.name.lower()}"
    assert twins.compare(written(name, codec, {"compression.type": compression_type})) is None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_scripts_are_answered_alike(seed: int, twins: Twins) -> None:
    """Produce, also of spoiled batches, Fetch, ListOffsets, DeleteRecords, DescribeProducers, OffsetForLeaderEpoch;
    more partitions, other settings, retention, recreated topics.
    """
    difference = twins.compare(generate(seed, STEPS))
    assert difference is None, f"seed {seed}: {difference}"


@pytest.fixture(scope="module")
def some_script(twins: Twins) -> None:
    """Run a script if none ran, so that a test of directories can run alone."""
    if not twins.scripts:
        twins.compare(written("alone", Codec.ZSTD, {"internal.segment.bytes": "20000"}))


def found(twins: Twins, *, killed: bool = False) -> list[str]:
    logs = twins.ours.log_dir, twins.kafka.log_dir
    return [line for script in twins.scripts for line in differences(*logs, script, killed=killed)]


@pytest.mark.usefixtures("some_script")
def test_directories_are_the_same_after_a_clean_stop(twins: Twins) -> None:
    """S3.1-S3.3, S4.2, S5.3: segments, indexes, producer snapshots, leader epochs."""
    twins.await_retention()
    twins.stop()
    assert found(twins) == []


@pytest.mark.usefixtures("some_script")
def test_directories_are_the_same_after_a_kill(twins: Twins) -> None:
    """Both recover to the same logs, and write the same files on the next stop."""
    twins.start()
    more = [generate(seed, STEPS) for seed in range(1000, 1003)]
    assert [twins.compare(script) for script in more] == [None] * len(more)
    twins.await_retention()
    twins.kill()
    twins.start()
    twins.await_retention()
    twins.stop()
    assert found(twins, killed=True) == []
