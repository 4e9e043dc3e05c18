"""The reference controller: registrations, sessions, elections, AlterPartition, and the metadata log.

Kafka's QuorumController as far as replication needs it. A failover keeps only what is committed, and some of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from metadata.decision import Refused
from metadata.partition_change import Election, Wanted
from metadata.partition_registration import NO_LEADER, UNASSIGNED_DIRECTORY, PartitionRegistration
from metadata.reassignments import _cancellation, _reassignment
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import ALTER_PARTITION, ResponsePartitionData, ResponseTopicData
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.assign_replicas_to_dirs import ResponseDirectoryData as AssignedDirectory
from protocol.messages.assign_replicas_to_dirs import ResponsePartitionData as AssignedPartition
from protocol.messages.assign_replicas_to_dirs import ResponseTopicData as AssignedTopic
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.schema import Struct
from replication.partition_key import PartitionKey
from tests.simulation.active import SESSION_MS, ActiveController
from tests.simulation.elections import change
from tests.simulation.metadata import (
    ABORT,
    BEGIN,
    END,
    NO_OP,
    BrokerState,
    ChangeBroker,
    ChangePartition,
    Record,
    RegisterBroker,
    Transactions,
)

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants


class Controller(ActiveController):
    """The reference.

    Its responses must wait until all that it has written is committed: also an error may come of what is not.
    """

    def __init__(self, min_isr: int, checks: Invariants) -> None:
        super().__init__(min_isr, checks)
        self._sessions: dict[int, int] = {}
        self._applied: dict[int, int] = {}
        self._leaves_at: dict[int, int] = {}

    def start(self) -> None:
        """All of it is copied."""

    def stop(self) -> None:
        """All of it can be copied."""

    # -- the log -----------------------------------------------------------------------------------------------------

    def write(self, records: list[Record], *, atomic: bool = True) -> None:
        """Append records as a batch, or in a transaction."""
        in_transaction = self.in_transactions and not atomic
        if in_transaction:
            self._checks.transaction_begins(self.log.log_end_offset, len(records) + 1)
            records = [BEGIN, *records, END]
        for record in records:
            self._append(record, ends_batch=in_transaction or record is records[-1])
        if not self.holds:
            self.commit()

    def write_all(self, records: list[Record]) -> None:
        """Append records, if there are any."""
        if records:
            self.write(records)

    def commit(self) -> None:
        self.committed = self.log.log_end_offset

    def fail_over(self, kept: int, now_ms: int) -> None:
        self._lose_tail(kept)
        transactions = Transactions()
        for offset, each in enumerate((*self.log.snapshot, *self.log.written)):
            for _, record in transactions.take(offset, each.record):
                self.image.apply(record)
        self._checks.failed_over(self.image.partitions, self.log.log_end_offset, transactions.is_open)
        self.write([ABORT] if transactions.is_open else [NO_OP])
        self._sessions = {each: now_ms + SESSION_MS for each, state in self.image.brokers.items() if not state.fenced}
        self._applied, self._leaves_at = {}, {}

    # -- brokers -----------------------------------------------------------------------------------------------------

    def register(self, request: Struct, now_ms: int) -> Struct:
        broker_id = request.broker_id
        known = self.image.brokers.get(broker_id)
        is_new = known is None or known.incarnation != request.incarnation_id
        if known is not None and is_new and self._sessions.get(broker_id, 0) > now_ms:
            return BROKER_REGISTRATION.response(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        epoch = self.log.log_end_offset if known is None or is_new else known.epoch
        state = BrokerState(epoch, request.incarnation_id, directories=tuple(request.log_dirs))
        if known is not None and not is_new:
            state = known._replace(directories=tuple(request.log_dirs))
        records: list[Record] = [RegisterBroker(broker_id, state)]
        if known is not None and is_new and request.previous_broker_epoch != known.epoch:
            records += self.moves(removed=broker_id, unclean=True)
        self._sessions[broker_id] = now_ms + SESSION_MS
        self._applied[broker_id] = -1
        self.write(records)
        return BROKER_REGISTRATION.response(broker_epoch=epoch)

    def heartbeat(self, request: Struct, now_ms: int) -> Struct:
        """Kafka's BrokerHeartbeatManager.calculateNextBrokerState, and the records of the state."""
        broker_id = request.broker_id
        known = self.image.brokers.get(broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return BROKER_HEARTBEAT.response(error_code=ErrorCode.STALE_BROKER_EPOCH)
        is_caught_up = request.current_metadata_offset >= known.epoch
        self._sessions[broker_id] = now_ms + SESSION_MS
        self._applied[broker_id] = request.current_metadata_offset
        self._take_offline(broker_id, request.offline_log_dirs)
        records: list[Record] = []
        fenced, leaves = known.fenced, False
        if known.fenced:
            if request.want_shut_down:
                leaves = True
            elif not request.want_fence and is_caught_up:
                fenced = False
                records = [ChangeBroker(broker_id, known.epoch, fenced=False), *self.moves(added=broker_id)]
        elif request.want_fence:
            fenced, leaves = True, request.want_shut_down
        elif request.want_shut_down:
            if broker_id not in self._leaves_at:  # a late heartbeat may have unfenced it after its shutdown
                records = self.moves(removed=broker_id)
                if not known.shutting_down:
                    records = [ChangeBroker(broker_id, known.epoch, shutting_down=True), *records]
                self._leaves_at[broker_id] = self.log.log_end_offset + len(records)
            elif not self._leads(broker_id) and self._lowest_applied() + 1 >= self._leaves_at[broker_id]:
                fenced = leaves = True
        if fenced and not known.fenced:
            records = self._fence(broker_id, known)
        self.write_all(records)
        return BROKER_HEARTBEAT.response(is_caught_up=is_caught_up, is_fenced=fenced, should_shut_down=leaves)

    def _take_offline(self, broker_id: int, directories: Sequence[bytes]) -> None:
        """Move the leaders of directories that went offline. Kafka's handleDirectoriesOffline."""
        known = self.image.brokers[broker_id]
        if not set(known.directories) & set(directories):
            return
        online = tuple(each for each in known.directories if each not in directories)
        lost = {key for key, each in self.image.partitions.items() if each.directory_of(broker_id) in directories}
        moved = self.moves(removed=broker_id, among=lost)
        self.write([*moved, ChangeBroker(broker_id, known.epoch, directories=online)])

    def _leads(self, broker_id: int) -> bool:
        return any(each.leader == broker_id for each in self.image.partitions.values())

    def _lowest_applied(self) -> int:
        return min((self._applied.get(each, -1) for each, state in self.image.brokers.items() if not state.fenced))

    def _fence(self, broker_id: int, known: BrokerState) -> list[Record]:
        self._leaves_at.pop(broker_id, None)
        return [*self.moves(removed=broker_id), ChangeBroker(broker_id, known.epoch, fenced=True)]

    def end_sessions(self, now_ms: int) -> None:
        for broker_id, state in list(self.image.brokers.items()):
            if not state.fenced and self._sessions.get(broker_id, 0) <= now_ms:
                self.write(self._fence(broker_id, state), atomic=False)

    # -- partitions --------------------------------------------------------------------------------------------------

    def moves(
        self,
        *,
        removed: int | None = None,
        added: int | None = None,
        unclean: bool = False,
        among: Collection[PartitionKey] | None = None,
    ) -> list[Record]:
        """Return the changes of partitions, of all or `among` some, when a broker goes or comes."""

        records: list[Record] = []
        for key, old in self.image.partitions.items():
            if among is not None and key not in among:
                continue
            if removed is None and old.leader != NO_LEADER:
                continue
            if removed is not None and removed not in (*old.isr, *(old.eligible_leader_replicas if unclean else ())):
                continue
            found = change(
                old,
                self._acceptable(old, removed, added),
                self.min_isr,
                Wanted(
                    isr=tuple(each for each in old.isr if each != removed),
                    lost=(removed,) if unclean and removed is not None else (),
                    election=Election.UNCLEAN if self.unclean_allowed else Election.ONLINE,
                ),
            )
            if found is not None:
                records.append(ChangePartition(key, *found))
        return records

    def elect_unclean(self) -> None:
        """ElectLeaders of partitions without a leader."""
        records: list[Record] = []
        for key, old in self.image.partitions.items():
            if old.leader == NO_LEADER:
                found = change(old, self._acceptable(old), self.min_isr, Wanted(election=Election.UNCLEAN))
                if found is not None:
                    records.append(ChangePartition(key, *found))
        self.write_all(records)

    def allow_unclean(self) -> None:
        self.unclean_allowed = True
        self.elect_unclean()

    def prefer(self, key: PartitionKey, broker_id: int) -> bool:
        old = self.image.partitions[key]
        if broker_id not in old.replicas or broker_id == old.leader:
            return False
        order = (broker_id, *(each for each in old.replicas if each != broker_id))
        first = old._replace(replicas=order, directories=tuple(map(old.directory_of, order)) if old.directories else ())
        found = change(first, self._acceptable(first), self.min_isr, Wanted(election=Election.PREFERRED))
        if found is None or found.state.leader != broker_id:
            return False
        self.write([ChangePartition(key, *found)])
        return True

    def create(self, partitions: Iterable[tuple[PartitionKey, tuple[int, ...]]]) -> None:
        self.write(
            [
                ChangePartition(
                    key, PartitionRegistration(each, each, each[0], 0, 0, (UNASSIGNED_DIRECTORY,) * len(each))
                )
                for key, each in partitions
            ],
            atomic=False,
        )

    def _acceptable(
        self, partition: PartitionRegistration, removed: int | None = None, added: int | None = None
    ) -> Callable[[int], bool]:
        """Return whether a broker may lead: it is active, and its directory works. Kafka's LeaderAcceptor."""
        brokers = self.image.brokers

        def may_lead(broker_id: int) -> bool:
            known = brokers.get(broker_id)
            if known is None or broker_id == removed or not (broker_id == added or known.is_active):
                return False
            return known.has_online(partition.directory_of(broker_id))

        return may_lead

    def reassign(self, key: PartitionKey, replicas: tuple[int, ...] | None) -> bool:
        old = self.image.partitions[key]
        try:
            wanted = _cancellation(old, "", key[1]) if replicas is None else _reassignment(old, replicas)
        except Refused:
            return False
        found = change(old, self._acceptable(old), self.min_isr, wanted)
        if found is None:
            return False
        self.write([ChangePartition(key, *found)])
        return True

    def assign_directories(self, request: Struct) -> Struct:
        """AssignReplicasToDirs. Kafka's handleAssignReplicasToDirs."""
        known = self.image.brokers.get(request.broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return ASSIGN_REPLICAS_TO_DIRS.response(error_code=ErrorCode.STALE_BROKER_EPOCH)
        directories = [self._assign(request.broker_id, known, asked) for asked in request.directories]
        return ASSIGN_REPLICAS_TO_DIRS.response(directories=directories)

    def _assign(self, broker_id: int, known: BrokerState, asked: Struct) -> Struct:
        topics = []
        for topic in asked.topics:
            answers = []
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                old = self.image.partitions.get(key)
                error = ErrorCode.NONE
                if old is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif broker_id not in old.replicas:
                    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif old.directory_of(broker_id) != asked.id:
                    wanted = Wanted(directories={broker_id: asked.id})
                    found = change(old, self._acceptable(old), self.min_isr, wanted)
                    assert found is not None
                    self.write([ChangePartition(key, *found)])
                if not error and not known.has_online(asked.id):
                    self.write_all(self.moves(removed=broker_id, among=[key]))
                answers.append(AssignedPartition(partition_index=key[1], error_code=error))
            topics.append(AssignedTopic(topic_id=topic.topic_id, partitions=answers))
        return AssignedDirectory(id=asked.id, topics=topics)

    def alter_partition(self, request: Struct) -> Struct:
        known = self.image.brokers.get(request.broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return ALTER_PARTITION.response(error_code=ErrorCode.STALE_BROKER_EPOCH)
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            answers = [
                self._alter((topic.topic_id, each.partition_index), request.broker_id, each, records)
                for each in topic.partitions
            ]
            topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=answers))
        self.write_all(records)
        return ALTER_PARTITION.response(topics=topics)

    def _alter(self, key: PartitionKey, broker_id: int, asked: Struct, records: list[Record]) -> Struct:
        old = self.image.partitions.get(key)
        error = ErrorCode.UNKNOWN_TOPIC_ID if old is None else self._refusal(old, broker_id, asked)
        if old is None or error != ErrorCode.NONE:
            return ResponsePartitionData(partition_index=key[1], error_code=error)
        isr = tuple(each.broker_id for each in asked.new_isr_with_epochs)
        found = change(old, self._acceptable(old), self.min_isr, Wanted(isr=isr))
        if found is not None:
            records.append(ChangePartition(key, *found))
        now = found.state if found is not None else old
        return ResponsePartitionData(
            partition_index=key[1],
            leader_id=now.leader,
            leader_epoch=now.leader_epoch,
            isr=list(now.isr),
            partition_epoch=now.partition_epoch,
        )

    def _refusal(self, old: PartitionRegistration, broker_id: int, asked: Struct) -> int:
        """Kafka's validateAlterPartitionData."""
        isr = [each.broker_id for each in asked.new_isr_with_epochs]
        if asked.leader_epoch > old.leader_epoch or asked.partition_epoch > old.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < old.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if broker_id != old.leader:
            return ErrorCode.INVALID_REQUEST
        if asked.partition_epoch < old.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if broker_id not in isr or not set(isr) <= set(old.replicas):
            return ErrorCode.INVALID_REQUEST
        for each in asked.new_isr_with_epochs:
            epoch = self.image.broker_epoch(each.broker_id)
            if epoch is None or each.broker_epoch not in (-1, epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE
