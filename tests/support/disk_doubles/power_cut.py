"""The contents of a disk after a power loss: a journal of all calls that change it, and the possible states.

Only two calls promise anything. A sync of a file keeps the bytes and the size that it had when the sync began; a sync
of a directory keeps the names in it. Any part of later changes may be there or missing: single pages of a file, its new
size with zeros for unwritten bytes, names that were created, renamed or removed, in any possible order. That is more
than ext4 or XFS would lose, and all that POSIX lets them lose.
"""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from protocol.records.buffer import Buffer
from storage.fs import LOCAL, FileSystem

PAGE = 4096


class Sink(Protocol):
    """The destination of noted calls."""

    def note(self, *call: Any) -> None: ...

    def __len__(self) -> int: ...


class Journal:
    """The calls that changed the disk, in the order in which they ended. Thread-safe."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def note(self, *call: Any) -> None:
        with self._lock:
            self.calls.append(call)

    def __len__(self) -> int:
        return len(self.calls)


class FileJournal:
    """The same in a file, for a broker in another process. One process writes it, any may read it."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._count = sum(1 for _ in read_journal(path)) if Path(path).exists() else 0
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    def note(self, *call: Any) -> None:
        data = pickle.dumps(call)
        with self._lock:
            self._file.write(len(data).to_bytes(4, "big") + data)
            self._count += 1

    def __len__(self) -> int:
        return self._count


def read_journal(path: str | Path) -> Iterator[tuple[Any, ...]]:
    """Yield the complete calls in a file so far."""
    data = memoryview(Path(path).read_bytes())
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            return
        yield pickle.loads(data[4 : 4 + size])
        data = data[4 + size :]


class JournalingFileSystem(FileSystem):
    """The local file system, which notes each call that changes it; a sync with the number of calls before it."""

    def __init__(self, sink: Sink, *, really_sync: bool = False) -> None:
        self.sink = sink
        self._really_sync = really_sync

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        handle = super().open_write(path, create=create, empty=empty)
        self.sink.note("open", handle, path, empty)
        return handle

    def pwrite(self, handle: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        written = FileSystem.pwrite(handle, data, position)
        self.sink.note("write", handle, position, bytes(memoryview(data)[:written]))
        return written

    def write_at(self, handle: int, position: int, buffers: Iterable[Buffer]) -> None:
        super().write_at(handle, position, (b"".join(buffers),))

    def truncate(self, handle: int, size_bytes: int) -> None:
        super().truncate(handle, size_bytes)
        self.sink.note("truncate", handle, size_bytes)

    def sync(self, handle: int) -> None:
        begin = len(self.sink)
        if self._really_sync:
            super().sync(handle)
        self.sink.note("sync", handle, begin)

    def sync_path(self, path: str) -> None:
        begin = len(self.sink)
        if not Path(path).exists():
            raise FileNotFoundError(path)
        if self._really_sync:
            super().sync_path(path)
        self.sink.note("sync_path", path, begin)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        LOCAL.write_file(path, data)
        self.sink.note("file", path, data)
        if sync:
            self.sync_path(path)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.sink.note("rename", old, new)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.sink.note("remove", path)

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        self.sink.note("remove", path)

    def make_directory(self, path: str, *, sync: bool = False) -> None:
        LOCAL.make_directory(path)
        self.sink.note("make_directory", path, sync)


Names = dict[str, "File | Directory"]


@dataclass(eq=False, slots=True)
class File:
    """A file's flushed content, and its later changes: (number of the call, change)."""

    forced: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, Callable[[bytearray], None]]] = field(default_factory=list)

    def sync(self, begin: int) -> None:
        for number, change in self.changes:
            if number < begin:
                change(self.forced)
        self.changes = [each for each in self.changes if each[0] >= begin]

    def after_power_cut(self, random: Random) -> bytes:
        if not self.changes:
            return bytes(self.forced)
        latest = bytearray(self.forced)
        sizes = [len(latest)]
        for _, change in self.changes[: random.choice((len(self.changes), random.randrange(len(self.changes) + 1)))]:
            change(latest)
            sizes.append(len(latest))
        size = random.choice((sizes[0], sizes[-1], sizes[-1], random.choice(sizes)))
        found = bytearray(size)
        lost = random.choice((0.0, 0.5, 1.0))
        for start in range(0, size, PAGE):
            source = self.forced if random.random() < lost else latest
            page = source[start : min(start + PAGE, size)]
            found[start : start + len(page)] = page
        return bytes(found)


@dataclass(eq=False, slots=True)
class Directory:
    """A directory's flushed names, its current names, and its later changes."""

    forced: Names = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    changes: list[tuple[int, Callable[[Names], None]]] = field(default_factory=list)

    def change(self, number: int, change: Callable[[Names], None]) -> None:
        change(self.names)
        self.changes.append((number, change))

    def sync(self, begin: int) -> None:
        for number, change in self.changes:
            if number < begin:
                change(self.forced)
        self.changes = [each for each in self.changes if each[0] >= begin]

    def after_power_cut(self, random: Random) -> Names:
        found = dict(self.forced)
        kept = random.choice((0.0, 0.5, 0.9, 1.0))
        for _, change in self.changes:
            if random.random() < kept:
                change(found)
        return found


def _read_tree(path: Path) -> Directory:
    names: Names = {}
    for each in path.iterdir():
        names[each.name] = _read_tree(each) if each.is_dir() else File(bytearray(each.read_bytes()))
    return Directory(dict(names), names)


class Disk:
    """Follows a journal. `root` exists from the start and contains all noted paths."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._top = Directory()
        self._handles: dict[int, File] = {}
        self._number = 0

    def take_over(self) -> None:
        """Take the present content as flushed: the journal begins after it."""
        self._top = _read_tree(Path(self._root))

    def follow(self, call: tuple[Any, ...]) -> None:
        """Apply the next call of the journal."""
        name, *arguments = call
        getattr(self, f"_{name}")(*arguments)
        self._number += 1

    def cut(self, target: Path, random: Random) -> None:
        """Write a possible state after a power loss now into `target`."""
        shutil.rmtree(target, ignore_errors=True)
        self._lay_out(self._top, target, random)

    def _lay_out(self, directory: Directory, target: Path, random: Random) -> None:
        target.mkdir(parents=True)
        for name, node in directory.after_power_cut(random).items():
            if isinstance(node, Directory):
                self._lay_out(node, target / name, random)
            else:
                content = node.after_power_cut(random)
                with (target / name).open("wb") as file:  # indexes of active segments are mostly holes
                    file.write(content.rstrip(b"\0"))
                    file.truncate(len(content))

    # -- calls -------------------------------------------------------------------------------------------------------

    def _open(self, handle: int, path: str, empty: bool) -> None:
        file = self._handles[handle] = self._make_file(path)
        if empty:
            file.changes.append((self._number, bytearray.clear))

    def _make_file(self, path: str) -> File:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            node = self._add(directory, name, File())
        assert isinstance(node, File)
        return node

    def _add(self, directory: Directory, name: str, node: File | Directory) -> File | Directory:
        def change(names: Names) -> None:
            names.setdefault(name, node)

        directory.change(self._number, change)
        return node

    def _write(self, handle: int, position: int, data: bytes) -> None:
        self._write_into(self._handles[handle], position, data)

    def _write_into(self, file: File, position: int, data: bytes) -> None:
        def change(content: bytearray) -> None:
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(data)] = data

        file.changes.append((self._number, change))

    def _truncate(self, handle: int, size: int) -> None:
        def change(content: bytearray) -> None:
            del content[size:]
            content.extend(bytes(size - len(content)))

        self._handles[handle].changes.append((self._number, change))

    def _sync(self, handle: int, begin: int) -> None:
        self._handles[handle].sync(begin)

    def _sync_path(self, path: str, begin: int) -> None:
        if path == self._root:
            self._top.sync(begin)
            return
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is not None:
            node.sync(begin)

    def _file(self, path: str, data: bytes) -> None:
        file = self._make_file(path)
        file.changes.append((self._number, bytearray.clear))
        self._write_into(file, 0, data)

    def _rename(self, old: str, new: str) -> None:
        directory, name = self._parent(old)
        other, new_name = self._parent(new)
        assert directory is other, "a rename to another directory"
        node = directory.names.get(name)

        def change(names: Names) -> None:
            if names.get(name) is node and node is not None:
                names[new_name] = names.pop(name)

        directory.change(self._number, change)

    def _remove(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.names.get(name)

        def change(names: Names) -> None:
            if names.get(name) is node:
                names.pop(name, None)

        directory.change(self._number, change)

    def _make_directory(self, path: str, sync: bool) -> None:
        at = self._top
        for name in Path(path).relative_to(self._root).parts:
            node = at.names.get(name)
            if node is None:
                node = self._add(at, name, Directory())
                if sync:
                    at.sync(self._number + 1)
            assert isinstance(node, Directory)
            at = node

    def _parent(self, path: str) -> tuple[Directory, str]:
        *above, name = Path(path).relative_to(self._root).parts
        at = self._top
        for each in above:
            node = at.names[each]
            assert isinstance(node, Directory)
            at = node
        return at, name
