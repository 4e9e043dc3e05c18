"""Find the anomalies of a history that Jepsen's Kafka workload looks for, only from what clients saw.

The checker shares no code with the broker. Each value that was sent has at most one offset, and each offset one value,
for all readers. Readers that read everything, and the members of a group together, must see all that was promised.
Anomalies:

    lost write             acknowledged outside a transaction, or in a committed one, and missing
    lost read              a reader of committed records saw a value that one who reads everything does not find
    duplicate              one value at two offsets
    inconsistent offset    two values at one offset, or a value read at another offset than acknowledged
    phantom                a value that no client sent, or not to that partition
    aborted read (G1a)     a reader of committed records saw a value of an aborted transaction
    torn transaction       some values of a transaction with an unknown end are there and some are not
    order                  a producer's values in one partition in another order than they were sent in
    unmonotonic read       a reader's offsets in a partition go back
    lost commit            a member of a group begins below an offset that the group committed before
    stale commit           two members have commits accepted for a partition while one of them owns it all the time
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.support.history import (
    UNKNOWN_OFFSET,
    Acknowledged,
    Assigned,
    Committed,
    Committing,
    Ended,
    Event,
    Outcome,
    Partition,
    Read,
    ReadAll,
    Sent,
)


class Kind(StrEnum):
    """The kinds of anomalies."""

    LOST_WRITE = "lost write"
    LOST_READ = "lost read"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSET = "inconsistent offset"
    PHANTOM = "phantom"
    ABORTED_READ = "aborted read"
    TORN_TRANSACTION = "torn transaction"
    ORDER = "order"
    UNMONOTONIC_READ = "unmonotonic read"
    LOST_COMMIT = "lost commit"
    STALE_COMMIT = "stale commit"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A violation, with the events that show it."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Has:
    """A partition that a member owns: the number of its assignment, and the group's committed offset at that time."""

    group: str
    since: int
    committed: int


class _Groups:
    """The state of groups while their events are checked in order.

    The order of events is certain. An answer is noted after it was given, and a request before it is sent.
    """

    def __init__(self) -> None:
        self.found: list[Anomaly] = []
        self._groups: dict[str, str] = {}
        self._has: dict[tuple[str, Partition], _Has] = {}
        self._unread: set[tuple[str, Partition]] = set()
        self._committed: dict[tuple[str, Partition], int] = defaultdict(int)
        #: by group and partition: when each member sent its last accepted commit
        self._accepted: dict[tuple[str, Partition], dict[str, int]] = defaultdict(dict)
        #: the commit in flight: when it was sent, and who committed while the member owned the partition
        self._sent: dict[tuple[str, Partition], tuple[int, list[str]]] = {}

    def group_of(self, reader: str) -> str:
        """Return the group of a reader, or the reader itself if it is in none."""
        return self._groups.get(reader, reader)

    def assigned(self, event: Assigned, at: int) -> None:
        """Note that a member begins."""
        partition = event.topic, event.partition
        self._groups[event.reader] = event.group
        self._has[event.reader, partition] = _Has(event.group, at, self._committed[event.group, partition])
        self._unread.add((event.reader, partition))

    def read(self, event: Read) -> None:
        """Check where a member begins: its first record shows it."""
        place = event.reader, (event.topic, event.partition)
        if place in self._unread:
            self._unread.discard(place)
            if event.offset < self._has[place].committed:
                what = f"{place} begins at {event.offset}, committed was {self._has[place].committed}"
                self.found.append(Anomaly(Kind.LOST_COMMIT, what))

    def committing(self, event: Committing, at: int) -> None:
        """Note a commit that is sent. A member whose commits were accepted since the assignment is another owner."""
        partition = event.topic, event.partition
        has = self._has[event.reader, partition]
        accepted = self._accepted[has.group, partition]
        others = [reader for reader, sent in accepted.items() if reader != event.reader and sent > has.since]
        self._sent[event.reader, partition] = at, others

    def committed(self, event: Committed) -> None:
        """Note that a commit was accepted."""
        partition = event.topic, event.partition
        group = self._has[event.reader, partition].group
        at, others = self._sent[event.reader, partition]
        if others:
            what = f"{event.reader} and {others} commit for {partition}, which the first has all the time"
            self.found.append(Anomaly(Kind.STALE_COMMIT, what))
        self._accepted[group, partition][event.reader] = at
        self._committed[group, partition] = max(self._committed[group, partition], event.offset)


@dataclass
class _Told:
    """The events of a history, indexed."""

    sent: dict[str, Sent] = field(default_factory=dict)
    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    #: the readers that read all of a partition
    whole: set[tuple[str, Partition]] = field(default_factory=set)
    groups: _Groups = field(default_factory=_Groups)


def check(events: Iterable[Event]) -> list[Anomaly]:
    """Return all anomalies of a history."""
    told = _Told()
    found: list[Anomaly] = []
    for at, event in enumerate(events):
        match event:
            case Sent():
                assert event.value not in told.sent, f"the test has sent {event.value} twice"
                told.sent[event.value] = event
            case Acknowledged():
                told.acknowledged[event.value] = event
            case Ended():
                told.outcomes[event.transaction] = Outcome(event.outcome)
            case Read():
                told.reads.append(event)
                told.groups.read(event)
            case Assigned():
                told.groups.assigned(event, at)
            case Committing():
                told.groups.committing(event, at)
            case Committed():
                told.groups.committed(event)
            case ReadAll():
                told.whole.add((event.reader, (event.topic, event.partition)))
    found += _places(told)
    found += _readers(told)
    return found + told.groups.found


def _outcome(told: _Told, sent: Sent) -> Outcome | None:
    """Return how the value's transaction ended, or None outside a transaction."""
    return None if sent.transaction is None else told.outcomes.get(sent.transaction, Outcome.UNKNOWN)


def _places(told: _Told) -> list[Anomaly]:
    """Check each value and each offset over all readers and acknowledgements."""
    found: list[Anomaly] = []
    value_at: dict[tuple[Partition, int], str] = {}
    known_offsets = {value: each for value, each in told.acknowledged.items() if each.offset != UNKNOWN_OFFSET}
    placed: list[Acknowledged | Read] = [*known_offsets.values(), *told.reads]
    for event in placed:
        place = (event.topic, event.partition), event.offset
        known = value_at.setdefault(place, event.value)
        if known != event.value:
            found.append(Anomaly(Kind.INCONSISTENT_OFFSET, f"{place} has {known} and {event.value}"))
    offsets: dict[str, set[tuple[Partition, int]]] = defaultdict(set)
    for event in told.reads:
        offsets[event.value].add(((event.topic, event.partition), event.offset))
    for value, places in offsets.items():
        sent, acknowledged = told.sent.get(value), known_offsets.get(value)
        if sent is None or any(partition != (sent.topic, sent.partition) for partition, _ in places):
            found.append(Anomaly(Kind.PHANTOM, f"{value} was read at {sorted(places)}, sent: {sent}"))
        if len(places) > 1:
            found.append(Anomaly(Kind.DUPLICATE, f"{value} is at {sorted(places)}"))
        elif acknowledged and acknowledged.offset not in {offset for _, offset in places}:
            found.append(Anomaly(Kind.INCONSISTENT_OFFSET, f"{acknowledged} was read at {sorted(places)}"))
    return found


def _readers(told: _Told) -> list[Anomaly]:
    """Check what each reader saw of each partition, in its order."""
    found: list[Anomaly] = []
    streams: dict[tuple[str, Partition], list[Read]] = defaultdict(list)
    for read in told.reads:
        streams[read.reader, (read.topic, read.partition)].append(read)
    for (reader, partition), reads in streams.items():
        where = f"{reader} in {partition}"
        for before, after in itertools.pairwise(reads):
            if after.offset <= before.offset:
                found.append(Anomaly(Kind.UNMONOTONIC_READ, f"{where}: {after.offset} after {before.offset}"))
        found += _order(told, where, reads)
        for read in reads:
            sent = told.sent.get(read.value)
            if read.committed and sent is not None and _outcome(told, sent) is Outcome.ABORTED:
                found.append(Anomaly(Kind.ABORTED_READ, f"{where}: {read.value} of {sent.transaction}"))
    seen: dict[tuple[str, Partition], set[str]] = defaultdict(set)
    for (reader, partition), reads in streams.items():
        for who in (reader, told.groups.group_of(reader)):
            seen[who, partition].update(read.value for read in reads)
    for reader, partition in sorted(told.whole):
        found += _missing(told, reader, partition, seen[reader, partition])
        found += _vanished(told, reader, partition, seen[reader, partition])
    return found + _torn(told)


def _order(told: _Told, where: str, reads: list[Read]) -> list[Anomaly]:
    place = {value: number for number, value in enumerate(told.sent)}
    last: dict[str, Sent] = {}
    found = []
    for read in reads:
        sent = told.sent.get(read.value)
        if sent is None:
            continue
        before = last.get(sent.producer)
        if before is not None and place[before.value] > place[sent.value]:
            found.append(Anomaly(Kind.ORDER, f"{where}: {sent.value} behind {before.value}, which was sent later"))
        last[sent.producer] = sent
    return found


def _missing(told: _Told, reader: str, partition: Partition, seen: set[str]) -> list[Anomaly]:
    """Check that a reader of everything saw all that was promised."""
    found = []
    for value, sent in told.sent.items():
        if (sent.topic, sent.partition) != partition or value in seen:
            continue
        outcome = _outcome(told, sent)
        promised = value in told.acknowledged if outcome is None else outcome is Outcome.COMMITTED
        if promised:
            found.append(Anomaly(Kind.LOST_WRITE, f"{reader} has not seen {sent}"))
    return found


def _vanished(told: _Told, reader: str, partition: Partition, seen: set[str]) -> list[Anomaly]:
    """Check that a reader of everything saw what others saw, whether or not it was acknowledged."""
    others = {each.value: each for each in told.reads if each.committed and (each.topic, each.partition) == partition}
    return [
        Anomaly(Kind.LOST_READ, f"{reader} has not seen {each}")
        for value, each in others.items()
        if value not in seen and value not in told.acknowledged
    ]


def _torn(told: _Told) -> list[Anomaly]:
    """Check for transactions of which only a part is there, in partitions that a reader read to the end."""
    whole = {partition for _, partition in told.whole}
    committed = {read.value for read in told.reads if read.committed}
    values: dict[str, list[Sent]] = defaultdict(list)
    for sent in told.sent.values():
        if sent.transaction is not None and _outcome(told, sent) is Outcome.UNKNOWN:
            values[sent.transaction].append(sent)
    found = []
    for transaction, parts in values.items():
        there = [sent for sent in parts if sent.value in committed]
        gone = [sent for sent in parts if sent.value not in committed and (sent.topic, sent.partition) in whole]
        if there and gone:
            found.append(Anomaly(Kind.TORN_TRANSACTION, f"{transaction}: {there[0]} is there, {gone[0]} is not"))
    return found
