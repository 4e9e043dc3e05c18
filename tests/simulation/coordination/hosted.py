"""A partition that a simulated broker leads, as coordinators and handlers use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from broker.membership.coordination.committed_shard_log import CommittedShardLog
from broker.replication.commits import Commits
from coordinator.load import replay_batches
from protocol.error_codes import ErrorCode
from protocol.records.batch import parse_header
from protocol.records.buffer import Buffer
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from storage.append.result import AppendResult
from storage.producers.markers import read_marker
from tests.simulation.coordination.image import DATA
from tests.simulation.coordination.problems import note_problem
from tests.simulation.leaders import Leader, Leaders
from tests.simulation.log import ReplicaLog

if TYPE_CHECKING:
    from runtime.timers import Timers
    from storage.producers.state import ProducerState

TIMEOUT_MS = 30_000


class HostedLog:
    """A replica's log in the form of storage's."""

    def __init__(self, log: ReplicaLog) -> None:
        self._log = log

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def producer_state(self) -> ProducerState:
        return self._log.producers.state


class HostedPartition:
    """A partition in one term of leadership, which may have several epochs."""

    queue = None
    online = True
    log_config = SimpleNamespace(max_message_bytes=1 << 20)

    def __init__(self, leaders: Leaders, leader: Leader, place: tuple[str, int], timers: Timers) -> None:
        self.topic, self.index = place
        self.internal = self.topic != DATA
        self.hosted, self.absence = True, ErrorCode.NONE
        self._leaders = leaders
        self._commits = Commits(timers)
        self._timers = timers
        self.lead(leader)

    def lead(self, leader: Leader) -> None:
        """Lead in another epoch; waits go on."""
        self.leader = leader
        self.log = HostedLog(leader.log)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def find_log(self) -> HostedLog:
        return self.log

    @property
    def leader_epoch(self) -> int:
        return self.leader.state.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.leader.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.leader.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.leader.log.high_watermark

    def is_under_min_isr(self) -> bool:
        return not self.leader.state.has_enough_replicas

    def leave(self) -> None:
        """Another broker leads: whether the waiting records are committed is not known."""
        self.hosted, self.absence = False, ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._commits.fail(self.absence)

    def append(self, records: Buffer, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendResult:
        """Append a batch of one record. Raises the refusals of storage's producer state."""
        log, batch = self.leader.log, bytes(records)
        header = parse_header(batch)
        if header.producer_id >= 0:
            state = log.producers.state
            if header.is_control:
                marker = read_marker(memoryview(batch), header)
                assert marker is not None
                state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
            else:
                repeated = state.check(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_offset_delta,
                    header.is_transactional,
                    origin is AppendOrigin.CLIENT,
                )
                if repeated is not None:
                    first, last = repeated.first_offset, repeated.last_offset
                    return AppendResult(first, last, now_ms, -1, log.log_start_offset, True, True)
        try:
            offset = self._leaders.append(self.leader, batch, now_ms)
        except Exception as error:  # callers make an error code of it
            note_problem(error)
            raise
        return AppendResult(offset, offset, now_ms, -1, log.log_start_offset, False, True)

    def when_committed(self, end_offset: int, timeout_ms: int = TIMEOUT_MS) -> Deferred[None]:
        """Resolve once all in-sync replicas have the records below `end_offset`. Fails with NotCommitted."""
        committed = self._commits.wait(end_offset, self._timers._clock.monotonic_ms() + timeout_ms)
        self.end_waits()
        return committed

    def end_waits(self) -> None:
        """Answer what is committed now."""
        code = ErrorCode.NONE if self.leader.state.had_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._commits.advance(self.leader.state.high_watermark, code)


class HostedPartitions:
    """The partitions that a broker leads, by topic and index. `is_known` looks into the metadata."""

    def __init__(self, is_known: Callable[[str, int], bool]) -> None:
        self._hosted: dict[str, dict[int, HostedPartition]] = {}
        self.is_known = is_known

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self._hosted.get(topic, {}).get(index)

    def of_topic(self, topic: str) -> dict[int, HostedPartition]:
        return self._hosted.get(topic, {})

    def absence(self, topic: str, index: int) -> ErrorCode:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_known(topic, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def add(self, partition: HostedPartition) -> None:
        self._hosted.setdefault(partition.topic, {})[partition.index] = partition

    def pop(self, topic: str, index: int) -> HostedPartition | None:
        return self._hosted.get(topic, {}).pop(index, None)


class ReplicaDurability:
    """Records are safe once all in-sync replicas have them (broker/replication/durability.py)."""

    def relied_on(self, partition: Any, end_offset: int | None = None) -> Deferred[None] | None:
        wanted = partition.log_end_offset if end_offset is None else end_offset
        return None if partition.high_watermark >= wanted else partition.when_committed(wanted)

    def may_wait(self, partition: Any) -> bool:
        return True


class HostedShardLog(CommittedShardLog[Any, Any]):
    """A coordinator's log, which is loaded from a replica in memory."""

    __slots__ = ()

    def load(self, chunk_bytes: int) -> Iterator[None]:
        log = self.partition.leader.log  # type: ignore[attr-defined]
        while (offset := self.next_offset) < log.log_end_offset:
            _, value = log.at(offset)
            for following, _ in replay_batches(self.shard, offset.to_bytes(8, "big") + value[8:], offset):
                self.next_offset = following
            yield
        self.loaded = True
