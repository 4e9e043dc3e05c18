"""The files of a simulated broker, which outlive its processes: logs in two log directories, and the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replication.partition_key import PartitionKey
from tests.simulation.log import ReplicaLog
from tests.simulation.metadata import Image, MetadataLog

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants


class Placed(NamedTuple):
    """A log, or a copy of one, in a directory."""

    place: bytes
    log: ReplicaLog


class Disk:
    """The files of a broker.

    - `places`: the directory of each log.
    - `failed`: directories that do not work; those in `repaired` will, from the next start on.
    - `hidden`: logs in directories that did not work at the last start. The process does not know of them.
    - `copies`: copies that were to replace a log in another directory (KIP-113).
    - `clean`: by directory, the epoch of a broker that stopped in order.
    """

    def __init__(self, broker_id: int, checks: Invariants) -> None:
        self.broker_id = broker_id
        self.checks = checks
        self.logs: dict[PartitionKey, ReplicaLog] = {}
        self.metadata = MetadataLog()
        self.directories = tuple(bytes([16 * broker_id + each]) * 16 for each in (1, 2))
        self.places: dict[PartitionKey, bytes] = {}
        self.failed: set[bytes] = set()
        self.repaired: set[bytes] = set()
        self.hidden: dict[PartitionKey, Placed] = {}
        self.copies: dict[PartitionKey, Placed] = {}
        self.clean: dict[bytes, int] = {}

    @property
    def online(self) -> list[bytes]:
        """The directories that work."""
        return [each for each in self.directories if each not in self.failed]

    # -- starts and ends ---------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """A process starts. Return the epoch of the last one if all directories are of its clean stop, else -1."""
        self.failed -= self.repaired
        self.repaired.clear()
        for key in [key for key, place in self.places.items() if place in self.failed]:
            self.hidden[key] = Placed(self.places.pop(key), self.logs.pop(key))
        for log in self.logs.values():
            log.open()
        epochs = {self.clean.pop(each, -1) for each in self.online}
        return epochs.pop() if len(epochs) == 1 else -1

    def load(self, image: Image, broker_id: int) -> None:
        """Look through the directories that work: remove what is assigned to others, and one of two logs."""
        for key in [key for key, found in self.hidden.items() if found.place not in self.failed]:
            place, log = self.hidden.pop(key)
            known = self.logs.get(key)
            state = image.partitions.get(key)
            assigned = state.directory_of(broker_id) if state is not None else b""
            if known is None or (log.log_end_offset, assigned == place) > (
                known.log_end_offset,
                assigned == self.places[key],
            ):
                self.places[key], self.logs[key] = place, log
                log.open()
        for key in list(self.places):
            state = image.partitions.get(key)
            if state is None or broker_id not in state.replicas:
                self.remove(key)

    def mark_clean(self, epoch: int) -> None:
        """A process has stopped in order."""
        self.clean |= dict.fromkeys(self.online, epoch)

    def repair(self) -> None:
        """There is room again, and all directories will work at the next start."""
        self.repaired |= self.failed
        for log in (*self.logs.values(), *(each.log for each in self.hidden.values())):
            log.broken = False

    def crash(self, kept: int | None) -> None:
        """The process is killed; with `kept`, the power fails and all but that many unflushed records are lost."""
        placed = (*self.hidden.values(), *self.copies.values())
        for log in (*self.logs.values(), *(each.log for each in placed)):
            log.crash(kept)

    # -- logs --------------------------------------------------------------------------------------------------------

    def log(self, key: PartitionKey, assigned: bytes, *, is_new: bool) -> ReplicaLog | None:
        """Return the log; a copy or a new log if there is none; None if it is, or may be, in a failed directory."""
        place = self.places.get(key)
        if place is not None:
            return None if place in self.failed else self.logs[key]
        if self.failed and not is_new:
            return None
        copy = self.copies.pop(key, None)
        if copy is not None and copy.place not in self.failed:
            self.places[key], self.logs[key] = copy
            copy.log.open()
        else:
            self.places[key] = assigned if assigned in self.online else self.online[key[1] % len(self.online)]
            self.logs[key] = ReplicaLog(self.broker_id, key, self.checks)
        return self.logs[key]

    def remove(self, key: PartitionKey) -> None:
        """Remove a log, unless its directory does not work."""
        place, log = self.places.pop(key, None), self.logs.pop(key, None)
        if place in self.failed and log is not None:
            self.hidden[key] = Placed(place, log)

    def copy(self, key: PartitionKey, target: bytes) -> None:
        """Copy a log into another directory."""
        self.copies[key] = Placed(target, self.logs[key].copy())

    def swap(self, key: PartitionKey) -> None:
        """Put the copy, with what was written meanwhile, in the place of its log."""
        copy = self.copies.pop(key, None)
        if copy is not None and key in self.places:
            self.places[key] = copy.place
