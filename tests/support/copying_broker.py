"""A broker with a tier, over real logs in a directory, without sockets, threads and remote storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.replicas.leader_reads import LeaderReads
from broker.replicas.own_appends import PartitionAppends
from broker.replicas.partition import Partition
from broker.tiering.services import TierServices
from broker.tiering.tier import Tier
from protocol.records.entries import iter_records
from remote.errors import Absent, Unreachable
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Health
from runtime.deferred import Deferred
from tests.support.data_client import batch
from tests.support.txn_broker import Crash, TxnBroker
from tiered.lineage import Lineage
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "1000",
}
TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "1000", "segment.bytes": "1048576"}
"""A topic whose segments have some records."""


class MemoryLayout:
    """Segments in memory. `fails`: operations that fail; `crash_after`: the process ends after so many halves of
    operations.
    """

    def __init__(self) -> None:
        #: By segment id: the records, or None while only a part is stored.
        self.objects: dict[bytes, bytes | None] = {}
        self.files: dict[bytes, SegmentFiles] = {}
        self.custom: bytes | None = None
        self.fails: set[str] = set()
        self.calls: list[str] = []
        self.crash_after: int | None = None
        self.state = Health()

    def _step(self) -> None:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                raise Crash

    def copy(self, partition: TopicIdPartition, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        self.calls.append(f"copy {segment.start_offset}")
        self.objects[segment.id] = None
        self._step()
        if "copy" in self.fails:
            raise Unreachable("key", "no answer")
        data = Path(files.log.path).read_bytes()[: files.log.size_bytes]
        self.objects[segment.id], self.files[segment.id] = data, files
        self._step()
        return self.custom

    def read(self, partition: TopicIdPartition, segment: RemoteSegment, start: int, size_bytes: int) -> bytes:
        data = self.objects.get(segment.id)
        if data is None:
            raise Absent("key", "no such object")
        return data[start : start + size_bytes]

    def read_index(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        return getattr(self.files[segment.id], kind.value)  # type: ignore[no-any-return]

    def delete(self, partition: TopicIdPartition, segment: RemoteSegment) -> None:
        self.calls.append(f"delete {segment.start_offset}")
        if "delete" in self.fails:
            raise Unreachable("key", "no answer")
        self._step()
        self.objects.pop(segment.id, None)
        self._step()

    def health(self) -> Health:
        return self.state

    def close(self) -> None:
        pass


class InstantPool:
    """Calls functions in place of a thread."""

    queued_count = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        called: Deferred[Any] = Deferred()
        try:
            called.resolve(function(*arguments))
        except Exception as error:
            called.fail(error)
        return called


class CopyingBroker(TxnBroker):
    """`tier` works on the logs; `layout` is the remote storage. `leader_reads`: of a member of a cluster."""

    leader_reads: LeaderReads | None = None

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.layout = MemoryLayout()
        super().__init__(directory, {**SETTINGS, **(settings or {})})

    def start_coordinators(self) -> None:
        super().start_coordinators()
        services = TierServices(
            config=self.config,
            loop=self.loop,  # type: ignore[arg-type]
            clock=self.clock,
            timers=self.timers,
            metadata=self.metadata,
            topics=self.topics,
            partitions=self.partitions,
            logs=self.logs,
            background=self.background,
            appends=PartitionAppends(self.partitions, self.appends, self.durability, self.clock),
            leader_reads=self.leader_reads,
        )
        threads = SimpleNamespace(copying=InstantPool(), deleting=InstantPool(), reading=InstantPool())
        self.tier = Tier(services, self.layout, threads)  # type: ignore[arg-type]
        self.tier.start()
        self.settle()

    def tiered(self, name: str = "t", **configs: str) -> Partition:
        """Create a topic that is tiered, with these settings (underscores for dots)."""
        given = {key.replace("_", "."): value for key, value in configs.items()}
        return self.create(name, 1, **{**TOPIC, **given})[0]

    def append(self, partition: Partition, count: int, size_bytes: int = 200) -> None:
        """Append so many batches of one record."""
        for _ in range(count):
            partition.append(bytearray(batch(b"x" * size_bytes, timestamp=self.clock.now_ms())), self.clock.now_ms())

    def round(self, count: int = 1) -> None:
        """Let the tier and the retention of the local disk work so many times."""
        for _ in range(count):
            self.advance(1000)
            self.background.retain()
            self.settle()

    def remote(self, partition: Partition) -> list[RemoteSegment]:
        """Return the known copies of a partition, in any state."""
        return list(self.tier.remote_logs.get(partition.topic_id, partition.index).segments)

    def check_all_readable(self, partition: Partition) -> None:
        """Check that each offset of the log is on the local disk or in a finished copy."""
        log = partition.log
        lineage = Lineage(tuple((epoch, start) for epoch, start in log.leader_epochs.entries), log.log_end_offset)
        segments = self.tier.remote_logs.get(partition.topic_id, partition.index).segments
        for offset in range(log.log_start_offset, log.local_start_offset):
            epoch = lineage.epoch_of(offset)
            found = None if epoch is None else segments.find(epoch, offset)
            assert found is not None, f"offset {offset} of {log} is nowhere"
            data = self.layout.objects[found.id]
            assert data is not None
            assert offset in [record.offset for record in iter_records(data)]
