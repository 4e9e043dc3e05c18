"""Foreign files in a log directory and in a partition's directory, with arbitrary names and contents.

A start uses the data it can trust: all records are there, and other partitions are not affected. If a file is something
else (a directory, a loop of links) the log directory is offline, as at Apache Kafka, and the log names the reason.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import LogOffline
from storage.log_manager import LogManager
from tests.support.log_rules import check_rules
from tests.support.log_scenario import CONFIG
from tests.support.logs import T0, append, batch, idempotent, read_all

TOPICS = ("one", "two")
COUNT = 30
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(request.param) / "logs"
    manager = LogManager([str(root)])
    manager.lock()
    for topic in TOPICS:
        log = manager.create(topic, 0, topic.encode() * 5 + b"x", CONFIG, T0)
        for number in range(COUNT):
            append(log, batch(b"%s-%d" % (topic.encode(), number), timestamp=T0 + number))
            append(log, idempotent(number))
    if request.param == "stopped":
        manager.close(T0)
    else:
        for task in manager.checkpoint_tasks():
            task.run()
        for log in manager.logs.values():
            log.close_files()
        manager.unlock()
    return root


def first(directory: Path, suffix: str) -> Path:
    return sorted(directory.glob(f"*{suffix}"))[0]


def exchange(one: Path, two: Path) -> None:
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)


def make_foreign(log_dir: Path) -> None:
    """Files and directories of other programs."""
    for place in (log_dir, log_dir / "one-0"):
        (place / "lost+found").mkdir()
        (place / "notes.txt").write_text("mine")
        (place / "core.1234").write_bytes(b"\xff" * 10)
        (place / "\udcff\udcfe").write_bytes(b"")
    (log_dir / "three").mkdir()
    (log_dir / "three-x").mkdir()
    (log_dir / "-1").mkdir()
    (log_dir / "four-0").write_text("a file")
    (log_dir / "five-0").symlink_to("five-0")
    (log_dir / "six-0").symlink_to("nowhere")
    (log_dir / "seven-0").symlink_to("four-0")
    os.mkfifo(log_dir / "eight-0")
    (log_dir / "one-99999999999").mkdir()
    (log_dir / "one-0/sub-0").mkdir()
    for name in ("1.log", "abc.log", "99999999999999999999.log", "-0000000000000000001.log", ".log", "1.snapshot"):
        (log_dir / "one-0" / name).write_bytes(b"not ours")


def make_leftovers(log_dir: Path) -> None:
    """Create files that a crash leaves, and files that nothing would leave."""
    base = first(log_dir / "one-0", ".log")
    for suffix in (".log.deleted", ".index.deleted", ".log.cleaned", ".timeindex.cleaned", ".txnindex.cleaned"):
        (base.parent / (base.stem + suffix)).write_bytes(b"half")
    (base.parent / "leader-epoch-checkpoint.tmp").write_bytes(b"")
    (log_dir / "recovery-point-offset-checkpoint.tmp").write_bytes(b"1")
    (base.parent / "00000000000000000007.index").write_bytes(bytes(80))


def fill_checkpoints(content: bytes) -> Callable[[Path], None]:
    def fill(log_dir: Path) -> None:
        for name in CHECKPOINTS:
            if name != "log-start-offset-checkpoint" or b"9" not in content:
                (log_dir / name).write_bytes(content)
        (log_dir / "one-0/leader-epoch-checkpoint").write_bytes(content)

    return fill


def fill_small(log_dir: Path) -> None:
    (log_dir / "one-0/partition.metadata").write_bytes(b"version: 0\ntopic_id: \xff\xfe\n")
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"\xff") if (log_dir / ".kafka_cleanshutdown").exists() else None


def exchange_derived(log_dir: Path) -> None:
    """Indexes and epochs of another partition, and of another segment."""
    for suffix in (".index", ".timeindex"):
        exchange(first(log_dir / "one-0", suffix), first(log_dir / "two-0", suffix))
        one, *_, other = sorted((log_dir / "one-0").glob(f"*{suffix}"))
        exchange(one, other)
    exchange(log_dir / "one-0/leader-epoch-checkpoint", log_dir / "two-0/leader-epoch-checkpoint")


def link(log_dir: Path) -> None:
    """Links to files and directories elsewhere."""
    target = log_dir.parent / "elsewhere"
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(log_dir / "one-0", target)
    (log_dir / "one-0").symlink_to(target)
    index = first(log_dir / "two-0", ".index")
    shutil.move(index, target / "index")
    index.symlink_to(target / "index")


HUGE = b"0\n2\none 0 9223372036854775808\ntwo 0 99999999999999999999999999\n"
HARMLESS: dict[str, Callable[[Path], None]] = {
    "foreign": make_foreign,
    "leftovers": make_leftovers,
    "huge numbers": fill_checkpoints(HUGE),
    "negative numbers": fill_checkpoints(b"0\n2\none 0 -5\ntwo 0 -1\n"),
    "no numbers": fill_checkpoints(b"0\n3\none 0 x\n\ntwo\n"),
    "not UTF-8": fill_checkpoints(b"\xff\xfe0\n1\n\x80 0 7\n"),
    "very long": fill_checkpoints(b"0\n" + b"1" * 5000 + b"\n"),
    "empty": fill_checkpoints(b""),
    "small files": fill_small,
    "exchanged": exchange_derived,
    "links": link,
}


def load(log_dir: Path) -> LogManager:
    manager = LogManager([str(log_dir)])
    manager.lock()
    manager.load(lambda topic: CONFIG, T0)
    return manager


@pytest.mark.parametrize("what", HARMLESS)
def test_foreign_files_do_no_harm(what: str, original: Path, tmp_path: Path) -> None:
    """D4, R1, R6: all records are there, before and after another stop."""
    log_dir = tmp_path / "logs"
    shutil.copytree(original, log_dir)
    HARMLESS[what](log_dir)
    for life in range(2):
        manager = load(log_dir)
        assert manager.directories[0].is_online
        assert not manager.unopened.refused
        assert not manager.cuts
        assert set(manager.logs) == {(topic, 0) for topic in TOPICS}
        for topic in TOPICS:
            log = manager.logs[topic, 0]
            values = [record.value for record in check_rules(log)]
            assert values[: 2 * COUNT : 2] == [b"%s-%d" % (topic.encode(), number) for number in range(COUNT)]
            assert log.log_end_offset == 2 * COUNT + life
            append(log, batch(b"more"))
            assert read_all(log)[-1].value == b"more"
        manager.close(T0)
    if what == "foreign":
        assert (log_dir / "notes.txt").read_text() == "mine"
        assert os.readlink(log_dir / "five-0") == "five-0"
        assert (log_dir / "one-0/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("how", ["directory", "loop", "pipe", "device"])
def test_a_directory_or_link_in_place_of_a_file(suffix: str, how: str, original: Path, tmp_path: Path) -> None:
    """Either the file is not needed, or the directory goes offline with the file's name as the reason."""
    log_dir = tmp_path / "logs"
    shutil.copytree(original, log_dir)
    path = sorted((log_dir / "one-0").glob(f"*{suffix}"))[-1]
    path.unlink()
    if how == "directory":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if how == "loop" else "/dev/zero")
    manager = load(log_dir)
    directory = manager.directories[0]
    if directory.failure is not None:
        assert path.name in directory.failure
    elif ("one", 0) in manager.unopened.refused:
        assert str(log_dir / "one-0") in str(manager.unopened.refused["one", 0])
    else:
        assert len(read_all(manager.logs["two", 0])) == 2 * COUNT
        try:
            check_rules(manager.logs["one", 0])
        except LogOffline:  # a look-up met it
            assert path.name in str(directory.failure)
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()


LARGE = [*CHECKPOINTS, ".kafka_cleanshutdown", "one-0/leader-epoch-checkpoint", "one-0/partition.metadata"]


@pytest.mark.parametrize("name", [*LARGE, "one-0/*.snapshot", "one-0/*.txnindex"])
def test_a_small_file_of_ten_gigabytes(name: str, original: Path, tmp_path: Path) -> None:
    """A sparse file of that size must not be read into memory. It counts as missing."""
    log_dir = tmp_path / "logs"
    shutil.copytree(original, log_dir)
    path = sorted(log_dir.glob(name))[-1] if "*" in name and list(log_dir.glob(name)) else log_dir / name
    if "*" in path.name:
        path = first(log_dir / "one-0", ".log").with_suffix(".txnindex")
    path.touch()
    os.truncate(path, 10 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    manager = load(log_dir)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
    assert manager.directories[0].is_online
    assert not manager.unopened.refused
    for topic in TOPICS:
        check_rules(manager.logs[topic, 0])
        assert len(read_all(manager.logs[topic, 0])) == 2 * COUNT
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()
