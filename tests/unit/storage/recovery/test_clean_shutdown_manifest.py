"""Logs that a start need not inspect, because the manifest of the last shutdown lists them; and exceptions."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from storage.checkpoints import write_clean_shutdown
from storage.fs import LOCAL, FileSystem, Identity
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.recovery.clean_shutdown_manifest import MANIFEST
from tests.support.disk_doubles.failing_fs import Died, FailingFileSystem
from tests.support.logs import T0, append, batch, opened
from tests.support.scale import scaled

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(reversed(range(16)))
KEYS = [("t", 0), ("t", 1), ("u", 0)]


class Watched(FileSystem):
    """Records the partitions whose file names were listed."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    def names(self, path: str) -> list[str]:
        self.looked_at.append(os.path.basename(path))
        return super().names(path)


def started(root: Path, fs: FileSystem = LOCAL, config: LogConfig | None = None) -> LogManager:
    manager = LogManager([str(root)], fs=fs)
    manager.lock()
    manager.load(lambda topic: config or LogConfig(), T0, may_wait=lambda directory, stored: True)
    return manager


def stopped(manager: LogManager, broker_epoch: int) -> None:
    """Wait for the file system's clock to advance: changes at the moment of the shutdown are inspected again."""
    root = Path(manager.directories[0].path)
    scratch = root.parent / "clock"
    last = max(path.stat().st_ctime_ns for path in (*root.glob("*-*"), *root.glob("*-*/partition.metadata")))
    scratch.write_bytes(b"")
    while scratch.stat().st_ctime_ns <= last:
        scratch.write_bytes(b"")
    manager.close(T0, broker_epoch=broker_epoch)


def looked_at(root: Path) -> set[str]:
    """Return the logs that a start inspects; the start ends like a killed process."""
    fs = Watched()
    manager = started(root, fs)
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()
    return set(fs.looked_at)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three partitions after two clean shutdowns; the second one had nothing to write."""
    root = tmp_path / "logs"
    manager = started(root)
    for topic, partition in KEYS:
        log = manager.create(topic, partition, TOPIC_ID if topic == "t" else OTHER_ID, LogConfig(), T0)
        append(log, batch())
    stopped(manager, 1)
    stopped(started(root), 2)
    return root


def note(root: Path) -> dict:
    return json.loads((root / MANIFEST).read_bytes())


def test_unchanged_logs_are_not_inspected(root: Path) -> None:
    """All stay unopened, with their topic ids, and open normally."""
    fs = Watched()
    manager = started(root, fs)
    assert fs.looked_at == []
    assert {key: each.stored.topic_id for key, each in manager.unopened.items()} == {
        ("t", 0): TOPIC_ID,
        ("t", 1): TOPIC_ID,
        ("u", 0): OTHER_ID,
    }
    log = opened(manager, "u", 0)
    assert (log.log_end_offset, log.topic_id) == (1, OTHER_ID)
    manager.close(T0)


def test_manifest_is_used_once(root: Path) -> None:
    """A start removes it, and after a kill no log stays unopened."""
    manager = started(root)
    assert not (root / MANIFEST).exists()
    manager.unlock()
    manager = started(root)
    assert not manager.unopened
    manager.close(T0)


def test_shutdown_inspects_only_changed_logs(root: Path) -> None:
    """Logs that were opened are not inspected if they did not change."""
    fs = Watched()
    manager = started(root, fs)
    for key in KEYS:
        opened(manager, *key)
    append(opened(manager, "t", 1), batch())
    stopped(manager, 3)
    assert fs.looked_at == ["t-1"]
    stopped(started(root), 4)
    assert looked_at(root) == set()


def test_log_out_of_order_is_not_in_the_manifest(root: Path) -> None:
    """An unfinished file was added to its directory while the broker ran."""
    manager = started(root)
    (root / "t-1" / "x.swap").touch()
    stopped(manager, 3)
    assert list(note(root)["topics"]["t"]["partitions"]) == ["0"]
    assert looked_at(root) == {"t-1"}


def test_compacted_topics_are_not_in_the_manifest(root: Path) -> None:
    """A cleaner needs them at once."""
    stopped(started(root, config=LogConfig(cleanup_policy=frozenset({"compact"}))), 3)
    assert note(root)["topics"] == {}


def new_inode(path: Path) -> None:
    path.rename(path.with_suffix(".old"))
    path.with_suffix(".new").write_bytes(path.with_suffix(".old").read_bytes())
    path.with_suffix(".new").rename(path)


CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "a file is added": (lambda root: (root / "t-1/x.swap").touch(), {"t-1"}),
    "a file is removed": (lambda root: (root / "t-1" / f"{0:020}.index").unlink(), {"t-1"}),
    "a file is renamed": (lambda root: (root / "t-1" / f"{1:020}.snapshot").rename(root / "t-1/y"), {"t-1"}),
    "the topic id is edited": (lambda root: (root / "u-0/partition.metadata").write_bytes(b"version: 0"), {"u-0"}),
    "the topic id is gone": (lambda root: (root / "u-0/partition.metadata").unlink(), {"u-0"}),
    "its time is set back": (lambda root: ((root / "u-0/x.tmp").touch(), os.utime(root / "u-0", (1, 1))), {"u-0"}),
    "a partition is elsewhere": (
        lambda root: ((root / "t-0").rename(root.parent / "t"), (root / "t-0").symlink_to(root.parent / "t")),
        {"t-0"},
    ),
    "a partition is another's": (
        lambda root: ((root / "t-0").rename(root / "z"), (root / "u-0").rename(root / "t-0")),
        {"t-0"},
    ),
    "a partition is copied": (
        lambda root: (
            shutil.copytree(root / "t-0", root / "c"),
            shutil.rmtree(root / "t-0"),
            (root / "c").rename(root / "t-0"),
        ),
        {"t-0"},
    ),
    "recovery points are others": (
        lambda root: new_inode(root / "recovery-point-offset-checkpoint"),
        {"t-0", "t-1", "u-0"},
    ),
    "start offsets are others": (lambda root: new_inode(root / "log-start-offset-checkpoint"), {"t-0", "t-1", "u-0"}),
    "the note is gone": (lambda root: (root / MANIFEST).unlink(), {"t-0", "t-1", "u-0"}),
    "another broker has run": (lambda root: write_clean_shutdown(LOCAL, str(root), 9), {"t-0", "t-1", "u-0"}),
    "an older one has run": (lambda root: (root / ".kafka_cleanshutdown").write_bytes(b""), {"t-0", "t-1", "u-0"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_logs_are_inspected(change: str, root: Path) -> None:
    """A manual change while no broker ran."""
    do, expected = CHANGES[change]
    do(root)
    assert looked_at(root) == expected


def test_copied_directory_is_inspected(root: Path, tmp_path: Path) -> None:
    """Whatever changed before or during the copy."""
    shutil.copytree(root, tmp_path / "copy")
    assert looked_at(tmp_path / "copy") == {"t-0", "t-1", "u-0"}


def test_damaged_manifest_is_ignored(root: Path, tmp_path: Path) -> None:
    """Truncated anywhere, changed bytes, deep nesting: no start fails, and untrusted logs are inspected."""
    data = (root / MANIFEST).read_bytes()
    random = Random(1)
    flipped = [bytearray(data) for _ in range(scaled(20))]
    for each in flipped:
        each[random.randrange(len(each))] = random.randrange(256)
    cut = [data[: random.randrange(len(data))] for _ in range(scaled(20))]
    for number, damaged in enumerate([b"", b"\xff", b"[" * 100_000, *cut, *flipped]):
        (root / MANIFEST).write_bytes(damaged)
        write_clean_shutdown(LOCAL, str(root), 2)
        seen = looked_at(root)
        assert seen <= {"t-0", "t-1", "u-0"}
        if number < 3 + len(cut):
            assert seen == {"t-0", "t-1", "u-0"}


def test_directory_in_place_of_the_manifest_is_ignored(root: Path) -> None:
    """It breaks neither a start nor a shutdown."""
    (root / MANIFEST).unlink()
    (root / MANIFEST).mkdir()
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


class ClockGoneBack(Watched):
    """The file system's clock went back by an hour since the shutdown or the start, so new changes look older."""

    def __init__(self, changed: Path) -> None:
        super().__init__()
        self.changed = str(changed)

    def identity(self, path: str, *, follow: bool = True) -> Identity | None:
        found = super().identity(path, follow=follow)
        if found is None or path != self.changed:
            return found
        hour_ns = 3600 * 10**9
        return found._replace(modified_ns=found.modified_ns - hour_ns, changed_ns=found.changed_ns - hour_ns)


def test_change_is_detected_after_the_clock_went_back(root: Path) -> None:
    """Between the shutdown and the start."""
    (root / "t-1" / "x.swap").touch()
    fs = ClockGoneBack(root / "t-1")
    started(root, fs).unlock()
    assert fs.looked_at == ["t-1"]


def test_change_at_run_time_is_detected_despite_the_clock(root: Path) -> None:
    """The shutdown must not take the change for the state that the start found."""
    fs = ClockGoneBack(root / "nothing yet")
    manager = started(root, fs)
    (root / "t-1" / "x.swap").touch()
    fs.changed = str(root / "t-1")
    stopped(manager, 3)
    assert list(note(root)["topics"]["t"]["partitions"]) == ["0"]


def test_manifest_of_an_older_version_is_ignored(root: Path) -> None:
    """The older version compared the order of times."""
    former = {"version": 0, "brokerEpoch": 2, "untilNs": 2**62, "checkpoints": note(root)["checkpoints"]}
    topics = {"t": {"topicId": base64.b64encode(TOPIC_ID).decode(), "others": []}}
    (root / MANIFEST).write_text(json.dumps({**former, "topics": topics}))
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


def test_manifest_of_a_later_version_is_ignored(root: Path) -> None:
    (root / MANIFEST).write_text(json.dumps({**note(root), "version": 2}))
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


@pytest.mark.parametrize("linked", [False, True])
def test_shutdown_inspects_logs_that_changed_at_run_time(linked: bool, root: Path) -> None:
    """In unopened logs: a removed file, another topic id; log.dirs may contain a symbolic link."""
    path = root
    if linked:
        path = root.with_name("link")
        path.symlink_to(root)
    manager = started(path)
    (removed,) = (root / "u-0").glob("*.index")
    removed.unlink()
    written = root / "t-1" / "partition.metadata"
    written.write_bytes((root / "u-0" / "partition.metadata").read_bytes())
    stopped(manager, 3)
    assert looked_at(path) == {"u-0", "t-1"}


def test_shutdown_without_manifest_is_clean(root: Path) -> None:
    """The next start inspects every log."""
    fs = FailingFileSystem()
    manager = started(root, fs)
    fs.fail_at = len(fs.calls) + next(
        number for number, name in enumerate(calls_of_a_stop(root.parent, root), 1) if name == "identity"
    )
    stopped(manager, 3)
    assert fs.has_failed
    assert manager.directories[0].is_online
    assert (root / ".kafka_cleanshutdown").exists()
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


def calls_of_a_stop(scratch: Path, root: Path) -> list[str]:
    shutil.copytree(root, scratch / "same")
    fs = FailingFileSystem()
    write_clean_shutdown(LOCAL, str(scratch / "same"), 2)
    manager = started(scratch / "same", fs)
    before = len(fs.calls)
    manager.close(T0, broker_epoch=3)
    return fs.calls[before:]


def about_to_stop(root: Path, fs: FileSystem) -> LogManager:
    """A manager with something to write."""
    manager = started(root, fs)
    append(opened(manager, "t", 1), batch())
    return manager


def test_shutdown_may_die_at_any_call(root: Path, tmp_path: Path) -> None:
    """Before the mark the next start checks all logs; after it the manifest may be used. No record is lost."""
    whole = FailingFileSystem()
    shutil.copytree(root, tmp_path / "whole")
    manager = about_to_stop(tmp_path / "whole", whole)
    before = len(whole.calls)
    manager.close(T0, broker_epoch=3)
    for number in range(before + 1, len(whole.calls) + 1):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        fs = FailingFileSystem(number, dies=True)
        manager = about_to_stop(copy, fs)
        with pytest.raises(Died):
            manager.close(T0, broker_epoch=3)
        manager.unlock()
        manager = started(copy)
        assert [opened(manager, *key).log_end_offset for key in KEYS] == [1, 2, 1]
        manager.close(T0, broker_epoch=4)
        shutil.rmtree(copy)
