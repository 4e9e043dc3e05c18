"""A follower whose leader has the first records in remote storage alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.replicas.leader_reads import LeaderOffset
from broker.replication.followed_log import LocalFollowedLog
from broker.tiering.joiner import Joiner
from runtime.deferred import Deferred
from storage.checkpoints import LOG_START_OFFSETS, read_offsets
from storage.fs import LOCAL
from storage.log.leader_epoch import EpochEntry
from storage.log.partition_log import PartitionLog
from storage.log_manager import LogManager
from tests.support.copying_broker import CopyingBroker, InstantPool
from tests.support.data_client import batch
from tests.unit.tiered.copies import id_of
from tiered.segment import SegmentState, SegmentUpdate


class Leader(CopyingBroker):
    """The leader, whose closed segments are remote, and a `follower` in another directory, which it refuses."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "leader")
        self.t = self.tiered(local_retention_bytes="1")
        for number in range(12):
            if number == 5:
                self.partitions.lead(self.t, 4)
            header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
            self.t.append(bytearray(batch(b"x" * 200, timestamp=self.clock.now_ms(), **header)), self.clock.now_ms())
        self.round(2)
        manager = LogManager([str(directory / "follower")])
        manager.lock()
        self.manager = manager
        self.follower = manager.create("t", 0, self.t.topic_id, self.t.log.config, self.clock.now_ms())
        self.follower.begin_replication(0)
        self.followed = LocalFollowedLog(self.follower, manager.checkpoints, manager.removals, self.clock)
        self.is_refused = True
        services = self.tier.services._replace(leader_reads=self, refused_logs=self._refused)  # type: ignore[arg-type]
        threads: Any = type("Threads", (), {"reading": InstantPool()})
        self.joiner = Joiner(services, self.layout, threads, self.tier.remote_logs, self.tier.counts)

    def _refused(self) -> list[LocalFollowedLog]:
        return [self.followed] if self.is_refused else []

    def find_offset(self, topic: str, index: int, timestamp: int) -> Deferred[LeaderOffset]:
        log = self.t.log
        offset = {-2: log.log_start_offset, -4: log.local_start_offset}[timestamp]
        return Deferred.resolved(LeaderOffset(offset, log.leader_epochs.epoch_of(offset) or 0))

    def end_of_epoch(self, topic: str, index: int, leader_epoch: int) -> Deferred[LeaderOffset]:
        epoch, end_offset = self.t.log.end_offset_for_epoch(leader_epoch)
        return Deferred.resolved(LeaderOffset(end_offset, epoch))


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


def test_follower_continues_with_epochs_and_producers(leader: Leader) -> None:
    original: PartitionLog = leader.t.log
    leader.joiner.look()
    log = leader.follower
    assert (log.log_start_offset, log.local_start_offset) == (0, original.local_start_offset)
    assert log.log_end_offset == log.segments[0].base_offset == original.local_start_offset > 5
    assert log.leader_epochs.entries == original.leader_epochs.entries == ((0, 0), (4, 5))
    assert log.producer_state.producers[7].batches[-1].last_offset == original.local_start_offset - 1
    assert log.high_watermark == log.last_stable_offset == log.log_end_offset, "only committed records are copied"
    assert leader.tier.counts.of("t").aux_requests == 1
    leader.joiner.look()
    assert leader.tier.counts.of("t").aux_requests == 1, "its end is not below the leader's disk any more"


def test_moved_start_counts(leader: Leader) -> None:
    """Epochs before the start of the leader's log are left out."""
    leader.t.delete_records(6)
    leader.joiner.look()
    assert leader.follower.log_start_offset == 6
    assert leader.follower.leader_epochs.entries == ((4, 6),)


def test_start_is_on_the_disk(leader: Leader) -> None:
    """A broker that is killed then would take the first record on its disk for the log's, and delete those before."""
    leader.joiner.look()
    directory = leader.follower.directory.path
    assert read_offsets(LOCAL, f"{directory}/{LOG_START_OFFSETS}") == {("t", 0): 0}
    config = leader.follower.config
    leader.follower.close_files()
    leader.manager.unlock()
    again = LogManager([directory])
    again.lock()
    again.is_replicated = lambda topic, partition: True
    again.load(lambda topic: config, leader.clock.now_ms())
    log = again.logs["t", 0]
    assert (log.log_start_offset, log.local_start_offset) == (0, leader.t.log.local_start_offset)
    assert log.leader_epochs.entries == ((0, 0), (4, 5))
    assert log.producer_state.producers[7].batches[-1].last_offset == leader.t.log.local_start_offset - 1


def test_segment_of_a_lost_epoch_is_no_state(leader: Leader) -> None:
    """An unclean election has lost epoch 3, of which its leader had copied the same offsets."""
    lost = leader.remote(leader.t)[-1]
    other = lost._replace(id=id_of(99), epochs=((3, lost.start_offset),), state=SegmentState.COPY_STARTED)
    remote_log = leader.tier.remote_logs.get(leader.t.topic_id, 0)
    log = leader.t.log
    log.leader_epochs.replace([EpochEntry(0, 0), EpochEntry(5, log.local_start_offset)])
    remote_log.segments = type(remote_log.segments)()
    for copy in (lost._replace(epochs=((0, lost.start_offset),), state=SegmentState.COPY_STARTED), other):
        remote_log.segments.add(copy)
        remote_log.segments.update(SegmentUpdate(copy.id, SegmentState.COPY_FINISHED, 1, 1))
    read: list[bytes] = []
    read_index = leader.layout.read_index

    def note(place: Any, segment: Any, kind: Any) -> bytes | None:
        read.append(segment.id)
        return read_index(place, segment, kind)

    leader.layout.read_index = note  # type: ignore[method-assign]
    leader.joiner.look()
    assert set(read) == {lost.id}


def test_missing_object_is_tried_again(leader: Leader, caplog: pytest.LogCaptureFixture) -> None:
    files = dict(leader.layout.files)
    last = leader.remote(leader.t)[-1].id
    leader.layout.files[last] = files[last]._replace(leader_epochs=b"0\n2\n0 0\n")
    leader.joiner.look()
    assert leader.follower.log_end_offset == 0
    assert "leader epochs of the segment: 2 entries announced, 1 found" in caplog.text
    assert leader.tier.counts.of("t").aux_errors == 1
    leader.layout.files.update(files)
    leader.advance(2000)
    assert leader.follower.log_end_offset == leader.t.log.local_start_offset


def test_unknown_segment_is_waited_for(leader: Leader, caplog: pytest.LogCaptureFixture) -> None:
    place = leader.tier.remote_logs.get(leader.t.topic_id, 0)
    kept, place.segments = place.segments, type(place.segments)()
    leader.joiner.look()
    assert leader.follower.log_end_offset == 0
    assert "is known in remote storage" in caplog.text
    place.segments = kept
    leader.advance(2000)
    assert leader.follower.log_end_offset == leader.t.log.local_start_offset


def test_log_with_another_role_is_left_alone(leader: Leader) -> None:
    read = leader.layout.read_index

    def end_role(*arguments: Any) -> bytes | None:
        leader.is_refused = False
        return read(*arguments)

    leader.layout.read_index = end_role  # type: ignore[method-assign]
    leader.joiner.look()
    assert leader.follower.log_end_offset == 0
