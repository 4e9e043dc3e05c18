"""Let followers join whose leader has the records that they need in remote storage alone (KIP-405, TierStateMachine).

The leader refuses their fetches with OFFSET_MOVED_TO_TIERED_STORAGE. Such a log continues where the disk of the leader
begins. Leader epochs and producers before that come from the objects of the segment that ends there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.tiering.jobs import Jobs
from broker.tiering.steps import Steps, wait
from remote.errors import Damaged, RemoteStorageError
from remote.segment_files import IndexKind

if TYPE_CHECKING:
    from broker.replicas.leader_reads import LeaderOffset
    from broker.replication.followed_log import LocalFollowedLog
    from broker.tiering.counts import TierCounts
    from broker.tiering.remote_logs import RemoteLog, RemoteLogs
    from broker.tiering.services import TierServices
    from broker.tiering.threads import TierThreads
    from remote.layout import Layout
    from tiered.metadata_records import TopicIdPartition
    from tiered.segment import RemoteSegment

log = logging.getLogger(__name__)

#: Special timestamps of ListOffsets.
_EARLIEST, _EARLIEST_LOCAL = -2, -4


class CannotJoin(RemoteStorageError):
    """Remote storage does not have, or not yet, what a follower needs."""


class Joiner:
    """Looks after the logs of a member that their leaders refuse."""

    def __init__(
        self,
        services: TierServices,
        layout: Layout,
        threads: TierThreads,
        remote_logs: RemoteLogs,
        counts: TierCounts,
    ) -> None:
        self._services = services
        self._layout = layout
        self._threads = threads
        self._remote_logs = remote_logs
        self._counts = counts
        self._jobs = Jobs(services.config, services.timers, "followed from remote storage on")

    def close(self) -> None:
        """Begin nothing more."""
        self._jobs.close()

    def look(self) -> None:
        """Begin to join with the logs that were refused since."""
        for followed in self._services.refused_logs():
            remote_log = self._remote_logs.get(followed.log.topic_id or b"", followed.log.partition)
            if remote_log.is_loaded:
                self._jobs.begin(remote_log, lambda each=followed, remote=remote_log: self._join(each, remote))  # type: ignore[misc]

    def _join(self, followed: LocalFollowedLog, remote_log: RemoteLog) -> Steps[None]:
        local_log, reads = followed.log, self._services.leader_reads
        assert reads is not None
        topic, index, end_offset = local_log.topic, local_log.partition, local_log.log_end_offset
        start = yield from wait(reads.find_offset(topic, index, _EARLIEST))
        local = yield from wait(reads.find_offset(topic, index, _EARLIEST_LOCAL))
        if local.offset <= end_offset:
            return
        epoch = yield from self._epoch_before(topic, index, local)
        counts = self._counts.of(topic)
        counts.aux_requests += 1
        try:
            segment = self._segment_with(remote_log, local.offset - 1, epoch)
            place = remote_log.partition
            epochs, snapshot = yield from wait(self._threads.reading(_read, self._layout, place, segment))
            if local_log.closed or local_log.log_end_offset != end_offset or followed not in self._refused():
                return  # it has another role now, or went on
            offset = segment.end_offset + 1  # the snapshot is that of the producers there
            followed.start_behind_remote(offset, start.offset, [each for each in epochs if each[1] < offset], snapshot)
        except Exception:
            counts.aux_errors += 1
            raise
        log.info("%s continues at offset %d, where the disk of its leader begins", local_log.name, offset)

    def _refused(self) -> list[LocalFollowedLog]:
        return list(self._services.refused_logs())

    def _epoch_before(self, topic: str, index: int, local: LeaderOffset) -> Steps[int]:
        """Return the leader epoch of the record before the first one on the leader's disk.

        It has the same epoch, or the largest earlier one that the leader's log has. Other replicas may have copied
        records of epochs in between, which the leader's log lacks since an unclean election.
        """
        if local.leader_epoch <= 0:
            return local.leader_epoch
        reads = self._services.leader_reads
        assert reads is not None
        earlier = yield from wait(reads.end_of_epoch(topic, index, local.leader_epoch - 1))
        return earlier.leader_epoch if earlier.offset >= local.offset else local.leader_epoch

    @staticmethod
    def _segment_with(remote_log: RemoteLog, offset: int, epoch: int) -> RemoteSegment:
        found = remote_log.segments.find(epoch, offset)
        if found is None:
            reason = f"no segment with offset {offset} of leader epoch {epoch} is known in remote storage"
            raise CannotJoin(str(remote_log), reason)
        return found


def _read(layout: Layout, place: TopicIdPartition, segment: RemoteSegment) -> tuple[list[tuple[int, int]], bytes]:
    """Return leader epochs with their first offsets, and the producers' snapshot, of a segment; in a thread."""
    text = layout.read_index(place, segment, IndexKind.LEADER_EPOCH) or b""
    snapshot = layout.read_index(place, segment, IndexKind.PRODUCER_SNAPSHOT) or b""
    try:
        _, count, *lines = text.decode().splitlines()
        epochs = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        if len(epochs) != int(count):
            raise ValueError(f"{count} entries announced, {len(epochs)} found")
    except ValueError as error:
        raise Damaged(f"{place.topic}-{place.partition}", f"leader epochs of the segment: {error}") from error
    return epochs, snapshot
