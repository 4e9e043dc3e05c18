"""Initializes and deletes the states of share groups' partitions (KIP-932).

Each takes three steps: the group's log records the intention, the share coordinator carries it out, and the group's log
records that it is done. A restart repeats what a crash interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.effects import Effects
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.offsets import alter, begin_delete, finish_delete
from coordinator.group.share.records import TopicStates
from coordinator.group.share.states import initialized_record, partitions_of
from coordinator.share.state import UNINITIALIZED, ShareKey
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.metadata_cache import MetadataCache

log = logging.getLogger(__name__)

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


class ShareGroupStates:
    """The group coordinator's calls to the share coordinator."""

    def __init__(self, groups: GroupCoordinator, states: ShareCoordinator, metadata: MetadataCache) -> None:
        self._groups = groups
        self._states = states
        self._image = metadata.image

    def group_at(self, group_id: str) -> tuple[GroupShard, ShareGroup] | None:
        """Return the share group with its shard; None if there is no such group."""
        shard = self._groups.at(group_id)
        group = None if isinstance(shard, ErrorCode) else shard.share(group_id)
        return None if group is None or isinstance(shard, ErrorCode) else (shard, group)

    def initialize(self, group_id: str) -> None:
        """Initialize the states of the group's new partitions; retry later if that fails."""
        ready = self._states.with_topic(lambda: self._initialize(group_id))
        if not isinstance(ready, Deferred):
            return

        def look(done: Deferred[Any]) -> None:
            try:
                done.result()
            except Exception as error:
                log.warning("The states of share group %s cannot be initialized: %s", group_id, error)
                self._again(group_id, self._groups.settings.share.initialize_retry_interval_ms)

        ready.add_done_callback(look)

    def _again(self, group_id: str, in_ms: int) -> None:
        self._groups.timers.schedule(TimerKey("initialize", group_id), self._groups.now().tick_ms + in_ms)
        self._groups.arm()

    def _initialize(self, group_id: str) -> None:
        found = self.group_at(group_id)
        if found is None:
            return
        shard, group = found
        again_ms, retry_ms = 0, shard.settings.share.initialize_retry_interval_ms
        done: dict[bytes, set[int]] = {}
        for topic_id, topic in group.states.initializing.items():
            for partition in sorted(topic.partitions):
                share = ShareKey(group_id, topic_id, partition)
                try:
                    self._states.initialize(share, group.epoch, UNINITIALIZED)
                except Refused as refusal:
                    if refusal.code is not ErrorCode.FENCED_STATE_EPOCH:  # then the state is initialized already
                        is_loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                        if not is_loading:
                            log.warning("The state of %s cannot be initialized: %s", share.coordinator_key, refusal)
                        again_ms = max(again_ms, SOON_MS if is_loading else retry_ms)
                        continue
                done.setdefault(topic_id, set()).add(partition)
        if self.note_initialized(shard, group, done) is not ErrorCode.NONE:
            again_ms = retry_ms
        if again_ms:
            self._again(group_id, again_ms)

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
    ) -> dict[tuple[bytes, int], Refused]:
        """Set the start offsets of partitions. Return those that failed, with their errors.

        `offsets`: topic id -> (its name, partition -> offset). Raises Refused if nothing was changed.
        """
        topics = {topic_id: TopicStates(name, frozenset(wanted)) for topic_id, (name, wanted) in offsets.items()}
        effects: GroupEffects = Effects()
        alter(shard, group_id, topics, effects)
        self._run(shard, effects)
        group = shard.share(group_id)
        failed: dict[tuple[bytes, int], Refused] = {}
        if group is None:
            return failed
        done: dict[bytes, set[int]] = {}
        for topic_id, (_, wanted) in offsets.items():
            for partition, offset in wanted.items():
                share = ShareKey(group_id, topic_id, partition)
                try:
                    self._states.initialize(share, group.epoch, offset)
                except Refused as refusal:
                    failed[topic_id, partition] = refusal
                    continue
                done.setdefault(topic_id, set()).add(partition)
        code = self.note_initialized(shard, group, done)
        if code is not ErrorCode.NONE:
            raise Refused(code, code.text)
        return failed

    def delete_offsets(
        self, shard: GroupShard, group_id: str, topic_ids: Collection[bytes], *, keep_noted: bool = False
    ) -> dict[bytes, Refused]:
        """Delete the states of the group's topics. Return those that failed, with their errors.

        `keep_noted`: the deletion is not written to the group's log, because the group is deleted, too. Raises Refused
        if nothing was changed: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = shard.share(group_id)
        places = {
            topic_id: partitions_of(group.states, topic_id) if group is not None else frozenset()
            for topic_id in topic_ids
        }
        effects: GroupEffects = Effects()
        begin_delete(shard, group_id, topic_ids, effects)
        self._run(shard, effects)
        assert group is not None
        failed: dict[bytes, Refused] = {}
        for topic_id, partitions in places.items():
            known = self._image.topic_by_id(topic_id)
            wanted = partitions or (() if known is None else known.partitions)  # a deletion that began before
            for partition in sorted(wanted):
                try:
                    self._states.delete(ShareKey(group_id, topic_id, partition))
                except Refused as refusal:
                    failed[topic_id] = refusal
        gone = [topic_id for topic_id in topic_ids if topic_id not in failed]
        if gone and not keep_noted:
            effects = Effects()
            finish_delete(group, gone, effects)
            self._run(shard, effects)
        return failed

    def _run(self, shard: GroupShard, effects: GroupEffects) -> None:
        code = self._groups.run(shard, effects) if effects.writes else ErrorCode.NONE
        if code is not ErrorCode.NONE:
            raise Refused(code, code.text)
