"""The runs on the local disk: a bounded cache of what was read from remote storage, empty after a start."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable

from broker.tiering.reading.run import Run, RunContent
from storage.open_files import OpenFiles

#: Runs in memory, which are made while no file can be written. A run has some 4 MiB.
_MOST_IN_MEMORY = 8


class RunCache:
    """Runs by segment and offset. The least recently used ones are removed beyond `capacity_bytes()`.

    A run that is removed while it is being sent stays readable for that response. Belongs to the event loop's thread;
    `remove_file` is called with the path of a file that is no longer needed.
    """

    def __init__(
        self, files: OpenFiles, capacity_bytes: Callable[[], int], remove_file: Callable[[str], object]
    ) -> None:
        self._files = files
        self._capacity_bytes = capacity_bytes
        self._remove_file = remove_file
        #: By segment: the start offsets of its runs, ascending.
        self._starts: dict[bytes, list[int]] = {}
        self._runs: OrderedDict[tuple[bytes, int], Run] = OrderedDict()
        #: Those in memory, oldest first.
        self._in_memory: list[Run] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, segment_id: bytes, offset: int) -> Run | None:
        """Return the run that has `offset`, which counts as a use."""
        starts = self._starts.get(segment_id)
        at = bisect_right(starts, offset) if starts else 0
        if not starts or not at:
            return None
        key = segment_id, starts[at - 1]
        run = self._runs[key]
        if offset >= run.content.end_offset:
            return None
        self._runs.move_to_end(key)
        return run

    def add(self, content: RunContent) -> Run:
        """Add a run, and remove others while there are too many bytes. The new one stays, however large it is."""
        key = content.segment_id, content.start_offset
        known = self._runs.get(key)
        if known is not None:
            self.remove(known)
        run = self._runs[key] = Run(self._files, content)
        insort(self._starts.setdefault(content.segment_id, []), content.start_offset)
        self.size_bytes += content.size_bytes
        if not run.is_in_file:
            self._in_memory.append(run)
            if len(self._in_memory) > _MOST_IN_MEMORY:
                self.remove(self._in_memory[0])
        capacity = self._capacity_bytes()
        while self.size_bytes > capacity and len(self._runs) > 1:
            self.remove(next(iter(self._runs.values())))
        return run

    def remove(self, run: Run) -> None:
        """Remove a run and its file, if it is still in the cache."""
        content = run.content
        key = content.segment_id, content.start_offset
        if self._runs.get(key) is not run:
            return
        del self._runs[key]
        starts = self._starts[content.segment_id]
        starts.remove(content.start_offset)
        if not starts:
            del self._starts[content.segment_id]
        self.size_bytes -= content.size_bytes
        if run.is_in_file:
            self._remove_file(content.path)
        else:
            self._in_memory.remove(run)
        run.close()

    def forget(self, segment_id: bytes) -> None:
        """Remove all runs of a segment, which was deleted."""
        for start in list(self._starts.get(segment_id, ())):
            self.remove(self._runs[segment_id, start])
