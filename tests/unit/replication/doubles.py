"""A log in memory, and a leader that answers fetches from one."""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, EpochEndOffset, FetchableTopicResponse, PartitionData
from protocol.schema import Struct
from replication.followed_log import DamagedRecords, EpochEnd, LogFailed

_ENTRY = Layout(">qiq")


class Entry(NamedTuple):
    """A record: its offset, the epoch in which it was written, and what it says."""

    offset: int
    epoch: int
    value: int


class MemoryLog:
    """One record a batch. `epochs` has the first offset of each leader epoch."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = []
        self.log_start_offset = self.high_watermark = self._empty_at = 0
        self.broken = False

    @property
    def log_end_offset(self) -> int:
        return self.entries[-1].offset + 1 if self.entries else self._empty_at

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        if not self.epochs or epoch > self.epochs[-1][0]:
            return EpochEnd(-1, -1)
        if epoch == self.epochs[-1][0]:
            return EpochEnd(epoch, self.log_end_offset)
        end = next(start for found, start in self.epochs if found > epoch)
        return EpochEnd(max((found for found, _ in self.epochs if found <= epoch), default=epoch), end)

    def lead(self, epoch: int) -> None:
        self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
        self.epochs.append((epoch, self.log_end_offset))

    def write(self, epoch: int, value: int) -> None:
        if self.latest_epoch < epoch:
            self.lead(epoch)
        self.entries.append(Entry(self.log_end_offset, epoch, value))

    def append(self, records: memoryview, max_epoch: int) -> None:
        if self.broken:
            raise LogFailed
        found = [Entry(*each) for each in _ENTRY.iter_unpack(records[: len(records) // _ENTRY.size * _ENTRY.size])]
        if found and (found[0].offset != self.log_end_offset or found[0].epoch < self.latest_epoch):
            raise DamagedRecords
        for entry in found:
            if entry.epoch > max_epoch:
                break
            self.write(entry.epoch, entry.value)

    def truncate(self, offset: int) -> None:
        self.entries = [each for each in self.entries if each.offset < offset]
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self._empty_at = min(offset, self._empty_at)

    def start_over(self, offset: int) -> None:
        self.entries, self.epochs = [], []
        self.log_start_offset = self._empty_at = offset

    def note_leader(self, high_watermark: int, log_start_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.log_end_offset))
        self.log_start_offset = max(self.log_start_offset, min(log_start_offset, self.high_watermark))

    def read(self, offset: int, count: int) -> bytes:
        return b"".join(_ENTRY.pack(*each) for each in self.entries if each.offset >= offset)[: count * _ENTRY.size]


class MemoryLeader:
    """Answers fetches of partitions of one topic, with sessions, as Kafka does."""

    def __init__(self, logs: dict[tuple[bytes, int], MemoryLog], epoch: int, *, batch: int = 3) -> None:
        self.logs = logs
        self.epoch = epoch
        self.batch = batch
        self.session: dict[tuple[bytes, int], Struct] = {}
        self.has_room = True
        self.named: list[tuple[bytes, int]] = []

    def fetch(self, request: Struct) -> Struct:
        if request.session_epoch == 0:
            self.session = {}
        self.named = []
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del self.session[topic.topic_id, index]
        for topic in request.topics:
            for asked in topic.partitions:
                self.named.append((topic.topic_id, asked.partition))
                self.session[topic.topic_id, asked.partition] = asked
        topics = [
            FetchableTopicResponse(topic_id=topic_id, partitions=[self._answer(self.logs[topic_id, index], asked)])
            for (topic_id, index), asked in self.session.items()
        ]
        return FETCH.response(session_id=77 if self.has_room else 0, responses=topics)

    def _answer(self, log: MemoryLog, asked: Struct) -> Struct:
        data = {"partition_index": asked.partition, "error_code": 0, "high_watermark": log.high_watermark}
        data |= {"log_start_offset": log.log_start_offset, "records": b"", "aborted_transactions": []}
        offset = asked.fetch_offset
        if asked.current_leader_epoch != self.epoch:
            late = asked.current_leader_epoch < self.epoch
            data["error_code"] = ErrorCode.FENCED_LEADER_EPOCH if late else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif asked.last_fetched_epoch >= 0 and (end := log.end_of_epoch(asked.last_fetched_epoch)).end_offset < offset:
            if end.end_offset < 0:
                data["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                data["diverging_epoch"] = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        elif asked.last_fetched_epoch >= 0 and end.epoch < asked.last_fetched_epoch:
            data["diverging_epoch"] = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        elif not log.log_start_offset <= offset <= log.log_end_offset:
            data["error_code"] = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            data["records"] = log.read(offset, self.batch)
        return PartitionData(**data)
