"""Layouts of segments, compared with what Apache Kafka stored (tests/data/remote)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from protocol.id_text import id_text
from remote.aiven_layout import AivenLayout
from remote.directory_store import DirectoryStore
from remote.errors import Absent, Damaged
from remote.local_tiered_layout import FOLDER, LocalTieredLayout
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Source
from tests.unit.remote.recorded import AIVEN, LOCAL, Copied, copied_segments, files_of


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def name_of(copy: Copied) -> str:
    return f"{copy.segment.start_offset:020}-{id_text(copy.segment.id)}"


def stored_folders(stored: Path) -> list[Path]:
    return [path for path in sorted(stored.iterdir()) if path.name != "log.dirs"]


@pytest.mark.parametrize("stored", LOCAL, ids=lambda path: path.name)
def test_local_tiered_storage_is_written_as_by_kafka(stored: Path, tmp_path: Path) -> None:
    layout = LocalTieredLayout(DirectoryStore(str(tmp_path)))
    written = []
    for copy in copied_segments(stored):
        folder = stored / f"{copy.partition.topic}-{copy.partition.partition}-{id_text(copy.partition.topic_id)}"
        if (folder / f"{name_of(copy)}.log").exists():
            assert layout.copy(*copy, files_of(folder, name_of(copy))) is None
            written.append(copy)
    assert written
    theirs = {
        f"{folder.name}/{name}": data for folder in stored_folders(stored) for name, data in contents(folder).items()
    }
    assert contents(tmp_path / FOLDER) == theirs


@pytest.mark.parametrize("stored", LOCAL, ids=lambda path: path.name)
def test_local_tiered_storage_of_kafka_is_read(stored: Path, tmp_path: Path) -> None:
    shutil.copytree(stored, tmp_path / FOLDER)
    layout = LocalTieredLayout(DirectoryStore(str(tmp_path)))
    for copy in copied_segments(stored):
        folder = stored / f"{copy.partition.topic}-{copy.partition.partition}-{id_text(copy.partition.topic_id)}"
        if (folder / f"{name_of(copy)}.log").exists():
            files = files_of(folder, name_of(copy))
            assert layout.read(*copy, 100, 200) == Path(files.log.path).read_bytes()[100:300]
            for kind in IndexKind:
                assert layout.read_index(*copy, kind) == getattr(files, kind.value)
            layout.delete(*copy)
            with pytest.raises(Absent):
                layout.read(*copy, 0, 10)
    assert (
        not contents(tmp_path / FOLDER).keys()
        - contents(stored / "log.dirs").keys()
        - {f"log.dirs/{name}" for name in contents(stored / "log.dirs")}
    )


def aiven_copies() -> list[Copied]:
    return [copy for copy in copied_segments(AIVEN) if manifest_path(copy).exists()]


def manifest_path(copy: Copied) -> Path:
    topic = copy.partition
    return AIVEN / f"{topic.topic}-{id_text(topic.topic_id)}" / str(topic.partition) / f"{name_of(copy)}.rsm-manifest"


def test_aivens_layout_is_written_as_by_the_plugin(tmp_path: Path) -> None:
    """The indexes are read out of the recorded object, so their order and positions are compared."""
    theirs = AivenLayout(DirectoryStore(str(AIVEN)))
    ours = AivenLayout(DirectoryStore(str(tmp_path)))
    assert len(aiven_copies()) == 7
    for copy in aiven_copies():
        log = manifest_path(copy).with_suffix(".log")
        indexes = {kind.value: theirs.read_index(*copy, kind) for kind in IndexKind}
        files = SegmentFiles(
            log=Source(str(log), log.stat().st_size), **{name: index or b"" for name, index in indexes.items()}
        )
        ours.copy(*copy, files._replace(transaction_index=indexes["transaction_index"]))
        for suffix in (".log", ".indexes", ".rsm-manifest"):
            stored = manifest_path(copy).with_suffix(suffix)
            assert (tmp_path / stored.relative_to(AIVEN)).read_bytes() == stored.read_bytes()


def test_a_segment_without_aborted_transactions_has_no_transaction_index() -> None:
    layout = AivenLayout(DirectoryStore(str(AIVEN)))
    found = {copy.segment.has_no_aborted: layout.read_index(*copy, IndexKind.TRANSACTION) for copy in aiven_copies()}
    assert found[True] is None
    assert len(found[False] or b"") % 34 == 0


def test_noted_prefix_and_key_of_a_segment_are_valid() -> None:
    """The plugin writes tagged fields: here the prefix `old/` (tag 1), and the size of all objects (tag 0)."""
    copy = aiven_copies()[0]
    noted = copy.segment._replace(custom=bytes.fromhex("0200028001010505") + b"old/")
    layout = AivenLayout(DirectoryStore("/nowhere"), prefix="new/")
    assert layout.key_of(copy.partition, noted, "log").startswith("old/at-")
    assert layout.key_of(*copy, "log").startswith("new/at-")
    with pytest.raises(Damaged, match="custom metadata"):
        layout.key_of(copy.partition, copy.segment._replace(custom=b"\x01\x01\x05\x09abcd"), "log")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"compression": True}, "compressed or encrypted"),
        ({"encryption": {"dataKey": "x"}}, "compressed or encrypted"),
        ({"version": "2"}, "version 2"),
        ({"segmentIndexes": {}}, "no manifest"),
        ({"chunkIndex": {"originalFileSize": 5}}, "5 bytes"),
    ],
)
def test_a_segment_that_is_not_stored_as_it_is_is_refused(
    change: dict[str, object], error: str, tmp_path: Path
) -> None:
    copy = aiven_copies()[0]
    shutil.copytree(AIVEN, tmp_path / "store")
    manifest = tmp_path / "store" / manifest_path(copy).relative_to(AIVEN)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    layout = AivenLayout(DirectoryStore(str(tmp_path / "store")))
    with pytest.raises(Damaged, match=error) as raised:
        layout.read(*copy, 0, 10)
    assert raised.value.key.endswith(".rsm-manifest")


def test_nothing_is_left_of_a_deleted_segment(tmp_path: Path) -> None:
    shutil.copytree(AIVEN, tmp_path / "store")
    layout = AivenLayout(DirectoryStore(str(tmp_path / "store")))
    for copy in aiven_copies():
        assert layout.read(*copy, 0, 10)
        layout.delete(*copy)
        with pytest.raises(Absent):
            layout.read(*copy, 0, 10)
        layout.delete(*copy)
    assert [
        path.name for path in (tmp_path / "store").iterdir() if path.name != "log.dirs" and any(path.iterdir())
    ] == []


def test_custom_metadata_has_the_fields_that_are_wanted(tmp_path: Path) -> None:
    """The bytes are those of Kafka's tagged fields; an object that was stored with a prefix is found by them."""
    copy = next(copied_segments(AIVEN))
    files = SegmentFiles(Source(__file__, 3), b"1", b"2", b"3", b"4")
    store = DirectoryStore(str(tmp_path))
    custom = AivenLayout(store, "one/", 10, ("OBJECT_PREFIX", "REMOTE_SIZE")).copy(*copy, files)
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert custom == b"\x02\x00\x02" + bytes((stored * 2 & 0x7F | 0x80, stored * 2 >> 7)) + b"\x01\x05\x05one/"
    every = AivenLayout(store, "two/", 10, ("OBJECT_KEY", "OBJECT_PREFIX")).copy(*copy, files)
    elsewhere = AivenLayout(store, "three/").key_of(copy.partition, copy.segment._replace(custom=every), "log")
    assert elsewhere == AivenLayout(store, "two/").key_of(*copy, "log")
