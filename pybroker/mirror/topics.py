"""Topics of the copy: the same partitions and settings, and no record before the first offset of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import FoundOffsets, Place, Session
from pybroker.cli.topics import own_settings
from pybroker.mirror.partition import NotACopy

_ANY = str((1 << 63) - 1)
#: The copy keeps the timestamps of records, whatever timestamp settings the source has, and however old they are.
_WHILE_COPYING = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY,
    "message.timestamp.after.max.ms": _ANY,
}
#: Settings whose values name brokers of the source.
_ELSEWHERE = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}

#: Error codes of a topic that is being created.
APPEARING = {
    *(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
    KafkaError.UNKNOWN_TOPIC_ID,
}
#: Error codes of a topic that was deleted.
GONE = {
    *(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID),
    *(KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
}


class MirroredTopic(NamedTuple):
    """A topic of the source."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    id: str
    """The topic id; it changes when a topic is deleted and created again."""

    @property
    def places(self) -> list[Place]:
        return [(self.name, number) for number in range(self.partitions)]


class Chosen(NamedTuple):
    """The topics to copy, and errors by the names of the others."""

    topics: list[MirroredTopic]
    errors: dict[str, CommandError]


def chosen_topics(
    source: Session, names: Sequence[str], pattern: re.Pattern[str] | None, known: Sequence[MirroredTopic] | None
) -> Chosen:
    """Return the topics of these names, or all that match; never internal topics. CommandError if no broker responds.

    The settings of `known` topics are not requested again. None for the first time: then a missing name raises
    CommandError, as it may be misspelt.
    """
    if not names:
        there = source.admin.list_topics(timeout=source.timeout_s).topics
        names = [name for name in there if pattern is None or pattern.fullmatch(name)]
        known = known or ()
    chosen = Chosen([], {})
    settings = {(topic.name, topic.id): topic.settings for topic in known or ()}
    futures = {}
    if names:
        futures = source.admin.describe_topics(TopicCollection(list(names)), request_timeout=source.timeout_s)
    for name, future in sorted(futures.items()):
        try:
            each = source.wait(future, name)
            if each.is_internal or name.startswith("__"):
                continue
            key = name, str(each.topic_id)
            own = settings[key] if key in settings else own_settings(source, name)
        except CommandError as error:
            if error.error_code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                chosen.errors[name] = error
            elif known is None:
                raise
            continue
        chosen.topics.append(MirroredTopic(name, len(each.partitions), own, key[1]))
    return chosen


class Created(NamedTuple):
    """The topics that were created or extended, and the errors of others."""

    made: list[str]
    extended: list[str]
    errors: dict[str, CommandError]


def create_missing(target: Session, topics: Sequence[MirroredTopic]) -> Created:
    """Create missing topics and add missing partitions. Raises CommandError if no broker responds."""
    there = {
        name: len(topic.partitions) for name, topic in target.admin.list_topics(timeout=target.timeout_s).topics.items()
    }
    created = Created([], [], {})
    wanted = [
        NewTopic(
            each.name,
            num_partitions=each.partitions,
            replication_factor=-1,
            config={key: value for key, value in {**each.settings, **_WHILE_COPYING}.items() if key not in _ELSEWHERE},
        )
        for each in topics
        if each.name not in there
    ]
    if wanted:
        futures = target.admin.create_topics(wanted, request_timeout=target.timeout_s)
        created.made.extend(_done(target, futures, created.errors, KafkaError.TOPIC_ALREADY_EXISTS))
    more = []
    for each in topics:
        has = there.get(each.name, each.partitions)
        if has > each.partitions:
            text = f"{each.name}: the copy has {has} partitions, the source {each.partitions}"
            created.errors[each.name] = NotACopy(text)
        elif has < each.partitions:
            more.append(NewPartitions(each.name, each.partitions))
    if more:
        futures = target.admin.create_partitions(more, request_timeout=target.timeout_s)
        created.extended.extend(_done(target, futures, created.errors))
    for each in topics:
        if each.name in there and each.name not in created.errors:
            try:
                set_timestamps(target, each, copying=True)
            except CommandError as error:
                created.errors[each.name] = error
    return created


def _done(
    target: Session, futures: Mapping[str, Future[None]], errors: dict[str, CommandError], allowed: int | None = None
) -> list[str]:
    """Return the topics whose change succeeded; add the errors of the others."""
    done = []
    for name, future in futures.items():
        try:
            target.wait(future, name)
        except CommandError as error:
            if error.error_code != allowed:
                errors[name] = error
                continue
        done.append(name)
    return done


def served(target: Session, places: Sequence[Place]) -> FoundOffsets:
    """Return the ends of these partitions at their leaders; other brokers may know a topic earlier.

    The errors are those of partitions that may appear soon, and others. CommandError if no broker responds.
    """
    known = set(target.known(places))
    found = target.found_ends(known)
    for topic, partition in places:
        if (topic, partition) not in known:
            text = f"{topic}-{partition}: was created in the target, but does not appear"
            found.errors[topic, partition] = CommandError(text, KafkaError.UNKNOWN_TOPIC_OR_PART)
    return found


def set_timestamps(target: Session, topic: MirroredTopic, *, copying: bool) -> None:
    """Let the copy accept any timestamp while `copying`; else give it the source's settings. Raises CommandError."""
    own = own_settings(target, topic.name)
    changes = []
    for key, meanwhile in _WHILE_COPYING.items():
        value = meanwhile if copying else topic.settings.get(key)
        if own.get(key) != value:
            operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            changes.append(ConfigEntry(key, value, incremental_operation=operation))
    if not changes:
        return
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=changes)
    (future,) = target.admin.incremental_alter_configs([resource], request_timeout=target.timeout_s).values()
    target.wait(future, topic.name)


def cut_starts(target: Session, starts: Mapping[Place, int]) -> list[str]:
    """Delete records before the source's first offset; return a line for each failure."""
    ends = target.found_ends(starts).offsets
    now = target.found_starts(ends).offsets
    wanted = [
        TopicPartition(*place, min(starts[place], ends[place]))
        for place in now
        if now[place] < min(starts[place], ends[place])
    ]
    reported = []
    if wanted:
        for place, future in target.admin.delete_records(wanted, request_timeout=target.timeout_s).items():
            try:
                target.wait(future, f"{place.topic}-{place.partition}")
            except CommandError as error:  # POLICY_VIOLATION, for example, for a topic that is only compacted
                reported.append(f"{error}: its records before offset {place.offset} stay")
    return reported
