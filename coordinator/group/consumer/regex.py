"""Subscriptions by regular expression: which topics an expression stands for.

Expressions (see expressions.py) are looked at anew when topics have been created, and at times because rights may have
changed; not in the request that brings them but soon after, for all of a group at once, and the group goes on to its
next epoch when that changes what it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from coordinator.clock import Now
from coordinator.group.consumer import records as stored
from coordinator.group.consumer.expressions import compile_expression
from coordinator.group.consumer.group import ConsumerGroup, regex_of
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.consumer.records import ResolvedRegex, group_record, regex_record
from coordinator.group.records import StoredRecord
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey

#: The least time between two looks at a group's expressions, whatever happens.
LEAST_PAUSE_MS = 10_000
NOT_YET = ResolvedRegex(frozenset(), -1, -1)


class RegexChange(Enum):
    """What a member's heartbeat did to its expression."""

    NONE = "none"
    CHANGED = "changed"
    """It has another one now, whose topics are not known yet."""
    RESOLVED = "resolved"
    """It has another one, or none, and what it reads is known: the group changes at once."""


def update_regexes(
    shard: GroupShard,
    group: ConsumerGroup,
    old: ConsumerMember | None,
    member: ConsumerMember,
    now: Now,
    records: list[StoredRecord],
) -> tuple[RegexChange, bool]:
    """What a member's change means for the group's expressions, and whether they are to be resolved soon."""
    before, after = regex_of(old), regex_of(member)
    change, is_new = RegexChange.NONE, False
    if before != after:
        change = RegexChange.CHANGED
        if before is not None and group.regex_subscribers(before) == 1:
            records.append(stored.tombstone(group.group_id, stored.REGEX, before))
        if after is None:
            change = RegexChange.RESOLVED
        elif not group.regex_subscribers(after):
            compile_expression(after)
            is_new = True
        elif after in group.regexes:
            change = RegexChange.RESOLVED
    if not is_new and not group.subscribed_regexes:
        return change, False
    expressions = group.subscription([] if old is None else [old], [member]).regexes
    return change, bool(expressions) and are_due(shard, group, expressions, now, is_new=is_new)


def are_due(
    shard: GroupShard, group: ConsumerGroup, expressions: Collection[str], now: Now, *, is_new: bool = False
) -> bool:
    """Whether a group that has these expressions now should look at them, one of them new to it, and is not to yet."""
    last = next(iter(group.regexes.values()), None)
    if TimerKey("regex", group.group_id) in shard.timers:
        return False
    if last is None:
        return True
    since_ms = now.tick_ms - group.resolved_tick_ms
    if since_ms <= LEAST_PAUSE_MS:
        return False
    return (
        is_new
        or len(expressions) != len(group.regexes)
        or last.version < shard.cluster.new_topics_version
        or since_ms > shard.settings.consumer.regex_refresh_interval_ms
    )


def resolve_regexes(shard: GroupShard, group: ConsumerGroup, now: Now, effects: GroupEffects) -> None:
    """Find the topics of all of a group's expressions; a group that reads others now goes on to its next epoch.

    Only those count that the client may know of whose request was the occasion, as in Kafka.
    """
    may_describe = group.may_describe
    cluster = shard.cluster
    names = list(cluster.topic_names())
    records: list[StoredRecord] = []
    topics = {*group.subscription().by_name}
    has_changed = False
    for expression in group.subscribed_regexes:
        matched = matching(expression, names)
        if may_describe is not None:
            matched = frozenset(filter(may_describe, matched))
        found = ResolvedRegex(matched, cluster.version, now.wall_ms)
        topics |= found.topics
        has_changed = has_changed or found.topics != group.regexes.get(expression, NOT_YET).topics
        records.append(regex_record(group.group_id, expression, found))
    value = metadata_hash(cluster, topics)
    if has_changed or value != group.metadata_hash:
        records.append(group_record(group.group_id, group.epoch + 1, value))
        effects.note("group %s is at epoch %s: its expressions stand for other topics", group.group_id, group.epoch + 1)
    if records:
        version = cluster.topics_version

        def on_written() -> None:
            group.resolved_tick_ms = now.tick_ms
            remember_check(shard, group.group_id, version)

        effects.write(records, on_written=on_written)


def remember_check(shard: GroupShard, group_id: str, version: int) -> None:
    """What is written of a group now is right for these topics: to be called once it is."""
    group = shard.consumer(group_id)
    if group is not None:
        group.checked_version = version


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """Those of the topics that an expression stands for; none for one that another broker took and RE2 does not."""
    try:
        pattern = compile_expression(expression)
    except Refused:
        return frozenset()
    return frozenset(name for name in names if pattern.fullmatch(name))
