"""Topics of the copy: as many partitions, the same settings, and no record that is older than the source's first."""

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
#: A copy keeps its records' timestamps, whatever the source does with those of its producers, and however old they are.
_WHILE_COPYING = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY,
    "message.timestamp.after.max.ms": _ANY,
}
#: Settings that name brokers of the source.
_ELSEWHERE = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}

_APPEARING = {
    *(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
    KafkaError.UNKNOWN_TOPIC_ID,
}
#: What is said of a topic that was deleted.
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
    """Another one where a topic was deleted and made anew."""

    @property
    def places(self) -> list[Place]:
        return [(self.name, number) for number in range(self.partitions)]


def chosen_topics(
    source: Session, names: Sequence[str], pattern: re.Pattern[str] | None, known: Sequence[MirroredTopic] = ()
) -> list[MirroredTopic]:
    """Those of these names, or all whose name matches; never Kafka's own. Raises CommandError.

    Settings of `known` ones are not asked for again, and where there are such, names that are gone are no mistake.
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


def make_alike(target: Session, topics: Sequence[MirroredTopic]) -> list[str]:
    """Make those that are missing, give others more partitions; what was made. Raises CommandError."""
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
    """Whether the leaders of these partitions answer; others than they may know of a topic first. CommandError."""
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
    """Have the copy's broker take any timestamp, or do what the source's topic says from now on. CommandError."""
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
    """Take away what is older than the source's first record; lines on what cannot be cut. Raises CommandError."""
    ends = target.ends(starts)
    now = target.starts(starts)
    wanted = [
        TopicPartition(*place, min(start, ends[place]))
        for place, start in starts.items()
        if now[place] < min(start, ends[place])
    ]
    told = []
    if wanted:
        for place, future in target.admin.delete_records(wanted, request_timeout=target.timeout_s).items():
            try:
                target.wait(future, f"{place.topic}-{place.partition}")
            except CommandError as error:
                if error.error_code != KafkaError.POLICY_VIOLATION:  # of a topic that is only compacted
                    raise
                told.append(f"{error}: its records before offset {place.offset} stay")
    return told
