"""kafka-dump-log of Apache Kafka 4.3.1 reads our segments, indexes, snapshots and metadata without a complaint.

After a clean stop, after a kill, and after the recovery that follows it. The tool creates missing indexes, and so
always gets a copy.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.records.compression import Codec
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.dump_log import dump_with_both, files_to_dump
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.support.tools import MAIN_CLASSES

COMPLAINTS = re.compile(
    r"mismatch|out of order|non-consecutive|invalid bytes|isvalid: false|error|skipping|failed|could not|exception",
    re.IGNORECASE,
)
# for each segment but the first, also of Apache Kafka's own
ALWAYS_SAID = re.compile(r"Non-consecutive offsets in \S+/0*(\d+)\.log\n  -1 is followed by \1\n")
ROLLS = {"internal.segment.bytes": 16 * 1024, "index.interval.bytes": 512, "segment.index.bytes": 1200}
BATCHES = min(200, scaled(40))
GROUP = "readers"


def values_of(number: int) -> list[bytes]:
    """Return the values of a batch: one to twenty, short and long, which no codec makes much smaller."""
    dice = random.Random(number)
    return [b"%d:" % each + dice.randbytes(number * each % 250).hex().encode() for each in range(1 + number % 20)]


def write(client: DataClient, codec: Codec, begin: int, producer_id: int) -> None:
    """Write more batches, every other one of an idempotent producer."""
    sequence = sum(len(values_of(number)) for number in range(0, begin, 2))
    for number in range(begin, begin + BATCHES):
        values = values_of(number)
        header: dict[str, int] = {}
        if number % 2 == 0:
            header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            sequence += len(values)
        client.produce(codec.name.lower(), batch(*values, codec=codec, key=b"key-%d" % number, **header))


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return copies of one log directory at several times, and how many batches each topic had."""
    home = tmp_path_factory.mktemp("dumped")
    copies: dict[str, Path] = {}

    def keep(name: str) -> None:
        copies[name] = home / name
        shutil.copytree(broker.log_dir, copies[name])

    with OurBroker(home / "broker") as broker:
        with DataClient(HOST, broker.port) as client:
            for codec in Codec:
                client.create_topic(codec.name.lower(), 1, ROLLS)
            client.create_topic("stamped", 1, {**ROLLS, "message.timestamp.type": "LogAppendTime"})
            client.create_topic("gone", 3)
            client.set_topic_config("gone", "retention.ms", "1000")
            client.delete_topic("gone")
            client.find_coordinator(GROUP)
            producer_id = client.new_producer_id()
            for codec in Codec:
                write(client, codec, 0, producer_id)
            for number in range(BATCHES):
                client.produce("stamped", batch(*values_of(number), codec=number % 5))
            client.commit(GROUP, {("none", 0): 3})
            client.delete_records("none", 0, 25)
        broker.kill()
        keep("killed")
        broker.start()
        keep("recovered")
        with DataClient(HOST, broker.port) as client:
            for codec in Codec:
                write(client, codec, BATCHES, producer_id)
            client.commit(GROUP, {("none", 0): 4})
        assert broker.stop() == 0
        keep("stopped")
    return copies


@pytest.fixture(params=["killed", "recovered", "stopped"])
def stage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Dump = Callable[..., str]


@pytest.fixture
def dump(java: JavaRunner) -> Dump:
    """Return a function that runs the tool on files and fails on a complaint."""

    def run(paths: Iterator[Path] | list[Path], *arguments: str) -> str:
        files = ",".join(str(path) for path in sorted(paths))
        assert files
        done = java.run(MAIN_CLASSES["kafka-dump-log"], *arguments, "--files", files)
        assert (done.exit_code, ALWAYS_SAID.sub("", done.stderr)) == (0, "")
        complaint = COMPLAINTS.search(re.sub(r"payload: .*", "", done.stdout))
        assert complaint is None, done.stdout[max(0, complaint.start() - 1000) : complaint.end() + 1000]
        return done.stdout

    return run


@pytest.mark.parametrize("codec", Codec)
def test_segments(codec: Codec, stage: str, stages: dict[str, Path], dump: Dump) -> None:
    """S25.9, S25.12: every record is there with the value that was sent, over several segments; batches are valid."""
    topic = codec.name.lower()
    segments = list((stages[stage] / f"{topic}-0").glob("*.log"))
    assert len(segments) > 1
    told = dump(segments, "--deep-iteration", "--print-data-log")
    count = BATCHES * (2 if stage == "stopped" else 1)
    expected = [value.decode() for number in range(count) for value in values_of(number)]
    found = re.findall(r"^\| offset: (\d+) .* key: key-\d+ payload: (.*)$", told, re.MULTILINE)
    assert [int(offset) for offset, _ in found] == list(range(len(expected)))
    assert [payload for _, payload in found] == expected
    assert told.count(f"compresscodec: {topic} ") == told.count("isvalid: true") == count


def test_log_append_time(stage: str, stages: dict[str, Path], dump: Dump) -> None:
    """All records of a batch have the time at which it was appended."""
    told = dump((stages[stage] / "stamped-0").glob("*.log"), "--deep-iteration")
    assert told.count("LogAppendTime: ") >= told.count("isvalid: true") == BATCHES
    assert "CreateTime: " not in told


def complete(log_dir: Path, stage: str) -> list[Path]:
    """Return the complete indexes of the partitions 0: of a killed broker, all but the last segments'."""
    found = []
    for directory in log_dir.glob("*-0"):
        last = max(path.stem for path in directory.glob("*.log"))
        found += [path for path in directory.glob("*index") if stage != "killed" or path.stem != last]
    return found


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
def test_indexes(check: str, stage: str, stages: dict[str, Path], dump: Dump, tmp_path: Path) -> None:
    """S25.10, S25.11: each entry points at its batch. Indexes of a killed broker's active segment lack some entries."""
    shutil.copytree(stages[stage], tmp_path / "copy")
    indexes = complete(tmp_path / "copy", stage)
    assert len(indexes) > 30
    told = dump(indexes, check)
    if check == "--index-sanity-check":
        assert told.count(" passed sanity check.") + told.count(" is empty.") == len(indexes)


def test_indexes_with_their_entries(stage: str, stages: dict[str, Path], dump: Dump, tmp_path: Path) -> None:
    """The dump includes offset and timestamp of each entry, which --verify-index-only leaves out."""
    shutil.copytree(stages[stage], tmp_path / "copy")
    told = dump([path for path in complete(tmp_path / "copy", stage) if path.parent.name == "none-0"])
    assert "timestamp: " in told
    assert "offset: " in told


def test_producer_snapshots(stages: dict[str, Path], dump: Dump) -> None:
    """The last one knows the producer's last sequence."""
    snapshots = sorted((stages["stopped"] / "none-0").glob("*.snapshot"))
    told = dump(snapshots)
    last = sum(len(values_of(number)) for number in range(0, 2 * BATCHES, 2)) - 1
    assert f"lastSequence: {last} " in told.rpartition("Dumping")[2]


def test_cluster_metadata(stage: str, stages: dict[str, Path], dump: Dump) -> None:
    """Kafka knows every record, in the log and in snapshots."""
    log = stages[stage] / "__cluster_metadata-0"
    told = dump(log.glob("*.log"), "--cluster-metadata-decoder", "--deep-iteration")
    records = [json.loads(payload) for payload in re.findall(r" payload: (\{.*\})$", told, re.MULTILINE)]
    kinds = [record["type"] for record in records]
    topics = {record["data"]["name"] for record in records if record["type"] == "TOPIC_RECORD"}
    assert topics >= {codec.name.lower() for codec in Codec} | {"stamped", "gone", "__consumer_offsets"}
    assert {"FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "PARTITION_RECORD", "REMOVE_TOPIC_RECORD"} <= set(kinds)
    assert {"CONFIG_RECORD", "PRODUCER_IDS_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"} <= set(kinds)
    assert kinds.count("REGISTER_BROKER_RECORD") == (1 if stage == "killed" else 2)
    assert "LeaderChange" in told
    snapshots = list(log.glob("*.checkpoint"))
    assert "KRaftVersion" in dump(snapshots, "--cluster-metadata-decoder")


def test_consumer_offsets(stage: str, stages: dict[str, Path], dump: Dump) -> None:
    """Commits with their group, topic and partition."""
    logs = [path for path in stages[stage].glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    told = dump(logs, "--offsets-decoder", "--deep-iteration")
    commits = re.findall(r" key: (\{.*\}) payload: (\{.*\})$", told, re.MULTILINE)
    assert [json.loads(key)["data"] for key, _ in commits] == [
        {"group": GROUP, "topic": "none", "partition": 0} for _ in commits
    ]
    offsets = [json.loads(payload)["data"]["offset"] for _, payload in commits]
    assert offsets == ([3, 4] if stage == "stopped" else [3])


def test_our_tool_prints_the_same(stage: str, stages: dict[str, Path], java: JavaRunner, tmp_path: Path) -> None:
    """All files of all partitions, the indexes of a killed broker's last segments among them."""
    for directory in sorted(stages[stage].glob("*-0")):
        copy = shutil.copytree(directory, tmp_path / directory.name)
        for files in files_to_dump(Path(copy)):
            assert dump_with_both(java, "--files", files, "--print-data-log")
    for name, decoder in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__cluster_metadata", "--cluster-metadata-decoder"),
    ):
        logs = [path for path in stages[stage].glob(f"{name}-*/*.log") if path.stat().st_size]
        assert '"data":{' in dump_with_both(java, "--files", ",".join(map(str, sorted(logs))), decoder)
    for snapshot in (stages[stage] / "__cluster_metadata-0").glob("*.checkpoint"):
        assert "KRaftVersion" in dump_with_both(java, "--files", str(snapshot), "--cluster-metadata-decoder")
