"""The archives that `pybroker.archives` names, as readers that retention waits for.

A thread reads the manifests that have changed (manifests.py), and the loop takes over the archived offsets. With
several processes each reads all archives, since each hosts partitions of its own. Only the owner logs unreadable ones.

An archive identifies topics by name. If its end offset is beyond the end of a log, it has the records of another topic
of that name, such as a deleted one. `pybroker archive` does not continue it, and retention does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.external_readers.archives.manifests import Archive, ManifestCheck, Manifests
from broker.external_readers.poller import InThread, Poller
from runtime.log_limit import LimitedLog
from runtime.log_text import first_names
from storage.checkpoints import TopicPartition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from runtime.timers import Timers

log = logging.getLogger(__name__)

#: A check of unchanged archives costs a system call for each.
INTERVAL_MS = 1_000


@dataclass(slots=True)
class _Known:
    """`positions`: each partition's lowest end, `behind`: its archive; `partitions`: by topic and archive."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    behind: dict[TopicPartition, str] = field(default_factory=dict)
    partitions: dict[str, dict[str, set[int]]] = field(default_factory=dict)

    def add(self, archive: Archive, but: Mapping[str, object]) -> None:
        """Add an archive, without some of its topics."""
        for place, end in archive.ends.items():
            topic, partition = place
            if topic in but:
                continue
            self.partitions.setdefault(topic, {}).setdefault(archive.name, set()).add(partition)
            if end < self.positions.get(place, end + 1):
                self.positions[place], self.behind[place] = end, archive.name


class Archives:
    """The archives as a Reader (broker/external_readers/holds.py). Its methods belong to the event loop's thread.

    Args:
        paths: directories of archives.
        log_end: returns the end offset of a partition; None if its log is not in this process, or closed.
        in_thread: as for Poller.
    """

    def __init__(
        self,
        paths: Sequence[str],
        log_end: Callable[[TopicPartition], int | None],
        loop: AbstractEventLoop,
        timers: Timers,
        *,
        in_thread: InThread | None = None,
    ) -> None:
        self._poller = Poller("archives", Manifests(paths).look, self._take, INTERVAL_MS, loop, timers, in_thread)
        self._log_end = log_end
        self._log = LimitedLog(log)
        self._known: _Known | None = None
        self._names: list[str] = []
        self._reported_problems: set[str] = set()
        self._reported_others: set[tuple[str, str]] = set()

    # -- what retention asks -------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether a check has finished: before the first one the archived offsets are unknown."""
        return self._known is not None

    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset from which on each partition is not archived."""
        return self._known.positions if self._known is not None else {}

    def name_of(self, place: TopicPartition) -> str:
        """Return the archive that is furthest behind in a partition."""
        return f"the archive {self._known.behind[place]}" if self._known is not None else "an archive"

    def readers_from_beginning(self, place: TopicPartition) -> Sequence[tuple[str, int]]:
        """Return archives of the topic that have nothing of a partition yet: they will read it from its beginning."""
        topic, partition = place
        archives = self._known.partitions.get(topic, {}) if self._known is not None else {}
        return [(f"the archive {name}", 0) for name, known in archives.items() if partition not in known]

    # -- checks --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Check now, and then at intervals."""
        self._poller.start()

    def stop(self) -> None:
        """Stop checking."""
        self._poller.stop()

    def _take(self, found: ManifestCheck) -> None:
        known, others = _Known(), set[tuple[str, str]]()
        for archive in found.archives:
            of_others = self._of_others(archive)
            known.add(archive, but=of_others)
            for topic, where in of_others.items():
                others.add((archive.name, topic))
                if (archive.name, topic) not in self._reported_others:
                    details = (archive.name, topic, where)
                    self._log.warning(
                        "The archive %s belongs to another topic %s, so retention does not wait for it: %s", *details
                    )
        self._known, self._reported_others = known, others
        self._log_changes(found)

    def _of_others(self, archive: Archive) -> Mapping[str, str]:
        """Return the topics of an archive that differ from the topics of that name here, with the reason."""
        found = {}
        for place, end in archive.ends.items():
            log_end = self._log_end(place)
            if log_end is not None and log_end < end:
                topic, partition = place
                found[topic] = f"{topic}-{partition} ends at offset {log_end}, but is archived up to {end}"
        return found

    def _log_changes(self, found: ManifestCheck) -> None:
        known = {archive.path for archive in found.archives}
        for path, problem in found.problems.items():
            if path not in self._reported_problems:
                held = "its last known offsets apply" if path in known else "until then retention does not wait for it"
                self._log.warning("The archive %s cannot be read: %s; %s", path, problem, held)
        self._reported_problems = set(found.problems)
        names = [archive.name for archive in found.archives]
        if names != self._names:
            log.info("Archives that retention waits for: %s", first_names(names))
            self._names = names
