"""Files are damaged between two lives of a broker: derived files are rebuilt, and no record is lost.

One broker stopped cleanly and another was killed; each left a data directory. Each test damages a copy of one. The
topic has one partition for each kind of file, so that one start sees all of them damaged.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.fault.written_directory import TOPIC, Written, write
from tests.support.brokers import HOST, OurBroker
from tests.support.damage import DAMAGES, Damage
from tests.support.data_client import DataClient
from tests.support.launch import picture, run_broker
from tests.support.ports import free_port
from tests.support.scale import SCALE

Choice = Callable[[Path], Sequence[Path]]


def first(suffix: str) -> Choice:
    """Return the file with that suffix of the oldest segment that has one."""
    return lambda directory: sorted(directory.glob(f"*{suffix}"))[:1]


def last(suffix: str) -> Choice:
    return lambda directory: sorted(directory.glob(f"*{suffix}"))[-1:]


def every(*patterns: str) -> Choice:
    return lambda directory: [path for pattern in patterns for path in directory.glob(pattern)]


# The damage in the partition of the same number: each kind of file alone, all of them, none
TARGETS = [
    first(".index"),
    last(".index"),
    every("*.index"),
    first(".timeindex"),
    last(".timeindex"),
    every("*.timeindex"),
    last(".snapshot"),
    every("*.snapshot"),
    every("leader-epoch-checkpoint"),
    every("partition.metadata"),
    every("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint", "partition.metadata"),
    every(),
]

DIRECTORY_FILES = [
    "*-offset-checkpoint",
    ".kafka_cleanshutdown",
    "bootstrap.checkpoint",
    "__cluster_metadata-0/quorum-state",
    "__cluster_metadata-0/leader-epoch-checkpoint",
    "__cluster_metadata-0/partition.metadata",
    "__cluster_metadata-0/*.checkpoint",
    "__cluster_metadata-0/*index",
    "__cluster_metadata-0/*.snapshot",
    "__consumer_offsets-*/*index",
]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Written]:
    """The directory of the clean stop, and that of the kill."""
    return {
        clean: write(tmp_path_factory.mktemp("clean" if clean else "killed"), len(TARGETS), clean=clean)
        for clean in (True, False)
    }


@pytest.fixture(params=[True, False], ids=["stopped", "killed"])
def written(request: pytest.FixtureRequest, directories: dict[bool, Written], tmp_path: Path) -> Written:
    """Return a copy of one of them, to be damaged."""
    original = directories[request.param]
    shutil.copytree(original.log_dir, tmp_path / "logs")
    mine = copy.deepcopy(original)
    mine.log_dir = tmp_path / "logs"
    return mine


def check(written: Written) -> None:
    """A broker on the directory serves everything. The next broker finds the files that the first one rebuilt."""
    with OurBroker(written.log_dir.parent) as broker:
        with DataClient(HOST, broker.port) as client:
            written.check(client)
        assert broker.stop() == 0
        broker.start()
        with DataClient(HOST, broker.port) as client:
            written.check(client)
        assert "Traceback" not in broker.output


# All at once, as they are independent. The full size also damages each of the directory's files alone.
CHOICES = [DIRECTORY_FILES, *([pattern] for pattern in DIRECTORY_FILES if SCALE >= 10)]


@pytest.mark.parametrize("patterns", CHOICES, ids=lambda patterns: patterns[0] if len(patterns) == 1 else "all")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_lose_nothing(damage: Damage, patterns: list[str], written: Written) -> None:
    """S16.9: indexes, snapshots, epochs and topic ids are rebuilt from records and metadata.

    Checkpoints limit how much a start reads: without them it reads more.
    """
    for partition, choose in enumerate(TARGETS):
        for path in choose(written.log_dir / f"{TOPIC}-{partition}"):
            damage(path)
    for pattern in patterns:
        for path in written.log_dir.glob(pattern):
            damage(path)
    check(written)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_meta_properties_are_refused(damage: Damage, directories: dict[bool, Written], tmp_path: Path) -> None:
    """No other file identifies the owner of the data. As in Kafka, the broker does not start, and changes nothing."""
    log_dir = tmp_path / "logs"
    shutil.copytree(directories[True].log_dir, log_dir)
    damage(log_dir / "meta.properties")
    before = picture(log_dir)
    settings = {"node.id": "1", "listeners": f"PLAINTEXT://{HOST}:{free_port()}", "log.dirs": str(log_dir)}
    ended = run_broker(tmp_path, settings)
    assert ended.exit_code == 1
    assert re.fullmatch(rf"pybroker: {log_dir}: .*meta\.properties.*\n", ended.stderr)
    assert picture(log_dir) == before
