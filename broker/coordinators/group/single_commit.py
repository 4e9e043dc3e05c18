"""The fast path for OffsetCommit requests for one topic without metadata, which most consumers send.

It does the same as broker.handlers.offset_commit for a commit that succeeds at once. For any commit that must be
rejected, or must wait, it returns None before it changes anything, and the handler serves the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator.group.offset_commit import is_current, touch_member
from coordinator.group.plain_commit import PlainCommit, TopicCommit
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import FIRST_VERSION, answer, parse
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache
    from broker.network.connection import Connection


def commit_single(
    version: int, *, groups: GroupCoordinator, metadata: MetadataCache, guard: Guard | None
) -> Callable[[Connection, memoryview, int, int], bytes | None] | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one."""
    if version < FIRST_VERSION:
        return None
    may_read = None if guard is None else guard.asking(Operation.READ, ResourceType.TOPIC)
    may_join = None if guard is None else guard.asking(Operation.READ, ResourceType.GROUP)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        single = parse(version, frame, position)
        if single is None:
            return None
        offsets = single.offsets
        image = metadata.image
        topic = image.topic(single.topic) if single.topic else image.topic_by_id(single.topic_id)
        if topic is None or (may_read is not None and not may_read(connection, topic.name)):
            return None
        if may_join is not None and not may_join(connection, single.group_id):
            return None
        partitions = topic.partitions
        for partition in offsets.partitions:
            if partition not in partitions:
                return None
        found = groups.log_of(single.group_id)
        if isinstance(found, ErrorCode) or not is_current(found.shard, single, version):
            return None
        if groups.waits_for_commit(found.shard):
            return None
        now = groups.now()
        touch_member(found.shard, single.group_id, single.member_id, now)
        commit = PlainCommit(single.group_id, now.wall_ms, (TopicCommit(topic.name, topic.topic_id, *offsets),))
        return answer(correlation_id, single, groups.run_records(found, commit))

    return serve
