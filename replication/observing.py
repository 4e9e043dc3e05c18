"""Follow the metadata log of the controllers as an observer (KIP-595, KIP-630): a voter's fetches without a vote.

    UNATTACHED -> FETCHING -> SNAPSHOT -> FETCHING

- *Unattached*, it asks the bootstrap controllers in turn. A controller that does not lead names the leader, its epoch
  and its address.
- *Fetching*, it appends records as they come. Only those below the high watermark may be applied.
- A log that is empty, or too old for the leader's, gets a *snapshot*, in parts. The log then begins at its end.

One request at a time: `next_request`, then `answered` or `failed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from metadata.topic_names import CLUSTER_METADATA
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ReplicaState
from protocol.messages.fetch_snapshot import (
    FETCH_SNAPSHOT,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
    SnapshotId,
)
from protocol.schema import Api, Struct
from replication.followed_log import DamagedRecords, EpochEnd

METADATA_TOPIC_ID = bytes(15) + b"\x01"
NO_LEADER = -1
_UNKNOWN_HIGH_WATERMARK = -1
#: In ms, as Apache Kafka's observers ask.
_WAIT_MS = 500
_MOST_BACKOFF_MS = 1000


class Endpoint(NamedTuple):
    """The address of a controller."""

    host: str
    port: int


class ObserverLimits(NamedTuple):
    """In bytes and ms: controller.quorum.fetch.max.bytes, fetch.snapshot.max.bytes and retry.backoff.ms."""

    fetch_bytes: int = 1 << 20
    snapshot_bytes: int = 1 << 20
    backoff_ms: int = 20


_DEFAULT_LIMITS = ObserverLimits()


class CannotObserve(Exception):
    """The controllers are of another cluster, or their log contradicts what this broker has applied."""


class ObservedLog(Protocol):
    """The metadata log of this broker."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record, 0 if the log is empty."""

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above `epoch` and its end; (-1, -1) if unknown."""

    def append(self, records: memoryview) -> None:
        """Append whole batches. Raises DamagedRecords."""

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on."""

    def install(self, end_offset: int, epoch: int, snapshot: bytes) -> None:
        """Replace the log by a snapshot; it continues at `end_offset`. Raises DamagedRecords."""


class ObserverState(Enum):
    """The phases of an observer."""

    UNATTACHED = auto()
    FETCHING = auto()
    SNAPSHOT = auto()


class Request(NamedTuple):
    """A request, and the controller to send it to."""

    endpoint: Endpoint
    api: Api
    body: Struct


class Observer:
    """The observer of one broker. Endpoints of `bootstrap` are controller.quorum.bootstrap.servers.

    `leader_epoch` begins with the last one that this broker knows from before.

    `high_watermark` is -1 until it is known.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str | None,
        directory_id: bytes,
        bootstrap: Sequence[Endpoint],
        log: ObservedLog,
        limits: ObserverLimits = _DEFAULT_LIMITS,
        leader_epoch: int = 0,
    ) -> None:
        self._limits = limits
        self._node_id = node_id
        self.cluster_id = cluster_id
        self._directory_id = directory_id
        self._bootstrap = tuple(bootstrap)
        self._next_bootstrap = 0
        self._log = log
        self.state = ObserverState.UNATTACHED
        self.leader_id = NO_LEADER
        self.leader_epoch = leader_epoch
        self.endpoint: Endpoint | None = None
        self.high_watermark = _UNKNOWN_HIGH_WATERMARK
        self.due_ms = 0
        self._failures = 0
        self._in_flight = False
        #: Whether the last response named a new leader, which was asked at once.
        self._is_redirected = False
        #: Responses in a row that could not be used. Meanwhile other controllers may have named that leader again.
        self._damages = 0
        self._installed = EpochEnd(-1, -1)
        self._snapshot_id = EpochEnd(-1, -1)
        self._snapshot = bytearray()

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> Request | None:
        """Return the next request, or None if one is in flight or none is due."""
        if self._in_flight or now_ms < self.due_ms:
            return None
        self._in_flight = True
        endpoint = self.endpoint
        if endpoint is None:
            endpoint = self._bootstrap[self._next_bootstrap % len(self._bootstrap)]
        if self.state is ObserverState.SNAPSHOT:
            return Request(endpoint, FETCH_SNAPSHOT, self._fetch_snapshot())
        return Request(endpoint, FETCH, self._fetch())

    def _fetch(self) -> Struct:
        partition = FetchPartition.new(
            partition=0,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self._log.log_end_offset,
            last_fetched_epoch=self._log.latest_epoch,
            partition_max_bytes=self._limits.fetch_bytes,
            replica_directory_id=self._directory_id,
            high_watermark=self.high_watermark,
        )
        return FETCH.request.new(
            cluster_id=self.cluster_id,
            replica_state=ReplicaState.new(replica_id=self._node_id, replica_epoch=-1),
            max_wait_ms=_WAIT_MS,
            min_bytes=0,
            max_bytes=self._limits.fetch_bytes,
            topics=[FetchTopic.new(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )

    def _fetch_snapshot(self) -> Struct:
        wanted = self._snapshot_id
        partition = RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=self.leader_epoch,
            snapshot_id=SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=len(self._snapshot),
            replica_directory_id=self._directory_id,
        )
        return FETCH_SNAPSHOT.request(
            cluster_id=self.cluster_id,
            replica_id=self._node_id,
            max_bytes=self._limits.snapshot_bytes,
            topics=[RequestTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
        )

    # -- responses ---------------------------------------------------------------------------------------------------

    def failed(self, now_ms: int) -> None:
        """The controller did not answer: ask another one."""
        self._in_flight = False
        self._detach()
        self._pause(now_ms)

    def _detach(self) -> None:
        """Nobody is known to lead. The epoch stays: a leader of an earlier one is not followed again."""
        self.state, self.leader_id, self.endpoint = ObserverState.UNATTACHED, NO_LEADER, None
        self._next_bootstrap += 1

    def _pause(self, now_ms: int) -> None:
        self._failures += 1
        self.due_ms = now_ms + self._backoff_ms(self._failures)

    def _backoff_ms(self, failures: int) -> int:
        return min(_MOST_BACKOFF_MS, self._limits.backoff_ms << min(failures - 1, 16))

    def answered(self, response: Struct, now_ms: int) -> None:
        """Take over a response of Fetch or FetchSnapshot. Raises CannotObserve."""
        self._in_flight = False
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise CannotObserve(f"the controllers are not of the cluster {self.cluster_id}")
        if response.error_code != ErrorCode.NONE:
            self.failed(now_ms)
            return
        is_snapshot = self.state is ObserverState.SNAPSHOT
        topics = response.topics if is_snapshot else response.responses
        if len(topics) != 1 or len(topics[0].partitions) != 1:
            self.failed(now_ms)
            return
        data = topics[0].partitions[0]
        if self._follow(data.current_leader, response.node_endpoints):
            self._failures, self.due_ms = 0, now_ms
            self._is_redirected = not self._is_redirected
            if not self._is_redirected:
                self._pause(now_ms)  # controllers may name another leader each time
            return  # the next request goes to the new leader
        if data.error_code != ErrorCode.NONE:
            if is_snapshot and self.leader_id != NO_LEADER:
                self.state = ObserverState.FETCHING  # the snapshot is gone: the leader names the next one
                self._pause(now_ms)
            else:
                self.failed(now_ms)
            return
        if self.leader_id == NO_LEADER:  # it has answered as a leader does, but nobody said that it leads
            self.failed(now_ms)
            return
        try:
            (self._take_part if is_snapshot else self._take)(data)
            self._failures, self._damages, self.due_ms, self._is_redirected = 0, 0, now_ms, False
        except DamagedRecords:
            self.failed(now_ms)
            self._damages += 1
            self.due_ms = now_ms + self._backoff_ms(self._damages)

    def _follow(self, leader: Struct, endpoints: Sequence[Struct]) -> bool:
        """Take over who leads, if that is news. Return whether requests go to another controller or epoch now."""
        known = self.leader_epoch, self.leader_id != NO_LEADER
        if (leader.leader_epoch, leader.leader_id != NO_LEADER) <= known:
            return False
        self.leader_epoch = leader.leader_epoch
        if leader.leader_id == self._node_id:
            raise CannotObserve(f"a controller has node.id {self._node_id}. Choose another node.id")
        found = next((each for each in endpoints if each.node_id == leader.leader_id), None)
        if leader.leader_id == NO_LEADER or found is None:
            self._detach()
        else:
            self.leader_id, self.endpoint = leader.leader_id, Endpoint(found.host, found.port)
            self.state = ObserverState.FETCHING
        return True

    def _take(self, data: Struct) -> None:
        log = self._log
        if data.diverging_epoch.end_offset >= 0:
            ours = log.end_of_epoch(data.diverging_epoch.epoch)
            end_offset = min(each for each in (ours.end_offset, data.diverging_epoch.end_offset) if each >= 0)
            if end_offset < self.high_watermark:
                raise CannotObserve(
                    f"the leader's metadata log ends at offset {end_offset} of epoch {data.diverging_epoch.epoch}, but "
                    f"records up to {self.high_watermark} were committed"
                )
            if end_offset >= log.log_end_offset:
                raise DamagedRecords  # the next answer would be the same
            log.truncate(end_offset)
        elif data.snapshot_id.end_offset >= 0:
            # It may end before this log, whose last records were then never committed.
            if data.snapshot_id.end_offset < self.high_watermark:
                raise CannotObserve(
                    f"the leader offers a snapshot that ends at offset {data.snapshot_id.end_offset}, but records "
                    f"up to {self.high_watermark} were committed"
                )
            offered = EpochEnd(data.snapshot_id.epoch, data.snapshot_id.end_offset)
            if offered == self._installed and offered.end_offset == log.log_end_offset:
                raise DamagedRecords
            self._snapshot_id = offered
            self._snapshot = bytearray()
            self.state = ObserverState.SNAPSHOT
        else:
            if data.records:
                log.append(data.records)
            self.high_watermark = max(self.high_watermark, min(data.high_watermark, log.log_end_offset))

    def _take_part(self, data: Struct) -> None:
        wanted = self._snapshot_id
        is_next = (
            (data.snapshot_id.epoch, data.snapshot_id.end_offset) == wanted
            and data.position == len(self._snapshot)
            and len(self._snapshot) + len(data.unaligned_records) <= data.size
            and (data.unaligned_records or data.size == len(self._snapshot))
        )
        if not is_next:
            self.state = ObserverState.FETCHING
            raise DamagedRecords
        self._snapshot += data.unaligned_records
        if len(self._snapshot) == data.size:
            self.state = ObserverState.FETCHING
            snapshot, self._snapshot = bytes(self._snapshot), bytearray()
            self._log.install(wanted.end_offset, wanted.epoch, snapshot)
            self._installed = wanted
            self.high_watermark = max(self.high_watermark, wanted.end_offset)
