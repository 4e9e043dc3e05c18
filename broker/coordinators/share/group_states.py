"""Initializes and deletes the states of share groups' partitions (KIP-932).

Each takes three steps: the group's log records the intention, the share coordinator carries it out, and the group's log
records that it is done. A restart repeats what a crash interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator.effects import Effects
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.offsets import alter, begin_delete, finish_delete
from coordinator.group.share.records import TopicStates
from coordinator.group.share.states import initialized_record, partitions_of
from coordinator.share.state import UNINITIALIZED, ShareKey
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred, after, settled

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.states import AllShareStates
    from broker.metadata_cache import MetadataCache

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Error messages for administrators: Kafka's texts, since its tools print them.
WORDS = {
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}

#: Retry delay while the share coordinator is loading.
SOON_MS = 50


def words(code: ErrorCode) -> str:
    """Return the message of an error that has no other."""
    return WORDS.get(code, code.text)


def once(changed: Deferred[Any], serve: Callable[[], T | Deferred[T] | None]) -> T | Deferred[T] | None:
    """Return the result of `serve()` once a change is done or has failed, even if the client disconnects."""
    return serve() if changed.done else after(settled([changed]), serve, even_if_cancelled=True)


class ShareGroupStates:
    """The group coordinator's calls to the share coordinator."""

    def __init__(self, groups: GroupCoordinator, states: AllShareStates, metadata: MetadataCache) -> None:
        self._groups = groups
        self._states = states
        self._image = metadata.image
        #: The groups whose states are being initialized. Another initialization would reset them.
        self._busy: set[str] = set()

    def group_at(self, group_id: str) -> tuple[GroupShard, ShareGroup] | None:
        """Return the share group with its shard; None if there is no such group."""
        shard = self._groups.at(group_id)
        group = None if isinstance(shard, ErrorCode) else shard.share(group_id)
        return None if group is None or isinstance(shard, ErrorCode) else (shard, group)

    def initialize(self, group_id: str) -> None:
        """Initialize the states of the group's new partitions; retry later if that fails."""
        if group_id in self._busy:
            self._again(group_id, SOON_MS)
            return
        self._busy.add(group_id)
        ready = self._states.with_topic(lambda: self._initialize(group_id))

        def look(done: Deferred[Any]) -> None:
            self._busy.discard(group_id)
            try:
                done.result()
            except Exception as error:
                log.warning("The states of share group %s cannot be initialized: %s", group_id, error)
                self._again(group_id, self._groups.settings.share.initialize_retry_interval_ms)

        if isinstance(ready, Deferred):
            ready.add_done_callback(look)
        else:
            self._busy.discard(group_id)

    def _again(self, group_id: str, in_ms: int) -> None:
        self._groups.timers.schedule(TimerKey("initialize", group_id), self._groups.now().tick_ms + in_ms)
        self._groups.arm()

    def _initialize(self, group_id: str) -> Deferred[Any] | None:
        found = self.group_at(group_id)
        if found is None:
            return None
        _, group = found
        shares = [
            ShareKey(group_id, topic_id, partition)
            for topic_id, topic in group.states.initializing.items()
            for partition in sorted(topic.partitions)
        ]
        epoch = group.epoch
        changed = self._change(shares, lambda share: self._states.initialize(share, epoch, UNINITIALIZED))
        return once(changed, lambda: self._note(group_id, changed.result()))

    def _note(self, group_id: str, results: Mapping[ShareKey, Refused | None]) -> None:
        """Note which partitions are initialized, and retry the others later."""
        found = self.group_at(group_id)
        if found is None:
            return
        shard, group = found
        again_ms, retry_ms = 0, shard.settings.share.initialize_retry_interval_ms
        done: dict[bytes, set[int]] = {}
        for share, refusal in results.items():
            if refusal is not None and refusal.code is not ErrorCode.FENCED_STATE_EPOCH:
                is_loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                if not is_loading:
                    log.warning("The state of %s cannot be initialized: %s", share.coordinator_key, refusal)
                again_ms = max(again_ms, SOON_MS if is_loading else retry_ms)
                continue
            done.setdefault(share.topic_id, set()).add(share.partition)  # also if another one has initialized it
        if self.note_initialized(shard, group, done) is not ErrorCode.NONE:
            again_ms = retry_ms
        elif self._is_behind(group, results):
            again_ms = again_ms or SOON_MS
        if again_ms:
            self._again(group_id, again_ms)

    def _is_behind(self, group: ShareGroup, results: Mapping[ShareKey, Refused | None]) -> bool:
        """Return whether the group has got new partitions while others were initialized."""
        return any(
            ShareKey(group.group_id, topic_id, partition) not in results
            for topic_id, topic in group.states.initializing.items()
            for partition in topic.partitions
        )

    def _change(
        self, shares: Iterable[ShareKey], change: Callable[[ShareKey], Deferred[None] | None]
    ) -> Deferred[dict[ShareKey, Refused | None]]:
        """Resolve to the results of a change of each share-partition: the error, or None."""
        results: dict[ShareKey, Refused | None] = {}
        pending: list[Deferred[None]] = []

        def note(share: ShareKey, done: Deferred[None]) -> None:
            try:
                done.result()
            except Refused as refusal:
                results[share] = refusal

        for share in shares:
            results[share] = None
            try:
                changed = change(share)
            except Refused as refusal:
                results[share] = refusal
                continue
            if changed is not None:
                changed.add_done_callback(partial(note, share))
                pending.append(changed)
        return settled(pending).then(lambda _: results)

    def note_initialized(
        self, shard: GroupShard, group: ShareGroup, done: Mapping[bytes, Collection[int]]
    ) -> ErrorCode:
        """Write to the group's log that these partitions are initialized."""
        record = initialized_record(group, done)
        if record is None:
            return ErrorCode.NONE
        effects: GroupEffects = Effects()
        effects.write([record])
        return self._groups.run(shard, effects)

    def alter_offsets(
        self, shard: GroupShard, group_id: str, offsets: Mapping[bytes, tuple[str, Mapping[int, int]]]
    ) -> Deferred[dict[tuple[bytes, int], Refused]]:
        """Set the start offsets of partitions. Resolves to those that failed, with their errors.

        `offsets`: topic id -> (its name, partition -> offset). Raises Refused if nothing was changed; fails with
        Refused if the changes cannot be noted.
        """
        topics = {topic_id: TopicStates(name, frozenset(wanted)) for topic_id, (name, wanted) in offsets.items()}
        effects: GroupEffects = Effects()
        alter(shard, group_id, topics, effects)
        self._run(shard, effects)
        group = shard.share(group_id)
        epoch = 0 if group is None else group.epoch
        wanted = {
            ShareKey(group_id, topic_id, partition): offset
            for topic_id, (_, by_partition) in offsets.items()
            for partition, offset in (by_partition.items() if group is not None else ())
        }
        self._busy.add(group_id)
        changed = self._change(wanted, lambda share: self._states.initialize(share, epoch, wanted[share]))

        def note(results: dict[ShareKey, Refused | None]) -> dict[tuple[bytes, int], Refused]:
            self._busy.discard(group_id)
            done: dict[bytes, set[int]] = {}
            for share, refusal in results.items():
                if refusal is None:
                    done.setdefault(share.topic_id, set()).add(share.partition)
            found = self.group_at(group_id)
            code = ErrorCode.NONE if found is None else self.note_initialized(*found, done)
            if code is not ErrorCode.NONE:
                raise Refused(code, code.text)
            return {(share.topic_id, share.partition): each for share, each in results.items() if each is not None}

        return changed.then(note)

    def delete_offsets(
        self, shard: GroupShard, group_id: str, topic_ids: Collection[bytes], *, keep_noted: bool = False
    ) -> Deferred[dict[bytes, Refused]]:
        """Delete the states of the group's topics. Resolves to those that failed, with their errors.

        `keep_noted`: the deletion is not written to the group's log, because the group is deleted, too. Raises Refused
        if nothing was changed: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. Fails with Refused if the deletion cannot be noted.
        """
        group = shard.share(group_id)
        places = {
            topic_id: partitions_of(group.states, topic_id) if group is not None else frozenset()
            for topic_id in topic_ids
        }
        effects: GroupEffects = Effects()
        begin_delete(shard, group_id, topic_ids, effects)
        self._run(shard, effects)
        shares: list[ShareKey] = []
        for topic_id, partitions in places.items():
            known = self._image.topic_by_id(topic_id)
            wanted = partitions or (() if known is None else known.partitions)  # a deletion that began before
            shares += [ShareKey(group_id, topic_id, partition) for partition in sorted(wanted)]
        changed = self._change(shares, self._states.delete)

        def note(results: dict[ShareKey, Refused | None]) -> dict[bytes, Refused]:
            failed = {share.topic_id: each for share, each in results.items() if each is not None}
            gone = [topic_id for topic_id in topic_ids if topic_id not in failed]
            found = self.group_at(group_id)
            if gone and not keep_noted and found is not None:
                effects: GroupEffects = Effects()
                finish_delete(found[1], gone, effects)
                self._run(found[0], effects)
            return failed

        return changed.then(note)

    def _run(self, shard: GroupShard, effects: GroupEffects) -> None:
        code = self._groups.run(shard, effects) if effects.writes else ErrorCode.NONE
        if code is not ErrorCode.NONE:
            raise Refused(code, code.text)
