"""The observer of the metadata log: who leads, what is appended, snapshots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import (
    FETCH,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from protocol.messages.fetch_snapshot import FETCH_SNAPSHOT, ResponsePartitionSnapshot, ResponseTopicSnapshot
from protocol.messages.fetch_snapshot import LeaderIdAndEpoch as SnapshotLeader
from protocol.messages.fetch_snapshot import SnapshotId as OfSnapshot
from protocol.schema import Struct
from replication.followed_log import DamagedRecords, EpochEnd
from replication.observing import (
    METADATA_TOPIC_ID,
    CannotObserve,
    Endpoint,
    Observer,
    ObserverLimits,
    ObserverState,
    Request,
)

FIRST, SECOND = Endpoint("one", 1), Endpoint("two", 2)


class Log:
    """A metadata log: a byte a record, and the epoch of all."""

    def __init__(self) -> None:
        self.start = 0
        self.records = b""
        self.latest_epoch = 0
        self.snapshot: tuple[int, int, bytes] | None = None

    @property
    def log_end_offset(self) -> int:
        return self.start + len(self.records)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return EpochEnd(epoch, self.log_end_offset) if epoch == self.latest_epoch else EpochEnd(-1, -1)

    def append(self, records: memoryview) -> None:
        if bytes(records) == b"damaged":
            raise DamagedRecords
        self.records += records

    def truncate(self, offset: int) -> None:
        self.records = self.records[: offset - self.start]

    def install(self, end_offset: int, epoch: int, snapshot: bytes) -> None:
        self.snapshot = end_offset, epoch, snapshot
        self.start, self.records, self.latest_epoch = end_offset, b"", epoch


class Stage:
    """An observer and its clock."""

    def __init__(self, *, attached: bool = False) -> None:
        self.now = 0
        self.log = Log()
        self.observer = Observer(3, "cluster", bytes([7]) * 16, [FIRST, SECOND], self.log)
        if attached:
            self.answer(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader=(100, 2))

    def request(self) -> Request:
        self.now = max(self.now, self.observer.due_ms)
        found = self.observer.next_request(self.now)
        assert found is not None
        return found

    def answer(self, leader: tuple[int, int] | None = None, **fields: Any) -> Struct:
        """Answer the next Fetch; return the partition that it names."""
        asked: Struct = self.request().body.topics[0].partitions[0]
        data = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": b""} | fields
        endpoints = []
        if leader is not None:
            data["current_leader"] = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            endpoints = [NodeEndpoint(node_id=leader[0], host=f"leader-{leader[0]}", port=9093)]
        topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[PartitionData(**data)])
        self.observer.answered(FETCH.response(responses=[topic], node_endpoints=endpoints), self.now)
        return asked

    def part(self, position: int, records: bytes, size: int, end: tuple[int, int] = (40, 2), code: int = 0) -> Struct:
        """Answer the next FetchSnapshot; return the partition that it names."""
        asked: Struct = self.request().body.topics[0].partitions[0]
        data = ResponsePartitionSnapshot(
            index=0,
            error_code=code,
            snapshot_id=OfSnapshot(end_offset=end[0], epoch=end[1]),
            current_leader=SnapshotLeader(leader_id=100, leader_epoch=2),
            size=size,
            position=position,
            unaligned_records=records,
        )
        topic = ResponseTopicSnapshot(name="__cluster_metadata", partitions=[data])
        self.observer.answered(FETCH_SNAPSHOT.response(topics=[topic]), self.now)
        return asked

    def state(self) -> ObserverState:
        return self.observer.state


def test_limits_are_those_of_the_configuration() -> None:
    """controller.quorum.fetch.max.bytes and controller.quorum.retry.backoff.ms."""
    stage = Stage()
    stage.observer = Observer(3, "cluster", bytes(16), [FIRST], stage.log, ObserverLimits(7, 8, 300))
    body = stage.request().body
    assert (body.max_bytes, body.topics[0].partitions[0].partition_max_bytes) == (7, 7)
    stage.observer.failed(1_000)
    assert stage.observer.due_ms == 1_300


def test_first_request_is_that_of_an_observer() -> None:
    """As recorded: epoch 0, no high watermark, last fetched epoch 0 of an empty log."""
    request = Stage().request()
    assert request.endpoint == FIRST
    for version in (17, 18):
        again, _ = FETCH.request.decode(version, FETCH.request.encode(version, request.body))
        (asked,) = again.topics[0].partitions
        assert (again.replica_state.replica_id, again.replica_state.replica_epoch) == (3, -1)
        assert (again.cluster_id, again.max_wait_ms, again.min_bytes, again.max_bytes) == ("cluster", 500, 0, 1 << 20)
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (0, 0, 0)
        assert asked.replica_directory_id == bytes([7]) * 16
    assert asked.high_watermark == -1


def test_epoch_from_before_a_restart() -> None:
    """A leader of an earlier one is not followed, that of the same epoch is."""
    stage = Stage()
    stage.observer = Observer(3, "cluster", bytes(16), [FIRST, SECOND], stage.log, leader_epoch=4)
    assert stage.request().body.topics[0].partitions[0].current_leader_epoch == 4
    stage.observer.failed(stage.now)
    stage.answer(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader=(100, 3))
    assert stage.state() is ObserverState.UNATTACHED
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(100, 4))
    assert stage.state() is ObserverState.FETCHING


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_leader_is_learnt_from_an_error(code: ErrorCode) -> None:
    stage = Stage()
    stage.answer(error_code=code, leader=(100, 2))
    assert stage.request().endpoint == Endpoint("leader-100", 9093)
    assert (stage.observer.leader_id, stage.observer.leader_epoch) == (100, 2)
    assert stage.observer.due_ms == 0


def test_controllers_are_asked_in_turn_until_one_leads() -> None:
    stage = Stage()
    asked = []
    for _ in range(4):
        asked.append(stage.request().endpoint)
        stage.observer.failed(stage.now)
    assert asked == [FIRST, SECOND, FIRST, SECOND]
    assert stage.observer.due_ms - stage.now == 160
    for _ in range(9):
        stage.request()
        stage.observer.failed(stage.now)
    assert stage.observer.due_ms - stage.now == 1000


def test_election_without_a_leader() -> None:
    stage = Stage(attached=True)
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(-1, 3))
    assert stage.state() is ObserverState.UNATTACHED
    assert stage.observer.leader_epoch == 3
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(-1, 3))
    assert stage.observer.due_ms > stage.now
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(101, 3))
    assert stage.request().endpoint == Endpoint("leader-101", 9093)


def test_leader_of_an_earlier_epoch_is_not_followed() -> None:
    stage = Stage(attached=True)
    stage.request()
    stage.observer.failed(stage.now)
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(99, 1))
    assert stage.state() is ObserverState.UNATTACHED
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(100, 2))
    assert stage.state() is ObserverState.FETCHING


def test_records_are_appended_and_committed_ones_known() -> None:
    """Records above the high watermark may come, and must wait."""
    stage = Stage(attached=True)
    assert stage.answer(records=b"abcde", high_watermark=3).current_leader_epoch == 2
    assert stage.log.records == b"abcde"
    assert stage.observer.high_watermark == 3
    stage.answer(records=b"", high_watermark=9)
    assert stage.observer.high_watermark == 5
    asked = stage.answer(records=b"f", high_watermark=2)
    assert (asked.fetch_offset, asked.high_watermark) == (5, 5)
    assert stage.observer.high_watermark == 5


def test_log_that_diverges_is_truncated() -> None:
    stage = Stage(attached=True)
    stage.answer(records=b"abcde", high_watermark=2)
    stage.answer(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3))
    assert stage.log.records == b"abc"


def test_committed_records_are_never_truncated() -> None:
    stage = Stage(attached=True)
    stage.answer(records=b"abcde", high_watermark=4)
    with pytest.raises(CannotObserve, match="up to 4 were committed"):
        stage.answer(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3))
    assert stage.log.records == b"abcde"


def test_controllers_of_another_cluster() -> None:
    stage = Stage()
    stage.request()
    with pytest.raises(CannotObserve, match="cluster"):
        stage.observer.answered(FETCH.response(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, responses=[]), 0)


def test_damaged_records_are_asked_for_again() -> None:
    stage = Stage(attached=True)
    stage.answer(records=b"damaged")
    assert stage.log.records == b""
    assert stage.observer.due_ms > stage.now


def asked_within(stage: Stage, duration_ms: int, answer: Callable[[int], object]) -> int:
    """Give answers until the time has passed; return how many there were. 1000 are too many."""
    begin = stage.now
    for count in range(1000):
        stage.now = max(stage.now, stage.observer.due_ms)
        if stage.now >= begin + duration_ms:
            return count
        answer(count)
    return 1000


def test_leaders_that_change_all_the_time_are_asked_with_pauses() -> None:
    """Endless redirections: a controller names another leader and a later epoch each time."""
    stage = Stage(attached=True)
    redirect = partial(stage.answer, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert asked_within(stage, 1000, lambda count: redirect(leader=(101 + count % 2, 3 + count))) <= 110


@pytest.mark.parametrize(
    "bad",
    [
        {"records": b"damaged"},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=9)},
        {"snapshot_id": SnapshotId(end_offset=5, epoch=2)},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_leader_whose_answers_change_nothing_is_asked_with_pauses(bad: dict[str, Any]) -> None:
    """The other controllers name it again each time."""
    stage = Stage(attached=True)
    stage.answer(snapshot_id=SnapshotId(end_offset=5, epoch=2))
    stage.part(0, b"all", 3, (5, 2))

    def answer(count: int) -> None:
        if stage.observer.endpoint is None:
            stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(100, 2))
        else:
            stage.answer(**bad)

    assert asked_within(stage, 10_000, answer) <= 40
    assert stage.log.log_end_offset == 5
    stage.now = stage.observer.due_ms
    if stage.observer.endpoint is None:
        stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(100, 2))
    stage.answer(records=b"f", high_watermark=6)
    assert (stage.observer.high_watermark, stage.observer.due_ms) == (6, stage.now)


@pytest.mark.parametrize("topics", [0, 2])
def test_response_without_the_partition(topics: int) -> None:
    stage = Stage(attached=True)
    stage.request()
    stage.observer.answered(FETCH.response(responses=[FetchableTopicResponse(partitions=[])] * topics), 0)
    assert stage.state() is ObserverState.UNATTACHED


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_snapshot_is_fetched_in_parts() -> None:
    stage = Stage(attached=True)
    stage.answer(snapshot_id=SnapshotId(end_offset=40, epoch=2))
    assert stage.state() is ObserverState.SNAPSHOT
    asked = stage.part(0, b"half ", 10)
    assert (asked.snapshot_id.end_offset, asked.snapshot_id.epoch, asked.position) == (40, 2, 0)
    assert stage.log.snapshot is None
    assert stage.part(5, b"whole", 10).position == 5
    assert stage.log.snapshot == (40, 2, b"half whole")
    assert stage.observer.high_watermark == 40
    asked = stage.answer()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (40, 2)


@pytest.mark.parametrize(
    ("position", "records", "size", "end"),
    [(3, b"x", 10, (40, 2)), (0, b"x" * 11, 10, (40, 2)), (0, b"", 10, (40, 2)), (0, b"x", 10, (41, 2))],
)
def test_part_that_does_not_fit_begins_again(position: int, records: bytes, size: int, end: tuple[int, int]) -> None:
    stage = Stage(attached=True)
    stage.answer(snapshot_id=SnapshotId(end_offset=40, epoch=2))
    stage.part(position, records, size, end)
    assert stage.log.snapshot is None
    assert stage.state() is not ObserverState.SNAPSHOT
    assert stage.observer.due_ms > stage.now


def test_snapshot_that_is_gone() -> None:
    """The leader has made a later one, and names it."""
    stage = Stage(attached=True)
    stage.answer(snapshot_id=SnapshotId(end_offset=40, epoch=2))
    stage.part(0, b"", 0, code=ErrorCode.SNAPSHOT_NOT_FOUND)
    assert stage.state() is ObserverState.FETCHING
    stage.answer(snapshot_id=SnapshotId(end_offset=80, epoch=2))
    assert stage.part(0, b"all", 3, (80, 2)).snapshot_id.end_offset == 80
    assert stage.log.log_end_offset == 80


def test_snapshot_before_the_high_watermark() -> None:
    stage = Stage(attached=True)
    stage.answer(records=b"abcde", high_watermark=4)
    with pytest.raises(CannotObserve, match="up to 4 were committed"):
        stage.answer(snapshot_id=SnapshotId(end_offset=3, epoch=2))


def test_snapshot_replaces_records_that_were_never_committed() -> None:
    """The former controller had not committed them, and the next one has made a snapshot that ends before them."""
    stage = Stage(attached=True)
    stage.answer(records=b"abcde", high_watermark=4)
    stage.answer(snapshot_id=SnapshotId(end_offset=4, epoch=2))
    stage.part(0, b"all", 3, (4, 2))
    assert stage.log.log_end_offset == 4


def test_new_leader_during_a_snapshot() -> None:
    stage = Stage(attached=True)
    stage.answer(snapshot_id=SnapshotId(end_offset=40, epoch=2))
    stage.request()
    stage.observer.failed(stage.now)
    assert stage.state() is ObserverState.UNATTACHED
    stage.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(101, 3))
    assert stage.answer(records=b"a").fetch_offset == 0
