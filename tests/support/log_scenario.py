"""The part of a broker that changes files of logs: topics, random steps in sequence, and the expected state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from storage.errors import LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log.partition_log import PartitionLog
from storage.log.tasks import FlushTask, Task
from storage.log_config import LONG_MAX, LogConfig
from storage.log_manager import LogManager
from tests.support.log_rules import check_aborted, check_rules
from tests.support.logs import T0, append, batch, end, idempotent

CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=100, segment_index_bytes=512, retention_ms=-1, file_delete_delay_ms=0
)


@dataclass
class Topic:
    """A topic of one partition. Moments are values of `Scenario.moment`."""

    name: str
    topic_id: bytes
    made: int
    values: dict[int, bytes] = field(default_factory=dict)  # by offset, once the append was answered
    forced: list[tuple[int, int]] = field(default_factory=list)  # moment, end offset: all records below are flushed
    largest_start: int = 0  # the largest log start offset that was requested
    deleted: int | None = None
    sequence: int = 0
    transactions: int = 0

    def forced_below(self, moment: int) -> int:
        return max((end_offset for when, end_offset in self.forced if when <= moment), default=0)


class Scenario:
    """Two topics, and `step`s. `moment` is the number of the current disk call; with `flush_messages` of 1 each append
    is flushed.
    """

    def __init__(
        self,
        log_dir: Path,
        random: Random,
        fs: FileSystem = LOCAL,
        *,
        moment: Callable[[], int] = lambda: 0,
        flush_messages: int = LONG_MAX,
    ) -> None:
        self.random = random
        self.log_dir = log_dir
        self.moment = moment
        self.config = replace(CONFIG, flush_messages=flush_messages)
        self.fs = fs
        self.topics: list[Topic] = []
        self.epoch = 0

    def run(self, steps: int) -> None:
        """Run steps. Raises LogOffline when the directory fails."""
        self.open()
        for name in ("one", "two"):
            self.make(name)
        for number in range(steps):
            self.step(number)

    def leave(self) -> None:
        """End as a killed process does."""
        for log in self.manager.logs.values():
            log.close_files()
        self.manager.unlock()

    def open(self) -> None:
        self.manager = LogManager([str(self.log_dir)], fs=self.fs)
        self.manager.lock()
        self.manager.load(lambda topic: self.config, T0, may_wait=lambda directory, stored: True)
        [directory] = self.manager.directories
        if directory.failure is not None:
            raise LogOffline(directory.path, directory.failure)

    def make(self, name: str) -> None:
        topic = Topic(name, self.random.randbytes(16), self.moment())
        self.manager.create(name, 0, topic.topic_id, self.config, T0)
        self.topics.append(topic)

    def log(self, topic: Topic) -> PartitionLog:
        found = self.manager.open(topic.name, 0)
        assert found is not None
        return found

    def do(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            task.run()
            task.apply()
            if isinstance(task, FlushTask):
                [topic] = [each for each in self.topics if each.name == task.log.topic and each.deleted is None]
                topic.forced.append((self.moment(), self.log(topic).recovery_point))

    def flush(self, topic: Topic) -> None:
        task = self.manager.flush_task(self.log(topic), T0)
        if isinstance(task, FlushTask):
            self.do([task])
            task.check()

    def step(self, number: int) -> None:
        random = self.random
        topic = random.choice([each for each in self.topics if each.deleted is None])
        log = self.log(topic)
        match random.randrange(20):
            case 0 | 1 | 2 | 3 | 4 | 5:
                value = b"%s-%d" % (topic.topic_id.hex().encode(), number) + bytes(random.randrange(200))
                self.append(topic, batch(value, timestamp=T0 + number), value)
            case 6 | 7 | 8 | 9:
                self.append(topic, idempotent(topic.sequence), b"%d" % topic.sequence)
                topic.sequence += 1
            case 10:
                records = idempotent(topic.transactions, producer_id=9, transactional=True)
                self.append(topic, records, b"%d" % topic.transactions)
                topic.transactions += 1
                end(log, commit=random.random() < 0.5, producer_id=9)
            case 11:
                self.do(self.manager.flush_tasks(T0))
            case 12:
                self.flush(topic)
            case 13 | 14:
                self.do(self.manager.checkpoint_tasks())
            case 15 | 16:
                topic.largest_start = random.randrange(log.log_start_offset, log.log_end_offset + 1)
                log.delete_records(topic.largest_start)
                self.do(self.manager.retention_tasks(T0))
            case 17:
                self.do(self.manager.removal_tasks(T0))
            case 18:
                topic.deleted = self.moment()
                self.manager.delete(topic.name, 0, random.randbytes(16).hex(), T0)
                self.make(topic.name)
            case _:
                self.restart()

    def append(self, topic: Topic, records: bytearray, value: bytes) -> None:
        offset = append(self.log(topic), records)
        if self.config.flush_messages == 1:
            self.flush(topic)
        topic.values[offset] = value

    def restart(self) -> None:
        """Stop cleanly, and start."""
        self.epoch += 1
        self.manager.close(T0, broker_epoch=self.epoch)
        if self.manager.directories[0].is_online:
            for topic in self.topics:
                if topic.deleted is None:
                    topic.forced.append((self.moment(), max(topic.values, default=-1) + 1))
        self.open()

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def check(self, log_dir: Path, moment: int, promised: Callable[[Topic], int]) -> None:
        """Check that a start on `log_dir` finds all answered records below the offset `promised`, and can append.

        Topics are left out if their deletion had begun by `moment`, or their creation had not ended.
        """
        manager = LogManager([str(log_dir)])
        manager.lock()
        manager.load(lambda topic: self.config, T0)
        assert manager.directories[0].is_online, manager.directories[0].failure
        assert not manager.unopened.refused, "P8: the next start needs nobody"
        for topic in self.topics:
            if topic.made <= moment and (topic.deleted is None or topic.deleted > moment):
                self._check_topic(topic, manager.open(topic.name, 0), promised(topic))
        manager.close(T0)

    def _check_topic(self, topic: Topic, log: PartitionLog | None, promised: int) -> None:
        if log is None or log.topic_id not in (None, topic.topic_id):  # another topic had this name before
            assert not promised, "W3: what was promised is there, under its topic id"
            return
        # A power loss may bring back segments that retention has removed, one or two of them.
        records = {record.offset: record.value for record in check_rules(log, topic.largest_start)}
        check_aborted(log)
        start = max(topic.largest_start, log.log_start_offset)
        expected = {offset for offset in topic.values if start <= offset < promised}
        assert expected <= set(records), "W3: what was promised is there"
        if promised:
            assert log.topic_id == topic.topic_id, "W3: the topic id is there with the records"
            assert log.log_end_offset >= promised, "W3: no offset is given twice"
            assert all(records[offset] == topic.values[offset] for offset in expected), "W1: as it was written"
        assert append(log, batch(b"next")) == log.log_end_offset - 1
