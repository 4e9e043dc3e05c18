"""The active controller of a simulated cluster, as brokers and steps see it.

There are two: the reference (controller.py), and pybroker's own (own_controller.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from protocol.schema import Struct
from replication.partition_key import PartitionKey
from runtime.deferred import Deferred
from tests.simulation.metadata import ChangePartition, Image, MetadataLog, Record, Written

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

SESSION_MS = 9_000

Answer: TypeAlias = Struct | Deferred[Struct]
"""A response, or one that comes when it may be sent."""


class ActiveController(ABC):
    """The active controller. `committed` is the high watermark of its log; `image` has all that is written."""

    def __init__(self, min_isr: int, checks: Invariants) -> None:
        self.min_isr = min_isr
        self.epoch = 1
        self.log = MetadataLog()
        self.image = Image()
        self.committed = 0
        #: Whether records wait for `commit`.
        self.holds = False
        self.unclean_allowed = False
        self.in_transactions = False
        self._checks = checks

    @property
    def node_id(self) -> int:
        return 100 + self.epoch % 2

    def _append(self, record: Record, *, ends_batch: bool) -> None:
        """Append a record, apply it, and check what it changes."""
        self.log.append([Written(self.epoch, record, ends_batch)])
        if isinstance(record, ChangePartition):
            before = self.image.partitions.get(record.key)
            self.image.apply(record)
            self._checks.partition_changed(record, before)
        else:
            self.image.apply(record)

    def _lose_tail(self, kept: int) -> None:
        """Keep what is committed, and `kept` of the batches after it. The next epoch begins."""
        ends = [
            offset + 1 for offset in range(self.committed, self.log.log_end_offset) if self.log.at(offset).ends_batch
        ]
        self.log.truncate(max([self.committed, *ends[:kept]]))
        self.epoch += 1
        self.image = Image()

    @abstractmethod
    def start(self) -> None:
        """Begin in a copy of a cluster that runs."""

    @abstractmethod
    def stop(self) -> None:
        """Drop what cannot be copied."""

    # -- the log and time --------------------------------------------------------------------------------------------

    @abstractmethod
    def commit(self) -> None:
        """Commit all that is written."""

    @abstractmethod
    def fail_over(self, kept: int, now_ms: int) -> None:
        """Another controller becomes active; it has `kept` of the batches that are not committed."""

    @abstractmethod
    def end_sessions(self, now_ms: int) -> None:
        """Time has passed: fence the brokers that sent no heartbeat for a session."""

    # -- requests of brokers -----------------------------------------------------------------------------------------

    @abstractmethod
    def register(self, request: Struct, now_ms: int) -> Answer:
        """Answer BrokerRegistration."""

    @abstractmethod
    def heartbeat(self, request: Struct, now_ms: int) -> Answer:
        """Answer BrokerHeartbeat."""

    @abstractmethod
    def alter_partition(self, request: Struct) -> Answer:
        """Answer AlterPartition."""

    @abstractmethod
    def assign_directories(self, request: Struct) -> Answer:
        """Answer AssignReplicasToDirs."""

    # -- requests of operators ---------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, partitions: Iterable[tuple[PartitionKey, tuple[int, ...]]]) -> None:
        """Create partitions with these replicas."""

    @abstractmethod
    def prefer(self, key: PartitionKey, broker_id: int) -> bool:
        """Put a replica first, and elect it if it may lead."""

    @abstractmethod
    def reassign(self, key: PartitionKey, replicas: tuple[int, ...] | None) -> bool:
        """AlterPartitionReassignments: begin a reassignment, or cancel it with None. Return whether it could."""

    @abstractmethod
    def allow_unclean(self) -> None:
        """unclean.leader.election.enable, from now on."""
