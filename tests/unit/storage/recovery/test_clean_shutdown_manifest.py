"""Logs that a start need not look at, as their stop noted that they are in order; and what makes it look."""

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
from tests.support.failing_fs import Died, FailingFileSystem
from tests.support.logs import T0, append, batch, opened
from tests.support.scale import scaled

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(reversed(range(16)))
KEYS = [("t", 0), ("t", 1), ("u", 0)]


class Watched(FileSystem):
    """Tells of which partitions the files' names were asked for."""

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
    """After a moment of the file system's clock: what changes in the moment of a stop is looked at again."""
    root = Path(manager.directories[0].path)
    scratch = root.parent / "clock"
    last = max(path.stat().st_ctime_ns for path in (*root.glob("*-*"), *root.glob("*-*/partition.metadata")))
    scratch.write_bytes(b"")
    while scratch.stat().st_ctime_ns <= last:
        scratch.write_bytes(b"")
    manager.close(T0, broker_epoch=broker_epoch)


def looked_at(root: Path) -> set[str]:
    """Which logs a start looks at; it ends as a process that is killed."""
    fs = Watched()
    manager = started(root, fs)
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()
    return set(fs.looked_at)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three partitions, stopped in order twice: the second time there was nothing to write."""
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


def test_nothing_is_looked_at_that_is_as_it_was_left(root: Path) -> None:
    """All wait, with their topic ids, and are opened as ever."""
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


def test_a_note_is_of_one_stop(root: Path) -> None:
    """It goes with the start, and after a kill nothing waits at all."""
    manager = started(root)
    assert not (root / MANIFEST).exists()
    manager.unlock()
    manager = started(root)
    assert not manager.unopened
    manager.close(T0)


def test_the_stop_looks_at_what_has_changed_and_at_nothing_else(root: Path) -> None:
    """Also of logs that were opened."""
    fs = Watched()
    manager = started(root, fs)
    for key in KEYS:
        opened(manager, *key)
    append(opened(manager, "t", 1), batch())
    stopped(manager, 3)
    assert fs.looked_at == ["t-1"]
    stopped(started(root), 4)
    assert looked_at(root) == set()


def test_a_log_that_is_not_in_order_is_no_part_of_it(root: Path) -> None:
    """Something unfinished came into its directory while the broker ran."""
    manager = started(root)
    (root / "t-1" / "x.swap").touch()
    stopped(manager, 3)
    assert list(note(root)["topics"]["t"]["partitions"]) == ["0"]
    assert looked_at(root) == {"t-1"}


def test_compacted_topics_are_no_part_of_it(root: Path) -> None:
    """A cleaner has to know them at once."""
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
def test_what_has_changed_since_is_looked_at(change: str, root: Path) -> None:
    """By hand, while nobody ran."""
    do, expected = CHANGES[change]
    do(root)
    assert looked_at(root) == expected


def test_a_copy_is_looked_at(root: Path, tmp_path: Path) -> None:
    """Whatever was changed before, or while it was made."""
    shutil.copytree(root, tmp_path / "copy")
    assert looked_at(tmp_path / "copy") == {"t-0", "t-1", "u-0"}


def test_a_damaged_note_is_none(root: Path, tmp_path: Path) -> None:
    """Cut anywhere, bytes changed, nested without end: no start fails, and who is not believed is looked at."""
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


def test_a_note_that_is_a_directory_is_none(root: Path) -> None:
    """Nor does it stop a start, or a stop."""
    (root / MANIFEST).unlink()
    (root / MANIFEST).mkdir()
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


class ClockGoneBack(Watched):
    """Since the stop, or the start, the clock of the file system has gone back by an hour: what is changed now seems
    older than what was there.
    """

    def __init__(self, changed: Path) -> None:
        super().__init__()
        self.changed = str(changed)

    def identity(self, path: str, *, follow: bool = True) -> Identity | None:
        found = super().identity(path, follow=follow)
        if found is None or path != self.changed:
            return found
        hour_ns = 3600 * 10**9
        return found._replace(modified_ns=found.modified_ns - hour_ns, changed_ns=found.changed_ns - hour_ns)


def test_a_change_is_seen_though_the_clock_went_back(root: Path) -> None:
    """Between the stop and the start."""
    (root / "t-1" / "x.swap").touch()
    fs = ClockGoneBack(root / "t-1")
    started(root, fs).unlock()
    assert fs.looked_at == ["t-1"]


def test_a_change_while_a_broker_runs_is_seen_though_the_clock_went_back(root: Path) -> None:
    """The stop does not take it for what the start has found."""
    fs = ClockGoneBack(root / "nothing yet")
    manager = started(root, fs)
    (root / "t-1" / "x.swap").touch()
    fs.changed = str(root / "t-1")
    stopped(manager, 3)
    assert list(note(root)["topics"]["t"]["partitions"]) == ["0"]


def test_a_note_of_an_older_version_is_none(root: Path) -> None:
    """It knew times in their order alone."""
    former = {"version": 0, "brokerEpoch": 2, "untilNs": 2**62, "checkpoints": note(root)["checkpoints"]}
    topics = {"t": {"topicId": base64.b64encode(TOPIC_ID).decode(), "others": []}}
    (root / MANIFEST).write_text(json.dumps({**former, "topics": topics}))
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


def test_a_note_of_a_later_version_is_none(root: Path) -> None:
    (root / MANIFEST).write_text(json.dumps({**note(root), "version": 2}))
    assert looked_at(root) == {"t-0", "t-1", "u-0"}


@pytest.mark.parametrize("linked", [False, True])
def test_what_changes_while_a_broker_runs_is_looked_at_by_its_stop(linked: bool, root: Path) -> None:
    """In logs that nobody has opened: a file that is removed, another topic's id; log.dirs may name a link."""
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


def test_a_stop_that_cannot_note_it_is_clean_all_the_same(root: Path) -> None:
    """The next start looks at each log."""
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
    """With something to write."""
    manager = started(root, fs)
    append(opened(manager, "t", 1), batch())
    return manager


def test_a_stop_may_die_at_any_call(root: Path, tmp_path: Path) -> None:
    """Before the mark the next start checks all logs, after it it may believe the note: each has all its records."""
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
