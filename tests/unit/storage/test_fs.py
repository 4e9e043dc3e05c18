"""Disk operations that do more than the system calls."""

import errno
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from storage.log.directory import LogDirectory
from tests.support.disk_doubles.failing_fs import FailingFileSystem, ShortWrites


@pytest.mark.parametrize("fs", [LOCAL, ShortWrites()])
def test_write_at_writes_all_buffers(fs: ShortWrites, tmp_path: Path) -> None:
    """For any number of bytes per write."""
    handle = fs.open_write(str(tmp_path / "a"), create=True)
    fs.write_at(handle, 0, (b"0123456789",))
    fs.write_at(handle, 5, (b"abc", memoryview(b"defghijklm"), bytearray(b"n")))
    fs.close(handle)
    assert (tmp_path / "a").read_bytes() == b"01234abcdefghijklmn"


def test_replaced_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    """This holds whichever call fails."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    for fail_at in range(1, 10):
        fs = FailingFileSystem(fail_at)
        try:
            fs.replace_file(str(path), b"newer", sync=True)
        except OSError:
            assert path.read_bytes() in (b"old", b"newer")
            continue
        assert path.read_bytes() == b"newer"
        return
    pytest.fail("always failed")


def test_full_disk_names_the_file(tmp_path: Path) -> None:
    """A start prints this error."""

    class Full(type(LOCAL)):  # type: ignore[misc]
        def write_at(self, handle: int, position: int, buffers: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left on device") as caught:
        Full().replace_file(f"{tmp_path}/a", b"content")
    assert caught.value.filename == f"{tmp_path}/a.tmp"


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_device_link, Path.mkdir])
def test_pipe_socket_or_device_is_an_error(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Opening a pipe would block, and reading a device would never end."""
    path = tmp_path / "00.log"
    make(path)
    calls: list[Callable[[str], object]] = [
        LOCAL.open_read,
        LOCAL.open_write,
        lambda path: LOCAL.open_write(path, create=True, empty=True),
        LOCAL.read_file,
        lambda path: LOCAL.write_file(path, b"data"),
    ]
    gc.collect()  # later it would close files of other tests
    descriptors = len(os.listdir("/proc/self/fd"))
    for call in calls:
        with pytest.raises(OSError, match=r"not a regular file|Is a directory") as raised:
            call(str(path))
        assert raised.value.filename == str(path)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    """A sparse file of ten gigabytes is easy to create."""
    path = tmp_path / "meta.properties"
    path.write_bytes(b"0123456789" * 1000)
    for most_bytes in (0, 1, 4095, 4096, 4097, 9_999, 10_000):
        assert LOCAL.read_file(str(path), most_bytes) == path.read_bytes()[:most_bytes]
    assert LOCAL.read_file(str(path)) == path.read_bytes()
    os.truncate(path, 10 << 30)
    assert len(LOCAL.read_file(str(path), 5_000_000)) == 5_000_000


def test_removing_a_missing_file_is_allowed(tmp_path: Path) -> None:
    """Retention and a topic deletion may remove the same file."""
    LOCAL.remove(str(tmp_path / "a"))
    LOCAL.remove_directory(str(tmp_path / "b"))


def test_list_returns_sizes_and_directories(tmp_path: Path) -> None:
    """Dangling links are skipped."""
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    found = {entry.name: entry for entry in LOCAL.list(str(tmp_path))}
    assert sorted(found) == ["a", "b"]
    assert (found["a"].size_bytes, found["a"].is_directory, found["b"].is_directory) == (3, False, True)


def test_lock_excludes_other_processes(tmp_path: Path) -> None:
    """decisions.md, Traps: a POSIX record lock on .lock, as in Java."""
    directory = LogDirectory(str(tmp_path / "logs"))
    directory.lock()
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from storage.log.directory import LogDirectory\n"
        f"LogDirectory({directory.path!r}).lock()\n"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "in use by another broker" in other.stderr
    directory.unlock()
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_identity_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert LOCAL.identity(str(path)) is None
    LOCAL.replace_file(str(path), b"one")
    one = LOCAL.identity(str(path))
    assert one == LOCAL.identity(str(path)) is not None
    LOCAL.replace_file(str(path), b"two")
    assert one != LOCAL.identity(str(path))


def test_directory_that_cannot_be_created_is_rejected(tmp_path: Path) -> None:
    """The error is one line."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DirectoryRefused) as caught:
        LogDirectory(str(tmp_path / "file" / "logs")).lock()
    assert "\n" not in str(caught.value)


def test_new_files_are_private(tmp_path: Path) -> None:
    """Whatever the umask of the process allows."""
    before = os.umask(0)
    try:
        LOCAL.make_directory(str(tmp_path / "made"))
        LOCAL.write_file(str(tmp_path / "made" / "written"), b"")
        LOCAL.replace_file(str(tmp_path / "made" / "replaced"), b"")
        LOCAL.close(LOCAL.open_write(str(tmp_path / "made" / "log"), create=True))
        lock = LOCAL.lock(str(tmp_path / "made" / "lock"))
        assert lock is not None
        LOCAL.close(lock)
    finally:
        os.umask(before)

    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").iterdir()}
    assert modes == dict.fromkeys(("written", "replaced", "log", "lock"), 0o600)
