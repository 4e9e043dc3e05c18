"""The regular work of the tier: each remote.log.manager.task.interval.ms all partitions are copied, and expire."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from broker.tiering.jobs import Jobs
from broker.tiering.steps import Steps, wait
from metadata.image import ResourceType
from metadata.topic_names import REMOTE_LOG_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.replicas.partition import Partition
    from broker.tiering.copier import Copier
    from broker.tiering.expirer import Expirer
    from broker.tiering.metadata_log import MetadataLog
    from broker.tiering.remote_logs import RemoteLog, RemoteLogs
    from broker.tiering.services import TierServices
    from metadata.image import TopicImage
    from runtime.timers import Timer

    Job = Callable[[Partition, RemoteLog], Steps[None]]

#: How long partitions are looked at in one turn of the loop. One takes the longer, the more of its segments expire.
_SLICE_MS = 5
#: How long a topic has to be missing in the metadata of a member before it counts as deleted.
_CERTAINLY_DELETED_MS = 600_000


class RegularWork:
    """Begins the jobs of all partitions."""

    def __init__(
        self,
        services: TierServices,
        remote_logs: RemoteLogs,
        metadata_log: MetadataLog,
        copier: Copier,
        expirer: Expirer,
    ) -> None:
        self._services = services
        self._remote_logs = remote_logs
        self._metadata_log = metadata_log
        self._copier = copier
        self._expirer = expirer
        self.copying = Jobs(services.config, services.timers, "copied to remote storage")
        self.expiring = Jobs(services.config, services.timers, "removed from remote storage")
        self._interval_ms = services.config.get_int("remote.log.manager.task.interval.ms")
        self._timer: Timer | None = None
        #: Topics that were deleted since the start, and topics that are missing in the metadata, since when.
        self._deleted: set[bytes] = set()
        self._missing_since_ms: dict[bytes, int] = {}
        self._is_closed = False

    def start(self) -> None:
        """Begin the work soon, and again each interval."""
        services = self._services
        services.metadata.on_topic_deleted(self._on_topic_deleted)
        services.metadata.on_config_changed(self._on_config_changed)
        self._timer = services.timers.call_later(0, self._run)

    def close(self) -> None:
        """Begin nothing more."""
        self._is_closed = True
        self.copying.close()
        self.expiring.close()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def next_round_ms(self) -> int | None:
        """When the next round begins, on the monotonic clock; None if no more begins."""
        return None if self._timer is None or self._is_closed else self._timer.deadline_ms

    def _run(self) -> None:
        self._timer = self._services.timers.call_later(self._interval_ms, self._run)
        self._metadata_log.catch_up()
        self._continue(iter(list(self._services.partitions)))
        for remote_log in list(self._remote_logs):
            self._remote_logs.on_change(remote_log)
            self._begin_deleted(remote_log)

    def _continue(self, partitions: Iterator[Partition]) -> None:
        """Begin the jobs of the next partitions, and go on in the next turn of the loop."""
        until = time.monotonic() + _SLICE_MS / 1000
        for partition in partitions:
            self.begin(partition)
            if time.monotonic() >= until and not self._is_closed:
                self._services.loop.call_soon(lambda: self._continue(partitions))
                return

    def begin(self, partition: Partition) -> None:
        """Begin the jobs of a partition, if there is anything to do. A log that is not open yet has its turn later."""
        local_log = partition.open_log
        if self._is_closed or local_log is None or partition.topic == REMOTE_LOG_METADATA:
            return
        remote_log = self._remote_logs.find(partition.topic_id, partition.index)
        if not local_log.config.tiered and (remote_log is None or not remote_log.segments.count):
            return
        remote_log = self._remote_logs.get(partition.topic_id, partition.index)
        if not remote_log.is_loaded:
            return
        self._remote_logs.on_change(remote_log)
        self.copying.begin(remote_log, lambda: self._caught_up(partition, remote_log, self._copier.copy_due))
        self.expiring.begin(remote_log, lambda: self._caught_up(partition, remote_log, self._expirer.expire))

    def _caught_up(self, partition: Partition, remote_log: RemoteLog, job: Job) -> Steps[None]:
        """Do a job once all is replayed that earlier leaders of the partition wrote: else a copy may be made twice."""
        leader_epoch = partition.leader_epoch
        if self._services.leader_reads is not None and remote_log.known_epoch != leader_epoch:
            yield from wait(self._metadata_log.refresh(remote_log.partition))
            remote_log.known_epoch = leader_epoch
        yield from job(partition, remote_log)

    def _begin_deleted(self, remote_log: RemoteLog) -> None:
        """Delete what a topic had that does not exist any more: the task of the leader of the metadata's partition."""
        if self._is_closed or not self._metadata_log.leads(remote_log.partition):
            return
        if not self._is_deleted(remote_log.partition.topic_id):
            return
        if remote_log.segments.count:
            self.expiring.begin(remote_log, lambda: self._expirer.remove_deleted(remote_log))
        else:
            self._remote_logs.forget(remote_log)

    def _is_deleted(self, topic_id: bytes) -> bool:
        """Return whether a topic is certainly deleted.

        The metadata of a member may lag behind: a topic that it does not know yet is no deleted one. So it has to have
        been there before, or to be missing for long. By then a member that lags is fenced.
        """
        if self._services.metadata.image.topic_by_id(topic_id) is not None:
            self._missing_since_ms.pop(topic_id, None)
            return False
        if self._services.leader_reads is None or topic_id in self._deleted:
            return True
        now_ms = self._services.clock.monotonic_ms()
        return now_ms - self._missing_since_ms.setdefault(topic_id, now_ms) >= _CERTAINLY_DELETED_MS

    def begin_loaded(self, index: int) -> None:
        """Begin the jobs of the partitions whose records one partition of the metadata topic has."""
        for remote_log in list(self._remote_logs):
            if self._metadata_log.index_of(remote_log.partition) == index:
                self._begin_deleted(remote_log)
        for partition in list(self._services.partitions):
            local_log = partition.open_log
            if local_log is not None and local_log.config.tiered:
                remote_log = self._remote_logs.get(partition.topic_id, partition.index)
                if self._metadata_log.index_of(remote_log.partition) == index:
                    self.begin(partition)

    def _on_topic_deleted(self, topic: TopicImage) -> None:
        self._deleted.add(topic.topic_id)
        for remote_log in list(self._remote_logs):
            if remote_log.partition.topic_id == topic.topic_id:
                self._services.timers.call_later(0, partial(self._begin_deleted, remote_log))

    def _on_config_changed(self, resource_type: int, name: str) -> None:
        if resource_type == ResourceType.TOPIC:
            for partition in list(self._services.partitions.of_topic(name).values()):
                self.begin(partition)
