"""Partitions of `__remote_log_metadata` that another broker leads are read there."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.replicas.leader_reads import CannotRead, CommittedRecords, LeaderOffset
from broker.tiering.metadata_log import MetadataNotWritten
from metadata.delete_topics import TopicReference
from protocol.error_codes import ErrorCode
from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from runtime.deferred import Deferred
from tests.support.copying_broker import CopyingBroker
from tests.unit.tiered.copies import id_of, segment
from tiered.metadata_records import TopicIdPartition, encode, metadata_partition
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

TOPIC = "__remote_log_metadata"


class OtherLeader:
    """Has one partition of the topic; an append adds a batch."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0
        self.start = 0
        self.error: ErrorCode | None = None
        self.reads: list[int] = []

    def read(self, topic: str, index: int, offset: int, max_bytes: int) -> Deferred[CommittedRecords]:
        self.reads.append(offset)
        read: Deferred[CommittedRecords] = Deferred()
        if self.error is not None:
            read.fail(CannotRead(self.error))
            return read
        first = next((at for at, header in iter_batches(self.data) if header.next_offset > offset), len(self.data))
        sizes = [at for at, _ in iter_batches(self.data) if at > first]
        end = sizes[0] if sizes else len(self.data)  # one batch at a time
        read.resolve(
            CommittedRecords(self.data[first:end] if self.start <= offset < self.end else b"", self.start, self.end)
        )
        return read

    def end_of_epoch(self, topic: str, index: int, leader_epoch: int) -> Deferred[LeaderOffset]:
        """Return the end of the log. `end` is the high watermark."""
        found: Deferred[LeaderOffset] = Deferred()
        if self.error is not None:
            found.fail(CannotRead(self.error))
        else:
            ends = [header.next_offset for _, header in iter_batches(self.data)]
            found.resolve(LeaderOffset(max(ends, default=0), leader_epoch))
        return found

    def write(self, place: TopicIdPartition, event: RemoteSegment | SegmentUpdate) -> None:
        builder = BatchBuilder(self.end)
        builder.append(1, None, encode(place, event))
        self.data += builder.build()
        self.end += 1

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode:
        self.data += self.end.to_bytes(8, "big") + records[8:]
        self.end += 1
        return ErrorCode.NONE


class Member(CopyingBroker):
    """A broker whose topic `t` has its metadata at another leader, as far as `is_elsewhere` says."""

    def __init__(self, directory: Path) -> None:
        self.leader_reads = OtherLeader()
        super().__init__(directory)
        self.topic_t = self.tiered()
        self.place = TopicIdPartition(self.topic_t.topic_id, "t", 0)
        self.index = metadata_partition(self.place, 2)

    def lose(self) -> None:
        """Another broker leads the partition of the metadata from now on."""
        self.partitions.give_up(self.partition(TOPIC, self.index))

    def send_appends(self) -> None:
        """Let appends reach the other leader."""
        log = self.tier.metadata_log
        log._services = log._services._replace(appends=self.leader_reads)


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def test_what_others_wrote_is_replayed(member: Member) -> None:
    member.lose()
    for number in range(3):
        member.leader_reads.write(member.place, segment(number, 10 * number, 10 * number + 9))
        member.leader_reads.write(member.place, SegmentUpdate(id_of(number), SegmentState.COPY_FINISHED, 1, 7))
    member.advance(1000)
    assert [each.start_offset for each in member.remote(member.topic_t)] == [0, 10, 20]
    assert member.tier.remote_logs.get(member.place.topic_id, 0).is_loaded
    member.leader_reads.write(member.place, segment(3, 30, 39))
    member.advance(1000)
    assert len(member.remote(member.topic_t)) == 4


def test_nothing_is_loaded_until_the_leader_answers(member: Member, caplog: pytest.LogCaptureFixture) -> None:
    member.leader_reads.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    member.lose()
    member.restart()
    member.append(member.topic_t, 10)
    member.round(3)
    assert not member.tier.remote_logs.get(member.place.topic_id, 0).is_loaded
    assert not member.layout.calls
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]


def test_records_below_the_start_are_skipped(member: Member) -> None:
    member.lose()
    member.restart()
    member.leader_reads.write(member.place, segment(0, 0, 9))
    member.leader_reads.write(member.place, segment(1, 10, 19))
    member.leader_reads.start = 1
    member.advance(1000)
    assert [each.start_offset for each in member.remote(member.topic_t)] == [10]


def test_append_is_read_back_from_its_leader(member: Member) -> None:
    member.lose()
    member.restart()
    leader = member.leader_reads
    member.send_appends()
    written = member.tier.metadata_log.append(member.place, segment(1, 0, 9))
    assert written.result() is None
    assert [each.start_offset for each in member.remote(member.topic_t)] == [0]
    leader.error = ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(MetadataNotWritten):
        member.tier.metadata_log.append(member.place, segment(2, 10, 19)).result()


def test_only_the_leader_of_the_metadata_deletes_what_a_topic_had(member: Member) -> None:
    member.append(member.topic_t, 10)
    member.round()
    assert member.layout.objects
    member.lose()
    member.controller.delete_topics([TopicReference("t")])
    member.round(5)
    assert member.layout.objects


def test_unknown_topic_of_a_member_is_not_taken_for_deleted(member: Member) -> None:
    """Its metadata may lag behind, so the topic may be new."""
    place = next(
        place
        for number in range(100)
        if metadata_partition(place := TopicIdPartition(id_of(number), "new", 0), 2) != member.index
    )
    member.tier.metadata_log.append(place, segment(1, 0, 9))
    member.layout.objects[id_of(1)] = b"x"
    member.round(100)
    assert member.layout.objects
    member.advance(600_000)
    assert not member.layout.objects


def test_deleted_topic_of_a_member_is_deleted_at_once(member: Member) -> None:
    member.append(member.topic_t, 10)
    member.round()
    assert member.layout.objects
    member.controller.delete_topics([TopicReference("t")])
    member.round(2)
    assert not member.layout.objects
    assert member.tier.remote_logs.find(member.place.topic_id, 0) is None


def test_new_leader_copies_nothing_that_the_last_one_copied(member: Member, caplog: pytest.LogCaptureFixture) -> None:
    """The leader of the metadata is new, too, so its high watermark is below the last records for a while."""
    member.lose()
    member.append(member.topic_t, 10)
    log = member.topic_t.log
    first, second = log.segments[0].base_offset, log.segments[1].base_offset
    member.leader_reads.write(member.place, segment(1, first, second - 1, epochs=((log.leader_epochs.latest, first),)))
    member.leader_reads.write(member.place, SegmentUpdate(id_of(1), SegmentState.COPY_FINISHED, 1, 7))
    end, member.leader_reads.end = member.leader_reads.end, 0
    member.restart()
    member.send_appends()
    member.round(3)
    assert not member.layout.calls
    assert "OFFSET_NOT_AVAILABLE" in caplog.text
    assert "Traceback" not in caplog.text
    member.leader_reads.end = end
    member.round(3)
    copies = [call for call in member.layout.calls if call.startswith("copy")]
    assert copies[0] == f"copy {second}"
