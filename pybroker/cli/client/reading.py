"""The partitions that a consumer reads, and the offsets where it starts and ends."""

from __future__ import annotations

import argparse
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session
from pybroker.cli.topics import describe

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicDescription

#: How often the consumer looks for new topics and partitions, or for partitions that have lost their leader.
LOOK_EVERY_S = 5.0
#: The group rebalances, or has removed this member: it gets a new assignment, and continues.
_REBALANCED = (22, 25, 27, 113)  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH
#: Errors for a partition of a deleted topic.
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name, or by a regular expression for full names, without internal topics, as in Kafka's consumer."""

    names: tuple[str, ...]
    include: re.Pattern[str] | None

    def there(self, session: Session) -> list[TopicDescription]:
        """Return the existing topics. Raises CommandError if a named one does not exist."""
        if self.include is None:
            return describe(session, self.names)
        known = session.admin.list_topics(timeout=session.timeout_s).topics
        names = [name for name in known if self.include.fullmatch(name)]
        return [each for each in describe(session, names, if_there=True) if not each.is_internal] if names else []


class Reading(ABC):
    """A consumer's partitions. `ends` holds the current end of each partition that has records after its start."""

    def __init__(self, session: Session, consumer: Consumer, options: argparse.Namespace, topics: Topics) -> None:
        self.ends: dict[Place, int] = {}
        #: Partitions that are not read to their end, because they have no leader.
        self.offline: list[Place] = []
        #: Matching topics may be deleted: that is no error.
        self.goes_on_without = GONE if topics.include is not None else ()
        self._session = session
        self._consumer = consumer
        self._options = options
        self._topics = topics
        self._looked = time.monotonic()
        self._leaderless: Set[Place] = frozenset()

    @abstractmethod
    def begin(self) -> None:
        """Start to read. Raises CommandError for a missing topic or partition."""

    def look_again(self) -> None:
        """Add matching topics that were created meanwhile. If there is an end, give up partitions that are offline."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        if self._options.until_end:
            self._give_up_offline()
        elif self._topics.include is not None:
            self._take_up(self._topics.there(self._session))

    def _give_up_offline(self) -> None:
        """Give up partitions that have had no leader for two looks: an election leaves them without one for moments."""
        topics = describe(self._session, sorted({topic for topic, _ in self.ends}), if_there=True)
        before, self._leaderless = self._leaderless, leaderless(topics)
        for place in sorted(before & self._leaderless & self.ends.keys()):
            del self.ends[place]
            self.offline.append(place)

    def commit(self) -> None:
        """Commit the position of a group. Raises KafkaException."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in self.goes_on_without:
                raise

    @abstractmethod
    def _take_up(self, topics: Sequence[TopicDescription]) -> None:
        """Read these partitions from now on."""


class GrouplessReader(Reading):
    """Reads without a group, from any offset."""

    _places: Sequence[Place] = ()

    def begin(self) -> None:
        topics = self._topics.there(self._session)
        if not topics and self._options.until_end:
            raise CommandError("no topic matches")
        self._places = self._chosen(topics)
        if self._options.until_end:
            offline = leaderless(topics)
            self.offline = [place for place in self._places if place in offline]
            self._places = [place for place in self._places if place not in offline]
        begin, ends = _ranges(self._session, self._options, self._places)
        self._consumer.assign(_at(begin))
        self.ends = {place: end for place, end in ends.items() if end > begin[place]}

    def _take_up(self, topics: Sequence[TopicDescription]) -> None:
        """Read new topics from their beginning, as the consumer was running when they were created."""
        places, before = self._chosen(topics), self._places
        self._places = places
        if removed := set(before).difference(places):
            self._consumer.incremental_unassign(_at(dict.fromkeys(removed, OFFSET_BEGINNING)))
        if fresh := set(places).difference(before):
            self._consumer.incremental_assign(_at(dict.fromkeys(fresh, OFFSET_BEGINNING)))

    def _chosen(self, topics: Sequence[TopicDescription]) -> list[Place]:
        """Return the partitions to read. Raises CommandError for a missing one."""
        if not self._options.partition:
            return [(topic.name, each.id) for topic in topics for each in topic.partitions]
        ((name, known),) = [(topic.name, [each.id for each in topic.partitions]) for topic in topics]
        for partition in self._options.partition:
            if partition not in known:
                raise CommandError(f"{name}: unknown partition {partition}; known: 0 to {max(known)}")
        return [(name, partition) for partition in dict.fromkeys(self._options.partition)]


class Member(Reading):
    """Reads as a member of a group, from the group's offsets."""

    _subscribed: Set[str] = frozenset()

    def begin(self) -> None:
        if self._topics.include is None:
            self._subscribe(self._topics.names)
        else:
            self._take_up(self._topics.there(self._session))

    def _take_up(self, topics: Sequence[TopicDescription]) -> None:
        self._subscribe([each.name for each in topics])

    def _subscribe(self, names: Sequence[str]) -> None:
        if self._subscribed != set(names):
            self._subscribed = set(names)
            self._consumer.subscribe(list(names), on_assign=self._commit_beginnings)

    def _commit_beginnings(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Commit the start of partitions without a committed offset, as Java's consumer does.

        Otherwise later records of a partition that is empty now would be missed: the group's next member would start
        at its end.
        """
        found = consumer.committed(assigned, timeout=self._session.timeout_s)
        fresh = [(each.topic, each.partition) for each in found if each.offset < 0]
        if self._options.from_beginning:
            begin = self._session.starts(fresh)
        else:
            begin = self._session.ends(fresh, committed=self._options.isolation_level == "read_committed")
        if begin:
            try:
                consumer.commit(offsets=_at(begin), asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in _REBALANCED:
                    raise


def leaderless(topics: Iterable[TopicDescription]) -> set[Place]:
    """Return the partitions without a leader, which cannot be read."""
    return {(topic.name, each.id) for topic in topics for each in topic.partitions if each.leader is None}


def _ranges(
    session: Session, options: argparse.Namespace, places: Sequence[Place]
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Return the start and the current end of each partition."""
    ends = session.ends(places)
    starts = session.starts(places)
    if options.since is not None:
        return session.since(places, options.since), ends
    if options.offset is None or options.offset in ("earliest", "latest"):
        return (starts if options.from_beginning or options.offset == "earliest" else ends), ends
    if options.offset < 0:
        return {place: max(starts[place], ends[place] + options.offset) for place in places}, ends
    return {place: min(max(options.offset, starts[place]), ends[place]) for place in places}, ends


def _at(offsets: Mapping[Place, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
