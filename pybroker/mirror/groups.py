"""Copy the committed offsets of groups. They are valid in the copy, so a group continues there where it was."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session, failed
from pybroker.cli.group_offsets import commits

_WITH_OFFSETS = {"CLASSIC", "CONSUMER"}
#: A commit that does not change is written again after this time, or the target's retention would remove it.
_RENEW_S = 3600.0


class Commit(NamedTuple):
    """A commit of a group, without its leader epoch: each cluster has its own epochs."""

    offset: int
    metadata: str
    has_epoch: bool

    def is_like(self, other: Commit) -> bool:
        """Whether offset and metadata are the same."""
        return self[:2] == other[:2]


class MoveResult(NamedTuple):
    """The result for a group: the number of offsets written, and why others were not."""

    group: str
    offsets: int
    problem: str | None


class GroupOffsets:
    """Writes the offsets of the source's groups to the copy, up to the records that it has.

    A group may use the copy already, so its offset moves back only if this class wrote it.
    """

    def __init__(
        self,
        source: Session,
        target: Session,
        pattern: re.Pattern[str] | None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._target = target
        self._pattern = pattern
        self._now_s = now_s
        self._seen: dict[tuple[str, Place], Commit] = {}
        self._seen_s: dict[tuple[str, Place], float] = {}
        self._written: dict[tuple[str, Place], Commit] = {}

    def copy(self, reached: Mapping[Place, int]) -> list[MoveResult]:
        """Copy the offsets of all groups once. `reached`: the end of the copy by partition. Raises CommandError."""
        listed = self._source.wait(self._source.admin.list_consumer_groups(request_timeout=self._source.timeout_s))
        names = sorted(
            each.group_id
            for each in listed.valid
            if each.type.name in _WITH_OFFSETS and (self._pattern is None or self._pattern.fullmatch(each.group_id))
        )
        results = []
        for name in names:
            try:
                moved = self._copy_one(name, reached)
            except CommandError as error:  # of this group: its coordinator moves, or it may not be described
                moved = MoveResult(name, 0, f"group {name}: {str(error).removeprefix(f'{name}: ')}")
            if moved is not None:
                results.append(moved)
        return results

    def _copy_one(self, group: str, reached: Mapping[Place, int]) -> MoveResult | None:
        now = self._now_s()
        found = {
            place: _limited(commit, reached[place])
            for place, commit in commits(self._source, group).items()
            if place in reached
        }
        changed = {place for place, commit in found.items() if self._seen.get((group, place)) != commit}
        old = {place for place in found if now - self._seen_s.get((group, place), now) > _RENEW_S}
        if not changed and not old:
            return None
        there = {place: _of(commit) for place, commit in commits(self._target, group).items()}
        wanted = {
            place: found[place]
            for place in changed | old
            if _is_wanted(there.get(place), found[place], self._written.get((group, place)))
            or (place in old and there[place].is_like(found[place]))
        }
        problems = self._write(group, wanted) if wanted else {}
        for place in (changed | old) - problems.keys():
            self._seen[group, place], self._seen_s[group, place] = found[place], now
        self._written.update({(group, place): commit for place, commit in wanted.items() if place not in problems})
        moved = sum(1 for place in wanted if place in changed and place not in problems)
        failures = [problems[place] for place in wanted if place in changed and place in problems]
        return MoveResult(group, moved, failures[0] if failures else None) if moved or failures else None

    def _write(self, group: str, wanted: Mapping[Place, Commit]) -> dict[Place, str]:
        """Write commits of a group; return why some were refused, mostly because it has members at the copy."""
        epochs = self._target.found_ends(place for place, commit in wanted.items() if commit.has_epoch).epochs
        problems = self._commit(
            group,
            [
                TopicPartition(*place, commit.offset, commit.metadata, epoch)
                if (epoch := epochs.get(place, -1)) >= 0
                else TopicPartition(*place, commit.offset, commit.metadata)
                for place, commit in wanted.items()
            ],
        )
        too_long = [
            place for place, error in problems.items() if error.error_code == KafkaError.OFFSET_METADATA_TOO_LARGE
        ]
        if too_long:  # the offset matters more
            again = self._commit(group, [TopicPartition(*place, wanted[place].offset) for place in too_long])
            problems = {place: error for place, error in problems.items() if place not in too_long} | again
        return {place: str(error) for place, error in problems.items()}

    def _commit(self, group: str, offsets: list[TopicPartition]) -> dict[Place, CommandError]:
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        (future,) = self._target.admin.alter_consumer_group_offsets(
            request, request_timeout=self._target.timeout_s
        ).values()
        try:
            answer = self._target.wait(future, group)
        except CommandError as error:
            return {(each.topic, each.partition): error for each in offsets}
        return dict(_errors(group, answer.topic_partitions))


def _is_wanted(there: Commit | None, commit: Commit, written: Commit | None) -> bool:
    """Whether to replace what the target has: nothing, an earlier offset, or another commit that was written here."""
    if there is None or there.offset < commit.offset:
        return True
    if there.is_like(commit):
        return False
    if written is not None and there.is_like(written):
        return True
    return there.offset == commit.offset and not there.metadata


def _errors(group: str, answers: Iterable[TopicPartition]) -> Iterable[tuple[Place, CommandError]]:
    for each in answers:
        if each.error is not None:
            yield (
                (each.topic, each.partition),
                failed(KafkaException(each.error), f"{group}: {each.topic}-{each.partition}"),
            )


def _of(commit: TopicPartition) -> Commit:
    return Commit(commit.offset, commit.metadata or "", commit.leader_epoch is not None and commit.leader_epoch >= 0)


def _limited(commit: TopicPartition, end: int) -> Commit:
    """Return a commit as far as the copy reaches. Metadata describes one offset, so another one has none."""
    whole = _of(commit)
    return whole if whole.offset <= end else Commit(end, "", whole.has_epoch)
