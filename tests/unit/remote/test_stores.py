"""Stores of objects: a directory, and obstore's store with a directory and with a bucket."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.directory_store import DirectoryStore
from remote.errors import Absent, Damaged, Denied, Exists, OutOfSpace, RemoteStorageError, Unreachable
from remote.object_store import ObjectStore
from remote.store import Listed, Source, Store
from tests.support.s3_server import BUCKET, s3_server


@pytest.fixture(params=["directory", "object store", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "store").mkdir()
    if request.param == "directory":
        yield DirectoryStore(str(tmp_path / "store"))
    elif request.param == "object store":
        yield ObjectStore(f"file://{tmp_path / 'store'}")
    else:
        with s3_server() as server:
            yield ObjectStore(f"s3://{BUCKET}", server.settings)


def test_an_object_is_read_as_a_whole_and_in_ranges(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(200)))
    store.put("a/b/bytes", b"0123456789")
    store.put("a/b/file", Source(str(file), 100))
    assert store.get("a/b/bytes") == b"0123456789"
    assert store.get("a/b/bytes", 4) == b"456789"
    assert store.get("a/b/bytes", 4, 3) == b"456"
    assert store.get("a/b/bytes", 10) == b""
    assert store.get("a/b/file") == bytes(range(100))
    found = sorted(store.list("a/"))
    assert found == [Listed("a/b/bytes", 10), Listed("a/b/file", 100)]


def test_an_object_is_never_replaced(store: Store) -> None:
    store.put("key", b"first")
    with pytest.raises(Exists) as raised:
        store.put("key", b"second")
    assert raised.value.key == "key"
    assert store.get("key") == b"first"


def test_missing_bytes_are_an_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Absent):
        store.get("nothing")
    store.put("short", b"0123")
    with pytest.raises(RemoteStorageError) as raised:
        store.get("short", 2, 5)
    assert isinstance(raised.value, Damaged)
    file = tmp_path / "file"
    file.write_bytes(b"012")
    with pytest.raises(Damaged, match="not 5"):
        store.put("long", Source(str(file), 5))
    with pytest.raises(Absent):
        store.get("long")


def test_deletion_is_done_when_nothing_is_left(store: Store) -> None:
    store.put("a/1", b"1")
    store.put("a/2", b"2")
    store.delete(["a/1", "a/2", "a/3", "b/1"])
    assert list(store.list("")) == []
    store.delete(["a/1"])


def test_a_prefix_without_objects_has_none(store: Store) -> None:
    assert list(store.list("nothing/")) == []


def test_partial_objects_are_not_listed_and_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DirectoryStore(str(tmp_path))

    def full(handle: int) -> None:
        assert list(store.list("")) == []
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutOfSpace, match="a/1: No space left"):
        store.put("a/1", b"1")
    assert list(tmp_path.rglob("*.partial")) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EACCES, Denied), (errno.EROFS, Denied), (errno.EIO, Unreachable), (errno.ESTALE, Unreachable)],
)
def test_errors_of_the_system_say_whether_to_try_again(
    number: int, kind: type[RemoteStorageError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(kind):
        DirectoryStore(str(tmp_path)).put("a", b"1")


@pytest.mark.parametrize("key", ["../secret", "a/../../b", "/etc/passwd"])
def test_a_key_does_not_lead_out_of_the_directory(key: str, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="leads out"):
        DirectoryStore(str(tmp_path)).get(key)


def test_a_store_that_nobody_serves_is_unreachable_within_seconds() -> None:
    store = ObjectStore(
        "s3://bucket/path",
        {
            "aws_endpoint": "http://127.0.0.1:9",
            "aws_access_key_id": "someone",
            "aws_secret_access_key": "a-secret-value",
            "aws_region": "us-east-1",
        },
    )
    with pytest.raises(Unreachable) as raised:
        store.get("key")
    assert "a-secret-value" not in str(raised.value)


def test_unknown_settings_of_an_object_store_are_refused() -> None:
    with pytest.raises(ValueError, match="aws_nonsense"):
        ObjectStore("s3://bucket", {"aws_nonsense": "1"})


def test_a_directory_that_is_not_mounted_is_unreachable(tmp_path: Path) -> None:
    """Nothing is stored below the mount point, and nothing counts as deleted or absent."""
    (tmp_path / "segments").mkdir()
    store = DirectoryStore(str(tmp_path), "segments")
    store.put("segments/a", b"1")
    (tmp_path / "segments").rename(tmp_path / "elsewhere")
    for operation in (
        lambda: store.put("segments/b", b"2"),
        lambda: store.get("segments/a"),
        lambda: store.delete(["segments/a"]),
        lambda: list(store.list("segments/")),
    ):
        with pytest.raises(Unreachable, match="segments is gone: is the file server mounted"):
            operation()
    assert not (tmp_path / "segments").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "segments")
    assert store.get("segments/a") == b"1"


def test_a_file_in_place_of_the_directory_is_unreachable(tmp_path: Path) -> None:
    """Else it would count as a missing bucket, with advice about credentials."""
    (tmp_path / "segments").mkdir()
    store = DirectoryStore(str(tmp_path), "segments")
    store.put("segments/a", b"x")
    (tmp_path / "segments/a").unlink()
    (tmp_path / "segments").rmdir()
    (tmp_path / "segments").touch()
    for ask in (
        lambda: store.get("segments/a"),
        lambda: store.put("segments/a", b"y"),
        lambda: store.delete(["segments/a"]),
    ):
        with pytest.raises(Unreachable, match="segments is gone"):
            ask()
