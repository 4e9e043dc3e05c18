"""The metadata of a simulated cluster: records, the log that has them, and their image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from metadata.features import ELIGIBLE_LEADER_REPLICAS, MAX_METADATA_VERSION, METADATA_VERSION
from metadata.partition_registration import LOST_DIRECTORY, PartitionRegistration, is_reserved_directory
from protocol.messages.broker_registration import Feature, Listener
from replication.followed_log import EpochEnd
from replication.partition_key import PartitionKey

LISTENERS = [Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)]
FEATURES = [
    Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=MAX_METADATA_VERSION),
    Feature(name=ELIGIBLE_LEADER_REPLICAS, min_supported_version=0, max_supported_version=1),
]


class TopicId(bytes):
    """A topic id whose hash does not change from process to process, so that sets have the same order in each."""

    #: Any number would do. A function of Python's own takes half the time, and each look-up of a partition calls it.
    __hash__ = bytes.__len__


TOPIC = TopicId(bytes(15) + b"\x09")


class BrokerState(NamedTuple):
    """A registration."""

    epoch: int
    incarnation: bytes
    fenced: bool = True
    shutting_down: bool = False
    directories: tuple[bytes, ...] = ()

    def has_online(self, directory: bytes) -> bool:
        """Kafka's BrokerRegistration.hasOnlineDir: a directory that is not known yet may be online."""
        if directory == LOST_DIRECTORY:
            return False
        return is_reserved_directory(directory) or not self.directories or directory in self.directories

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.shutting_down


class RegisterBroker(NamedTuple):
    """RegisterBrokerRecord."""

    broker_id: int
    state: BrokerState


class ChangeBroker(NamedTuple):
    """BrokerRegistrationChangeRecord."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    shutting_down: bool = False
    directories: tuple[bytes, ...] | None = None


class ChangePartition(NamedTuple):
    """PartitionRecord or PartitionChangeRecord, with all fields. `unclean`: the leader may lack committed records."""

    key: PartitionKey
    state: PartitionRegistration
    unclean: bool = False


class Marker(NamedTuple):
    """NoOpRecord, or the record that begins, ends or aborts a transaction."""

    name: str


BEGIN, END, ABORT, NO_OP = Marker("begin"), Marker("end"), Marker("abort"), Marker("no-op")
Record = RegisterBroker | ChangeBroker | ChangePartition | Marker


class Image:
    """The state after some records."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerState] = {}
        self.partitions: dict[PartitionKey, PartitionRegistration] = {}

    def broker_epoch(self, broker_id: int) -> int | None:
        found = self.brokers.get(broker_id)
        return found.epoch if found is not None and found.is_active else None

    def apply(self, record: Record) -> None:
        if isinstance(record, ChangePartition):
            key, self.partitions[key], _ = record
        elif isinstance(record, RegisterBroker):
            broker_id, self.brokers[broker_id] = record
        elif isinstance(record, ChangeBroker):
            broker_id, _, fenced, leaves, directories = record
            state = self.brokers[broker_id]
            self.brokers[broker_id] = BrokerState(
                state.epoch,
                state.incarnation,
                state.fenced if fenced is None else fenced,
                state.shutting_down or leaves,
                state.directories if directories is None else directories,
            )


class Transactions:
    """Holds the records of a transaction back until it ends."""

    def __init__(self) -> None:
        self._open: list[tuple[int, Record]] | None = None

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def take(self, offset: int, record: Record) -> list[tuple[int, Record]]:
        """Return the records that may be applied now, with their offsets."""
        if self._open is None and type(record) is not Marker:
            return [(offset, record)]
        if record == BEGIN:
            self._open = []
        elif record in (END, ABORT):
            found, self._open = self._open or [], None
            return found if record == END else []
        elif self._open is not None:
            self._open.append((offset, record))
        else:
            return [(offset, record)]
        return []


class Written(NamedTuple):
    """A record in the log. Lists of these stand for bytes on the wire. `ends_batch`: the last one of its batch."""

    epoch: int
    record: Record
    ends_batch: bool


class MetadataLog:
    """Written records from `start` on; those before it are in the snapshot."""

    def __init__(self) -> None:
        self.snapshot: tuple[Written, ...] = ()
        self.snapshot_epoch = 0
        self.written: list[Written] = []

    @property
    def start(self) -> int:
        return len(self.snapshot)

    @property
    def log_end_offset(self) -> int:
        return len(self.snapshot) + len(self.written)

    @property
    def latest_epoch(self) -> int:
        return self.written[-1].epoch if self.written else self.snapshot_epoch

    def at(self, offset: int) -> Written:
        start = len(self.snapshot)
        return self.written[offset - start] if offset >= start else self.snapshot[offset]

    def between(self, first: int, end: int) -> Sequence[Written]:
        """Return the records from `first` to before `end`, which may be unknown (-1)."""
        if end <= first:
            return ()
        assert end <= self.log_end_offset
        start = len(self.snapshot)
        if first >= start:
            return self.written[first - start : end - start]
        return (*self.snapshot[first:end], *self.written[: max(0, end - start)])

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        if epoch > self.latest_epoch:
            return EpochEnd(-1, -1)
        found = self.snapshot_epoch
        for index, each in enumerate(self.written):
            if each.epoch > epoch:
                return EpochEnd(found, self.start + index)
            found = each.epoch
        return EpochEnd(found, self.log_end_offset)

    def append(self, records: Any) -> None:
        self.written.extend(records)

    def truncate(self, offset: int) -> None:
        del self.written[max(0, offset - self.start) :]

    def install(self, end_offset: int, epoch: int, snapshot: bytes) -> None:
        """`snapshot` is the name of one in `snapshots`."""
        found = snapshots[bytes(snapshot)]
        assert len(found) == end_offset
        self.snapshot, self.snapshot_epoch, self.written = found, epoch, []

    def trim(self, offset: int) -> None:
        """Make a snapshot that ends at `offset`, and drop the records before it."""
        kept = self.written[offset - self.start :]
        taken = self.snapshot + tuple(self.written[: offset - self.start])
        self.snapshot, self.snapshot_epoch, self.written = taken, taken[-1].epoch, kept


#: The snapshots that are on the wire, by the bytes that stand for them.
snapshots: dict[bytes, tuple[Written, ...]] = {}


def name_snapshot(snapshot: tuple[Written, ...], epoch: int) -> bytes:
    """Return bytes that stand for a snapshot."""
    name = b"%d:%d" % (len(snapshot), epoch)
    snapshots[name] = snapshot
    return name
