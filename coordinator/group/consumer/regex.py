"""Subscriptions by regular expression: the topics that an expression matches.

Expressions (see expressions.py) are resolved again when topics have been created, and at intervals because rights may
have changed. The request with a new expression does not wait: all expressions of the group are resolved soon after it.
If that changes the topics that the group reads, the group moves to its next epoch.
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

#: The shortest interval between two resolutions of a group's expressions.
LEAST_PAUSE_MS = 10_000
NOT_YET = ResolvedRegex(frozenset(), -1, -1)


class RegexChange(Enum):
    """The change of a member's expression by its heartbeat."""

    NONE = "none"
    CHANGED = "changed"
    """It has another expression, whose topics are not known yet."""
    RESOLVED = "resolved"
    """It has another expression or none, and its topics are known: the group changes at once."""


def update_regexes(
    shard: GroupShard,
    group: ConsumerGroup,
    old: ConsumerMember | None,
    member: ConsumerMember,
    now: Now,
    records: list[StoredRecord],
) -> tuple[RegexChange, bool]:
    """Update the group's expressions after a change of a member.

    Returns the change, and whether the group's expressions have to be resolved soon.
    """
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
    return change, bool(expressions) and must_resolve(shard, group, expressions, now, is_new=is_new)


def must_resolve(
    shard: GroupShard, group: ConsumerGroup, expressions: Collection[str], now: Now, *, is_new: bool = False
) -> bool:
    """Return whether a group with these expressions has to resolve them now, and has not scheduled that yet.

    `is_new`: the group did not have one of them before.
    """
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
    """Resolve all expressions of a group. If the group then reads other topics, move it to its next epoch.

    As in Kafka, only topics count that the client may describe whose request caused this.
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
        effects.note("group %s is at epoch %s: its expressions match other topics", group.group_id, group.epoch + 1)
    if records:
        version = cluster.topics_version

        def on_written() -> None:
            group.resolved_tick_ms = now.tick_ms
            remember_check(shard, group.group_id, version)

        effects.write(records, on_written=on_written)


def remember_check(shard: GroupShard, group_id: str, version: int) -> None:
    """Note that the group is up to date with this version of the topics. Call this after the write."""
    group = shard.consumer(group_id)
    if group is not None:
        group.checked_version = version


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """Return the topics that an expression matches; none if only RE2J accepts the expression."""
    try:
        pattern = compile_expression(expression)
    except Refused:
        return frozenset()
    return frozenset(name for name in names if pattern.fullmatch(name))
