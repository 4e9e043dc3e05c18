"""Topics of the copy: the same partitions and settings, and no record before the first offset of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session
from pybroker.cli.topics import describe, describe_all, own_settings

_ANY = str((1 << 63) - 1)
#: The copy keeps the timestamps of records, whatever timestamp settings the source has, and however old they are.
_WHILE_COPYING = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY,
    "message.timestamp.after.max.ms": _ANY,
}
#: Settings whose values name brokers of the source.
_ELSEWHERE = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}

_APPEARING = {
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


def chosen_topics(
    source: Session, names: Sequence[str], pattern: re.Pattern[str] | None, known: Sequence[MirroredTopic] = ()
) -> list[MirroredTopic]:
    """Return the topics of these names, or all that match; never internal topics. Raises CommandError.

    The settings of `known` topics are not requested again. With `known` topics, a missing name is not an error.
    """
    if names:
        found = describe(source, names, if_there=bool(known))
    else:
        found = [each for each in describe_all(source) if pattern is None or pattern.fullmatch(each.name)]
    settings = {(topic.name, topic.id): topic.settings for topic in known}
    chosen = []
    for each in sorted(found, key=lambda each: each.name):
        if each.is_internal or each.name.startswith("__"):
            continue
        key = each.name, str(each.topic_id)
        try:
            own = settings[key] if key in settings else own_settings(source, each.name)
        except CommandError as error:
            if error.error_code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            continue  # deleted in between
        chosen.append(MirroredTopic(each.name, len(each.partitions), own, key[1]))
    return chosen


def create_missing(target: Session, topics: Sequence[MirroredTopic]) -> list[str]:
    """Create missing topics and add missing partitions; return the created topics. Raises CommandError."""
    there = {
        name: len(topic.partitions) for name, topic in target.admin.list_topics(timeout=target.timeout_s).topics.items()
    }
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
        for name, future in futures.items():
            try:
                target.wait(future, name)
            except CommandError as error:
                if error.error_code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    more = []
    for each in topics:
        has = there.get(each.name, each.partitions)
        if has > each.partitions:
            raise CommandError(f"{each.name}: the copy has {has} partitions, the source {each.partitions}")
        if has < each.partitions:
            more.append(NewPartitions(each.name, each.partitions))
    if more:
        target.wait_for_all(target.admin.create_partitions(more, request_timeout=target.timeout_s))
    for each in topics:
        if each.name in there:
            set_timestamps(target, each, copying=True)
    return [each.topic for each in wanted]


def are_there(target: Session, places: Sequence[Place]) -> bool:
    """Whether the leaders of these partitions serve them; other brokers may know a topic earlier. CommandError."""
    if len(target.known(places)) < len(places):
        return False
    try:
        target.ends(places)
    except CommandError as error:
        if error.error_code not in _APPEARING:
            raise
        return False
    return True


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
    """Delete records before the source's first offset; return a line for each failure. Raises CommandError."""
    ends = target.ends(starts)
    now = target.starts(starts)
    wanted = [
        TopicPartition(*place, min(start, ends[place]))
        for place, start in starts.items()
        if now[place] < min(start, ends[place])
    ]
    reported = []
    if wanted:
        for place, future in target.admin.delete_records(wanted, request_timeout=target.timeout_s).items():
            try:
                target.wait(future, f"{place.topic}-{place.partition}")
            except CommandError as error:
                if error.error_code != KafkaError.POLICY_VIOLATION:  # the error for a topic that is only compacted
                    raise
                reported.append(f"{error}: its records before offset {place.offset} stay")
    return reported
