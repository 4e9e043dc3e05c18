"""Checks of transactions and of group offsets: T1 to T5, G1 and G2.

The truth about transactions is the committed part of `__transaction_state`. A partition may show no more than that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator.group.kinds import parse_record as parse_group_record
from coordinator.group.records import OffsetRecord
from coordinator.transaction.records import parse_record
from coordinator.transaction.state import PREPARED, TransactionState
from coordinator.transaction.transaction import Transaction
from replication.partition_key import PartitionKey
from tests.simulation.coordination.image import Places
from tests.simulation.coordination.producer_log import Batch, ProducerLog, TransactionKey, parse
from tests.simulation.log import Entry, ReplicaLog
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.leaders import Leader


class TransactionChecks:
    """The checks of one world. `is_void` after an unclean election, which may lose decisions and records."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.is_void = False
        self.outcomes: dict[TransactionKey, bool] = {}
        self._transactions: dict[str, Transaction] = {}
        self._ended: Counter[tuple[int, int]] = Counter()
        #: The transaction that a marker of a producer and epoch ends; that of each marker, by index, offset and epoch.
        self._decided: dict[tuple[int, int], TransactionKey] = {}
        self._closes: dict[tuple[int, int, int], TransactionKey] = {}
        #: Offsets of groups: the transactions that commit them, their last committed records with their leader epochs,
        #: and by group and epoch the newest record that a client knows of.
        self._offsets: dict[int, TransactionKey] = {}
        self._records: dict[int, tuple[int, int]] = {}
        self._acknowledged: dict[str, Counter[int]] = {}
        #: By partition: the last stable offset at the highest high watermark, and that.
        self._shown: dict[int, tuple[int, int]] = {}

    # -- logs --------------------------------------------------------------------------------------------------------

    def became_committed(self, key: PartitionKey, offset: int, entry: Entry) -> None:
        """A record is in all in-sync replicas: follow the coordinators."""
        value = entry[1]
        if not isinstance(value, bytes):
            return
        if key[1] == self._places.transactions:
            record = parse_record(*_key_and_value(value))
            if record.transaction is not None:
                self._follow(record.transaction)
        elif key[1] == self._places.offsets:
            batch = parse(value)
            found = parse_group_record(batch.key, batch.value) if batch.marker is None else None
            if isinstance(found, OffsetRecord) and found.committed is not None:
                self._records[found.committed.offset] = offset, entry[0]

    def _follow(self, found: Transaction) -> None:
        before = self._transactions.get(found.transactional_id)
        self._transactions[found.transactional_id] = found
        if found.state in PREPARED and before is not None:
            owner = before.producer_id, before.producer_epoch
            key = TransactionKey(*owner, self._ended[owner])
            self._ended[owner] += 1
            self.outcomes[key] = found.state is TransactionState.PREPARE_COMMIT
            self._decided[found.producer_id, found.producer_epoch] = key

    def appended(self, log: ReplicaLog, offset: int, epoch: int, value: bytes) -> None:
        """T1: a marker follows a committed decision. T3: no record comes after the marker of its transaction."""
        if self.is_void or log.key[1] == self._places.transactions:
            return
        batch = parse(value)
        if batch.marker is not None:
            place = log.key[1], offset, epoch
            if place not in self._closes:  # a follower may copy it when a later decision is committed
                self._closes[place] = self._check_marker(log, offset, batch)
        elif batch.transaction is not None:
            found = batch.transaction
            for each in (found.producer_epoch, found.producer_epoch + 1):
                for marker in log.producers.markers.get((found.producer_id, each), ()):
                    entry = log.at(marker)
                    if entry is not None and self._closes.get((log.key[1], marker, entry[0])) == found:
                        raise Violation(
                            "T3 hanging transaction",
                            f"broker {log.broker_id} appends a record of {found} at {offset}, which ended at {marker}",
                        )

    def _check_marker(self, log: ReplicaLog, offset: int, batch: Batch) -> TransactionKey:
        assert batch.marker is not None
        found = self._decided.get((batch.header.producer_id, batch.header.producer_epoch))
        if found is None or self.outcomes[found] is batch.marker.aborted:
            raise Violation(
                "T1 markers follow decisions",
                f"broker {log.broker_id} has a marker of {batch.header.producer_id}, {batch.header.producer_epoch} at "
                f"{offset}, aborted: {batch.marker.aborted}, and the decision is {found}",
            )
        return found

    def moved(self, leader: Leader) -> None:
        """T2: what becomes stable is visible if its transaction is committed, and hidden if it is aborted."""
        log = leader.log
        producers = log.producers
        end = stable_offset(log)
        if not self.is_void and leader.key[1] != self._places.transactions:
            for offset in range(max(producers.checked, log.log_start_offset, log.base), end):
                self._check_stable(log, producers, offset)
        producers.checked = max(producers.checked, end)
        shown, committed = self._shown.get(leader.key[1], (0, 0))
        if log.high_watermark < committed:
            return  # this leader does not know yet what is committed
        if not self.is_void and end < shown:
            raise Violation(
                "T5 last stable offset",
                f"leader {log.broker_id} of {leader.key[1]} has {end} at {log.high_watermark}, readers saw {shown}",
            )
        self._shown[leader.key[1]] = end, log.high_watermark

    def _check_stable(self, log: ReplicaLog, producers: ProducerLog, offset: int) -> None:
        entry = log.at(offset)
        assert entry is not None
        found = parse(entry[1]).transaction if isinstance(entry[1], bytes) else None
        if found is None:
            return
        is_visible = producers.is_visible(offset, found.producer_id)
        if self.outcomes.get(found) is not is_visible:
            raise Violation(
                "T2 transactions are atomic",
                f"leader {log.broker_id} of {log.key[1]} shows offset {offset} of {found}: {is_visible}, and it is "
                f"committed: {self.outcomes.get(found)}",
            )

    # -- clients -----------------------------------------------------------------------------------------------------

    def end_was_answered(self, key: TransactionKey, commit: bool) -> None:
        """T4: an end that was answered is committed, and it is the one that was asked for."""
        if self.is_void:
            return
        if self.outcomes.get(key) is not commit:
            raise Violation(
                "T4 ends that were answered",
                f"the end of {key} was answered, commit: {commit}, and what is decided is {self.outcomes.get(key)}",
            )
        if commit:
            for offset in [each for each, found in self._offsets.items() if found == key]:
                self.commit_was_answered("h", offset)

    def new_offset(self, key: TransactionKey) -> int:
        """Return an offset that the transaction commits for its group."""
        offset = 1_000_000 + len(self._offsets)
        self._offsets[offset] = key
        return offset

    def commit_was_answered(self, group: str, offset: int) -> None:
        """G1: the record of an offset that was acknowledged is committed."""
        if self.is_void:
            return
        if offset not in self._records:
            raise Violation("G1 acknowledged offsets", f"offset {offset} of {group} is acknowledged, and not committed")
        record, epoch = self._records[offset]
        newest = self._acknowledged.setdefault(group, Counter())
        newest[epoch] = max(newest[epoch], record)

    def newest_acknowledged(self, group: str) -> dict[int, int]:
        """Return by leader epoch where the newest record is of which a client knows."""
        return dict(self._acknowledged.get(group, ()))

    def offset_was_fetched(self, group: str, offset: int, acknowledged: dict[int, int], epoch: int) -> None:
        """G2: what is fetched is committed, and not older than what was acknowledged before the fetch.

        A coordinator that has not learnt yet of its successor, the leader of a later epoch, cannot know what that one
        has acknowledged. It answers, as Apache Kafka's does.
        """
        if self.is_void:
            return
        known = max((record for each, record in acknowledged.items() if each <= epoch), default=-1)
        record = -1 if offset == -1 else self._records.get(offset, (None, 0))[0]
        transaction = self._offsets.get(offset)
        if record is None or record < known or (transaction is not None and self.outcomes.get(transaction) is not True):
            raise Violation(
                "G2 fetched offsets",
                f"{group} has offset {offset}, whose record is at {record}, and one at {known} was acknowledged; "
                f"its transaction is {transaction}",
            )


def stable_offset(log: ReplicaLog) -> int:
    """Return the last stable offset of a leader's log, whatever is deleted."""
    state = log.producers.state
    state.note_high_watermark(log.high_watermark)
    stable = state.first_unstable_offset
    return log.high_watermark if stable is None else min(stable, log.high_watermark)


def _key_and_value(value: bytes) -> tuple[bytes | None, bytes | None]:
    batch = parse(value)
    return batch.key, batch.value
