"""Any call of the metadata log to its disk: it fails, it is the last of the process, or the power fails there.

A node creates topics and acknowledges each once its record is forced to the disk. It writes a snapshot, truncates its
log, stops and starts again. In each case the next start knows every acknowledged topic (rule 3 of the controller).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.startup.node import Node, open_node
from config import BrokerConfig, load
from controller.metadata_log import MetadataLogDamaged
from controller.metadata_snapshot import write_snapshot
from metadata.framing import new_record
from metadata.replay import replay_all
from protocol.messages.cluster_metadata import TopicRecord
from storage.errors import StorageError
from storage.fs import LOCAL, FileSystem
from storage.log.retention import expired_segments, remove_segments
from storage.log.tasks import FlushTask
from tests.support.disk_doubles.failing_fs import Died, FailingFileSystem
from tests.support.disk_doubles.power_cut import Disk, Journal, JournalingFileSystem
from tests.support.logs import T0
from tests.support.scale import SCALE, scaled

TOPICS = 6
CALLS = 25
#: At the full size, the number of seeds that lose power at every call.
WHOLE = 3


def config_of(log_dir: Path) -> BrokerConfig:
    return load(
        None,
        overrides={
            "node.id": "1",
            "log.dirs": str(log_dir),
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "internal.metadata.log.segment.bytes": "600",
            "log.index.size.max.bytes": "512",
        },
    )


def lives(log_dir: Path, fs: FileSystem, answer: Callable[[str], None]) -> None:
    """Two lives of a node. The first one ends with a clean stop."""
    for life in range(2):
        node = open_node(config_of(log_dir), T0, fs=fs)
        for number in range(TOPICS):
            make_topic(node, f"topic-{life}-{number}")
            answer(f"topic-{life}-{number}")
            if number == TOPICS // 2:
                cut_log(node, fs)
        if not life:
            node.close(T0)


def make_topic(node: Node, name: str) -> None:
    log = node.metadata_log
    topic_id = Random(name).randbytes(16)
    records = [new_record(node.image.metadata_version, TopicRecord, name=name, topic_id=topic_id)]
    log.append(records, T0)
    replay_all(node.image, records)
    task = FlushTask(log.partition_log, T0, with_active=True)
    task.run()
    task.apply()
    task.check()


def cut_log(node: Node, fs: FileSystem) -> None:
    """Write a snapshot, and delete the files that it replaces."""
    log = node.metadata_log
    prepared = log.prepare_snapshot(node.image, T0)
    assert prepared is not None
    write_snapshot(fs, log.path, *prepared)
    log.partition_log.raise_log_start(prepared[0].end_offset)
    for path in remove_segments(log.partition_log, expired_segments(log.partition_log, T0), T0):
        fs.remove(path)


def check(log_dir: Path, answered: list[str]) -> None:
    """The next start knows all topics, and the node works."""
    node = open_node(config_of(log_dir), T0)
    assert set(answered) <= set(node.image.topics_by_name)
    epoch = node.metadata_log.epoch
    make_topic(node, "next")
    node.close(T0)
    node = open_node(config_of(log_dir), T0)
    assert {*answered, "next"} <= set(node.image.topics_by_name)
    assert node.metadata_log.epoch > epoch, "an epoch is led once"
    node.close(T0)


def some(count: int, seed: int) -> list[int]:
    """Return numbers of calls out of `count`: all of them at the full size."""
    numbers = range(1, count + 1)
    return list(numbers) if SCALE >= 50 else sorted(Random(seed).sample(numbers, min(count, scaled(CALLS))))


def count_calls(log_dir: Path) -> int:
    fs = FailingFileSystem()
    lives(log_dir, fs, lambda name: None)
    return len(fs.calls)


@pytest.mark.parametrize("how", ["dies", "once", "for-good"])
def test_metadata_log_and_any_call(how: str, tmp_path: Path) -> None:
    """Formatting, election, appends, a snapshot, truncation of the log, the stop."""
    for number in some(count_calls(tmp_path / "whole"), len(how)):
        fs = FailingFileSystem(number, code=errno.EIO, broken=how == "for-good", dies=how == "dies")
        answered: list[str] = []
        log_dir = tmp_path / str(number)
        try:
            lives(log_dir, fs, answered.append)
        except (StorageError, MetadataLogDamaged, OSError, Died):
            assert fs.has_failed
        check(log_dir, answered)


@pytest.mark.parametrize("seed", range(min(20, scaled(3))))
def test_metadata_log_and_power_loss(seed: int, tmp_path: Path) -> None:
    """P6 of docs/reference/durability.md: every acknowledged topic is on the disk."""
    journal = Journal()
    live = tmp_path / "live"
    answered: list[tuple[int, str]] = []
    lives(live / "logs", JournalingFileSystem(journal), lambda name: answered.append((len(journal), name)))
    random = Random(seed)
    count = scaled(20) if seed < WHOLE else 20
    moments = set(random.sample(range(len(journal)), min(len(journal), count)))
    disk = Disk(live)
    for moment, call in enumerate(journal.calls):
        if moment in moments:
            disk.cut(tmp_path / "after", random)
            LOCAL.make_directory(str(tmp_path / "after"))
            check(tmp_path / "after/logs", [name for when, name in answered if when <= moment])
        disk.follow(call)
