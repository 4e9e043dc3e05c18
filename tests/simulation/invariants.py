"""Checks of the simulation: cluster invariants, examined where something changes. Each has a name and a message.

Log matching is checked by induction: a record of one offset and epoch has one value, and one epoch before it, wherever
it is appended. Records that were committed or acknowledged are kept, and each leader must have them when its epoch
begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metadata.partition_registration import NO_LEADER, PartitionRegistration
from replication.leading import Proposal
from replication.partition_key import PartitionKey
from tests.simulation.leaders import LAG_MS
from tests.simulation.log import Entry, ReplicaLog
from tests.simulation.metadata import ChangePartition
from tests.simulation.truth import Truth
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker import Process
    from tests.simulation.leaders import Leader
    from tests.simulation.world import World


class Invariants:
    """The checks of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.truths: dict[PartitionKey, Truth] = {}
        #: The end of the transaction that a metadata offset is in; the last divergence of each follower, and how often.
        self._ends: dict[int, int] = {}
        self._diverged: dict[int, tuple[object, int]] = {}

    def truth(self, key: PartitionKey) -> Truth:
        found = self.truths.get(key)
        if found is None:
            found = self.truths[key] = Truth()
        return found

    # -- logs --------------------------------------------------------------------------------------------------------

    def appended(self, log: ReplicaLog, offset: int, epoch: int, value: Any, before: int | None) -> None:
        """I1: replicas that have a record of the same offset and epoch are equal up to there.

        Deleted records may differ after an unclean election: the leader, as Apache Kafka's, has nothing left to compare
        them with, and no replica shows them.
        """
        truth = self.truth(log.key)
        written = truth.written
        if truth.unclean and offset <= truth.deleted:
            before = None
        known = written.get((offset, epoch))
        if known is None:
            written[offset, epoch] = value, before
            return
        if known[0] != value:
            raise Violation(
                "I1 log matching",
                f"broker {log.broker_id} has {value} at offset {offset} of epoch {epoch}, another has {known[0]}",
            )
        if before is not None and known[1] is not None and known[1] != before:
            raise Violation(
                "I1 log matching",
                f"on broker {log.broker_id} a record of epoch {before} precedes offset {offset} of epoch {epoch}, "
                f"on another broker one of epoch {known[1]}",
            )
        if known[1] is None:
            written[offset, epoch] = value, before

    def writing(self, leader: Leader, broker_id: int) -> None:
        """I4: only the leader of an epoch appends clients' records in it."""
        epoch = leader.state.leader_epoch
        if self.truth(leader.key).leaders.get(epoch) != broker_id:
            raise Violation(
                "I4 one leader an epoch", f"broker {broker_id} appends in epoch {epoch}, which it does not lead"
            )

    def fetched_from(self, log: ReplicaLog, source: int, epoch: int) -> None:
        """I4: a follower appends from the leader of its epoch, and nothing newer."""
        if self.truth(log.key).leaders.get(epoch) != source:
            raise Violation(
                "I4 one leader an epoch", f"broker {log.broker_id} fetches in epoch {epoch} from broker {source}"
            )
        if log.latest_epoch > epoch:
            raise Violation(
                "I4 one leader an epoch",
                f"broker {log.broker_id} follows in epoch {epoch} and has records of epoch {log.latest_epoch}",
            )

    def truncated(self, log: ReplicaLog, first: int, removed: list[Entry]) -> None:
        """I2: a replica that may be elected keeps what is committed."""
        truth = self.truth(log.key)
        if not removed or truth.last is None or not self._may_lead(log, truth.last):
            return
        epoch = truth.last.leader_epoch
        for offset, entry in enumerate(removed, first):
            is_committed = truth.committed.get(offset) == entry and not truth.may_be_lost(offset, epoch)
            if is_committed and offset >= truth.deleted:
                raise Violation(
                    "I2 committed records stay",
                    f"broker {log.broker_id} may be elected and truncates the committed record at {offset}",
                )
        self._offsets(log)

    def deleted(self, key: PartitionKey, offset: int) -> None:
        """DeleteRecords: nobody needs the records below `offset`."""
        truth = self.truth(key)
        truth.deleted = max(truth.deleted, offset)

    def _may_lead(self, log: ReplicaLog, state: PartitionRegistration) -> bool:
        if log.broker_id not in (*state.isr, *state.eligible_leader_replicas):
            return False
        process = self._world.processes.get(log.broker_id)
        known = self._world.controller.image.brokers.get(log.broker_id)
        return process is not None and known is not None and process.life.broker_epoch == known.epoch

    def followed(self, log: ReplicaLog) -> None:
        """A follower has taken over the leader's offsets."""
        self._offsets(log)
        offset = log.high_watermark - 1
        process = self._world.processes.get(log.broker_id)
        if process is not None and log.at(offset) is not None:
            self._was_shown(log, offset, process.hosted[log.key].leader_epoch)

    def _offsets(self, log: ReplicaLog) -> None:
        if not log.base <= log.log_start_offset <= log.high_watermark <= log.log_end_offset:
            raise Violation(
                "I11 order of offsets",
                f"broker {log.broker_id}: log start {log.log_start_offset}, high watermark {log.high_watermark}, "
                f"log end {log.log_end_offset}",
            )

    # -- leaders -----------------------------------------------------------------------------------------------------

    def leader_began(self, leader: Leader, broker_id: int) -> None:
        """I2 and I3: a new leader has all that was committed, unless its election was unclean."""
        truth, log, epoch = self.truth(leader.key), leader.log, leader.state.leader_epoch
        if truth.leaders.get(epoch) != broker_id:
            raise Violation(
                "I4 one leader an epoch", f"broker {broker_id} begins epoch {epoch}, which it does not lead"
            )
        self._compare(log, truth, epoch)
        for offset in range(log.log_start_offset, leader.state.high_watermark):
            self._was_shown(log, offset, epoch)

    def _was_shown(self, log: ReplicaLog, offset: int, epoch: int) -> None:
        """I3: a replica learns from leaders what is committed. It finds nothing committed by itself."""
        truth, entry = self.truth(log.key), log.at(offset)
        if truth.committed.get(offset) != entry and not (offset in truth.shown and truth.may_be_lost(offset, epoch)):
            raise Violation(
                "I3 high watermark",
                f"broker {log.broker_id} takes {entry} at offset {offset} for committed in epoch {epoch}",
            )

    def _compare(self, log: ReplicaLog, truth: Truth, epoch: int) -> None:
        for offset, entry in truth.committed.items():
            if offset < truth.deleted or log.at(offset) == entry or truth.shown[offset] >= epoch:
                continue
            if not truth.may_be_lost(offset, epoch):
                raise Violation(
                    "I2 committed records stay",
                    f"broker {log.broker_id} leads epoch {epoch} with {log.at(offset)} at offset {offset}, where "
                    f"{entry} was committed",
                )

    def committed(self, leader: Leader, broker_id: int, before: int) -> None:
        """I3: the high watermark never falls within an epoch, and what a consumer saw is never taken back."""
        truth, log, state = self.truth(leader.key), leader.log, leader.state
        if state.high_watermark < before:
            raise Violation(
                "I3 high watermark",
                f"on leader {broker_id} it falls from {before} to {state.high_watermark} in epoch {state.leader_epoch}",
            )
        self._offsets(log)
        for each in (state.isr.committed | (state.isr.proposed or frozenset())) - {broker_id}:
            follower = state.followers.get(each)
            if follower is not None and follower.log_end_offset < state.high_watermark:
                raise Violation(
                    "I6 maximal ISR",
                    f"leader {broker_id} commits up to {state.high_watermark}, follower {each} of the ISR has fetched "
                    f"up to {follower.log_end_offset}",
                )
        if truth.last is not None and truth.last.leader_epoch == state.leader_epoch:
            for each in set(truth.last.isr) & set(state.followers):
                if state.followers[each].log_end_offset < state.high_watermark:
                    raise Violation(
                        "I6 maximal ISR",
                        f"leader {broker_id} commits up to {state.high_watermark}, but broker {each} may be elected, "
                        f"which has fetched up to {state.followers[each].log_end_offset}",
                    )
                replica = self._world.disks[each].logs.get(leader.key)
                if replica is None or replica.log_end_offset >= state.high_watermark:
                    continue
                if self._may_lead(replica, truth.last):
                    raise Violation(
                        "I6 maximal ISR",
                        f"leader {broker_id} commits up to {state.high_watermark}, and the log of broker {each} in the "
                        f"ISR ends at {replica.log_end_offset}",
                    )
        for offset in range(max(before, log.log_start_offset), state.high_watermark):
            entry = log.at(offset)
            known = truth.committed.get(offset)
            is_lost = known is not None and truth.may_be_lost(offset, state.leader_epoch)
            if entry is None or (known is not None and known != entry and not is_lost):
                raise Violation(
                    "I3 high watermark",
                    f"leader {broker_id} of epoch {state.leader_epoch} shows {entry} at offset {offset}, where "
                    f"consumers saw {known}",
                )
            if known != entry and state.leader_epoch > truth.shown.get(offset, -1):
                truth.committed[offset] = entry
                truth.shown[offset] = state.leader_epoch
                self.became_committed(leader, offset, entry)
            self._newer_leader_has("I3 high watermark", truth, leader, offset, entry)

    def became_committed(self, leader: Leader, offset: int, entry: Entry) -> None:
        """A record is committed for the first time."""

    def _newer_leader_has(self, name: str, truth: Truth, leader: Leader, offset: int, entry: Entry) -> None:
        """A leader that was replaced commits nothing that its successor lacks."""
        state = truth.last
        if state is None or leader.state.leader_epoch >= state.leader_epoch or state.leader == NO_LEADER:
            return
        process = self._world.processes.get(state.leader)
        successor = process.leaders.partitions.get(leader.key) if process is not None else None
        if successor is not None and successor.state.leader_epoch > leader.state.leader_epoch:
            log = successor.log
            if any(leader.state.leader_epoch < each <= successor.state.leader_epoch for each in truth.unclean):
                return
            if log.log_start_offset <= offset and log.at(offset) != entry:
                raise Violation(
                    name,
                    f"the leader of epoch {leader.state.leader_epoch} commits {entry} at offset {offset}, which broker "
                    f"{log.broker_id} lacks, the leader of epoch {successor.state.leader_epoch}",
                )

    def acked(self, leader: Leader, broker_id: int, offset: int) -> None:
        """I2, I8: what acks=all acknowledges is committed, also where a new leader exists already."""
        truth, state, entry = self.truth(leader.key), leader.state, leader.log.at(offset)
        if offset not in truth.committed or entry is None:
            raise Violation("I2 committed records stay", f"broker {broker_id} acknowledges offset {offset} uncommitted")
        if truth.committed.get(offset) != entry and not truth.may_be_lost(offset, state.leader_epoch):
            raise Violation("I2 committed records stay", f"broker {broker_id} acknowledges offset {offset} uncommitted")
        self._newer_leader_has("I8 leader without a controller", truth, leader, offset, entry)

    def led(self, leader: Leader, broker_id: int) -> None:
        """I6: the committed ISR is what the metadata log says, and never an older one. I11."""
        self._offsets(leader.log)
        isr = leader.state.isr
        if isr.partition_epoch < leader.partition_epoch:
            raise Violation(
                "I6 committed ISR",
                f"leader {broker_id} goes back from partition epoch {leader.partition_epoch} to {isr.partition_epoch}",
            )
        leader.partition_epoch = isr.partition_epoch
        known = self.truth(leader.key).isr.get(isr.partition_epoch)
        if known != isr.committed:
            raise Violation(
                "I6 committed ISR",
                f"leader {broker_id} has {sorted(isr.committed)} at partition epoch {isr.partition_epoch}, the "
                f"metadata log {sorted(known or ())}",
            )

    def proposed(self, leader: Leader, proposal: Proposal, now_ms: int) -> None:
        """I6: a follower leaves the ISR only when it lags for replica.lag.time.max.ms."""
        isr = {each for each, _ in proposal.isr}
        image = self._world.processes[leader.state.node_id].image
        for each, epoch in proposal.isr:
            if each not in leader.state.isr.committed and image.broker_epoch(each) != epoch:
                raise Violation("I6 eligible ISR", f"the leader proposes broker {each}, of another epoch or not active")
        for each in leader.state.isr.committed - isr:
            seen_ms = leader.caught_up_ms.get(each)
            if seen_ms is not None and now_ms - seen_ms < LAG_MS:
                raise Violation(
                    "I6 early shrink", f"follower {each} had caught up {now_ms - seen_ms} ms before it leaves the ISR"
                )

    # -- the controller ----------------------------------------------------------------------------------------------

    def partition_changed(self, record: ChangePartition, before: PartitionRegistration | None) -> None:
        """I6: no broker that is fenced, leaves, or has an old epoch enters the ISR, and none that lacks records.

        Only an unclean election may take a broker that a late heartbeat has unfenced while it leaves, as Kafka's may.
        An unclean cancellation of a reassignment may take a fenced one, which leads later.
        """
        key, state, unclean = record
        truth = self.truth(key)
        truth.last = state
        truth.leaders[state.leader_epoch] = state.leader
        truth.isr[state.partition_epoch] = frozenset(state.isr)
        if before is None:
            return
        if unclean:
            self._is_needed(before, state)
            truth.unclean.append(state.leader_epoch)
        for each in set(state.isr) - set(before.isr) - set(before.eligible_leader_replicas):
            process: Process | None = self._world.processes.get(each)
            known: Any = self._world.controller.image.brokers.get(each)
            is_cancelled = unclean and state.leader == NO_LEADER
            if (known.fenced and not is_cancelled) or (known.shutting_down and not unclean):
                raise Violation("I6 eligible ISR", f"broker {each} enters the ISR and is not active")
            if process is None or process.life.broker_epoch != known.epoch:
                continue
            log = self._world.disks[each].logs.get(key)
            for offset, entry in truth.committed.items():
                if offset < truth.deleted or truth.may_be_lost(offset, state.leader_epoch):
                    continue
                if log is None or log.at(offset) != entry:
                    raise Violation("I6 eligible ISR", f"broker {each} enters the ISR and lacks offset {offset}")

    def _is_needed(self, before: PartitionRegistration, state: PartitionRegistration) -> None:
        """I6: an unclean election is allowed, or brings the last leader back; and no eligible replica is there."""
        controller = self._world.controller
        if not controller.unclean_allowed and (state.leader,) != before.last_known_elr:
            raise Violation("I6 unclean election", f"broker {state.leader} may lack records, and is elected")
        if before.leader != NO_LEADER:
            return  # it is about to go, and is not fenced yet
        for each in {*before.isr, *before.eligible_leader_replicas}.intersection(state.replicas):
            known: Any = controller.image.brokers.get(each)
            process = self._world.processes.get(each)
            if process is not None and process.life.broker_epoch != known.epoch:
                continue  # it registers again after an unclean stop, and is not eligible any more
            if known.is_active and known.has_online(before.directory_of(each)):
                raise Violation("I6 unclean election", f"broker {state.leader} is elected, and {each} was eligible")

    # -- brokers -----------------------------------------------------------------------------------------------------

    def transaction_begins(self, offset: int, length: int) -> None:
        """The controller writes a transaction; its end is at `offset` + `length`."""
        for each in range(offset, offset + length + 1):
            self._ends[each] = offset + length

    def applied(self, broker_id: int, offset: int, record: object, known: int) -> None:
        """I7: the image is a prefix of the committed metadata log, transactions whole.

        `known` is the broker's high watermark.
        """
        controller = self._world.controller
        if offset >= controller.committed or controller.log.at(offset).record != record:
            raise Violation("I7 committed metadata", f"broker {broker_id} applies {record} at offset {offset}")
        if self._ends.get(offset, -1) >= known:
            raise Violation(
                "I7 committed metadata", f"broker {broker_id} applies half a transaction at offset {offset}"
            )

    def diverged(self, broker_id: int, position: tuple[object, ...]) -> None:
        """F2: after a response about diverging logs the follower asks for something else. Else it never ends."""
        known = self._diverged.get(broker_id)
        count = known[1] + 1 if known is not None and known[0] == position else 1
        self._diverged[broker_id] = position, count
        if count > 3:
            raise Violation("F2 truncation ends", f"broker {broker_id} learns the same divergence again: {position}")

    def failed_over(
        self, partitions: dict[PartitionKey, PartitionRegistration], end: int, in_transaction: bool
    ) -> None:
        """Forget the records that the former controller did not commit; `in_transaction`: one is aborted at `end`."""
        for offset in [each for each, last in self._ends.items() if last >= end]:
            if offset <= end and in_transaction:
                self._ends[offset] = end
            else:
                del self._ends[offset]
        for key, state in partitions.items():
            truth = self.truth(key)
            truth.last = state
            truth.leaders[state.leader_epoch] = state.leader
            truth.isr[state.partition_epoch] = frozenset(state.isr)

    def role_taken(self, broker_id: int, key: PartitionKey, before: int, epoch: int, roles: int) -> None:
        """I5: one role at a time, and its epoch never falls."""
        if epoch < before:
            raise Violation("I5 roles", f"broker {broker_id} goes back from epoch {before} to {epoch} of {key[1]}")
        if roles > 1:
            raise Violation("I5 roles", f"broker {broker_id} has {roles} roles in partition {key[1]}")
