"""A log compared with a list, for any operations in any order, with restarts and crashes."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from storage.errors import OffsetOutOfRange, OutOfOrderSequence
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, append, batch, end, idempotent, opened, read_all
from tests.support.scale import scaled

CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=150, segment_index_bytes=256, segment_ms=5000, retention_ms=-1
)


class LogModel(RuleBasedStateMachine):
    """The expected log: `records` has (offset, value), None for markers; `aborted` has open and ended transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.records: list[tuple[int, bytes | None]] = []
        self.start = 0
        self.next = 0
        self.sequences = {7: 0, 8: 0}
        self.epochs = {7: 0, 8: 0}
        self.last_offsets: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.time = T0
        #: The ends of batches: possible values of the high watermark and the last stable offset.
        self.ends: list[int] = []

    @initialize()
    def begin(self) -> None:
        self.manager = LogManager([str(self.root)], max_open_files=6)
        self.manager.lock()
        self.log: PartitionLog = self.manager.create("orders", 0, bytes(16), CONFIG, T0)

    def teardown(self) -> None:
        self.manager.close(self.time)
        shutil.rmtree(self.root)

    def _appended(self, *values: bytes | None) -> None:
        for value in values:
            self.records.append((self.next, value))
            self.next += 1
        self.ends.append(self.next)

    @rule(
        values=st.lists(st.binary(max_size=60), min_size=1, max_size=5),
        codec=st.sampled_from(list(Codec)),
        step=st.integers(-2000, 3000),
    )
    def append_plain(self, values: list[bytes], codec: Codec, step: int) -> None:
        self.time += step
        assert append(self.log, batch(*values, codec=codec, timestamp=self.time), now_ms=self.time) == self.next
        self._appended(*values)

    @rule(producer=st.sampled_from([7, 8]), count=st.integers(1, 4), transactional=st.booleans())
    def append_idempotent(self, producer: int, count: int, transactional: bool) -> None:
        transactional = transactional or producer in self.open
        if self.last_offsets.get(producer, 0) < self.start:
            # Its records were deleted but a marker may remain: Kafka then expects the producer to start again.
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        header = {"producer_id": producer, "epoch": self.epochs[producer], "transactional": transactional}
        sequence = self.sequences[producer]
        records = idempotent(sequence, count, timestamp=self.time, **header)
        repeated = bytearray(records)
        base_offset = append(self.log, records, now_ms=self.time)
        assert base_offset == self.next
        self._appended(*(b"%d" % (sequence + number) for number in range(count)))
        self.sequences[producer] += count
        self.last_offsets[producer] = self.next - 1
        if transactional:
            self.open.setdefault(producer, base_offset)
        assert append(self.log, repeated, now_ms=self.time) == base_offset
        try:
            append(self.log, idempotent(sequence + count + 1, timestamp=self.time, **header), now_ms=self.time)
        except OutOfOrderSequence:
            pass
        else:
            raise AssertionError("a gap in the sequences was taken")

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans(), data=st.data())
    def end_transaction(self, commit: bool, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open)))
        first = self.open.pop(producer)
        assert end(self.log, commit=commit, producer_id=producer, epoch=self.epochs[producer]) == self.next
        self._appended(None)
        listed = [entry[:3] for entry in self.log.aborted_transactions(self.start, self.next)]
        assert ((producer, first, self.next - 1) in listed) is (not commit and first >= 0)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        # Not inside an open transaction: whether it is known after a restart then depends on the other remaining
        # records.
        offset = data.draw(st.integers(self.start, self.log.last_stable_offset))
        assert self.log.delete_records(offset) == offset
        self.start = offset

    @rule()
    def retention(self) -> None:
        for task in self.manager.retention_tasks(self.time):
            task.run()
            task.apply()
        assert all(segment.base_offset > self.start for segment in list(self.log.segments)[1:])

    @rule(background=st.sampled_from(["flush", "flush_all", "checkpoint", "removal"]))
    def work_in_the_background(self, background: str) -> None:
        if background == "flush":
            tasks = self.manager.flush_tasks(self.time)
        elif background == "flush_all":
            task = self.manager.flush_task(self.log, self.time)
            tasks = [] if task is None else [task]
        elif background == "checkpoint":
            tasks = self.manager.checkpoint_tasks()
        else:
            tasks = self.manager.removal_tasks(self.time + 10_000_000)
        for each in tasks:
            each.run()
            each.apply()

    @rule(clean=st.booleans(), torn=st.binary(max_size=80))
    def restart(self, clean: bool, torn: bytes) -> None:
        """After a crash the log start offset is that of the last checkpoint; no other record returns."""
        if clean:
            self.manager.close(self.time)
        else:
            for task in self.manager.checkpoint_tasks():
                task.run()
                task.apply()
            self.log.close_files()
            self.manager.unlock()
            with open(self.log.active_segment.log.path, "ab") as file:
                file.write(torn)
        self.manager = LogManager([str(self.root)], max_open_files=6)
        self.manager.lock()
        self.manager.load(lambda topic: CONFIG, self.time, may_wait=lambda directory, stored: True)
        self.log = opened(self.manager, "orders")

    @rule(data=st.data())
    def read_somewhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.next))
        max_bytes = data.draw(st.integers(1, 2000))
        bound = data.draw(st.sampled_from([end for end in self.ends if end >= self.start] or [self.next]))
        part = self.log.read(offset, max_bytes, bound)
        found = list(iter_records(part if isinstance(part, bytes) else part.read()))
        expected = [each for each in self.records if offset <= each[0] < bound]
        if not expected:
            assert not found
        else:
            assert found[0].offset <= offset
            got = [(record.offset, record.value) for record in found if record.offset >= offset]
            plain = [(at, None if value is None else value) for at, value in expected]
            assert [at for at, _ in got] == [at for at, _ in self.records if offset <= at <= got[-1][0]]
            assert all(wanted is None or value == wanted for (_, value), (_, wanted) in zip(got, plain, strict=False))

    @rule(offset=st.sampled_from([-1, 1]))
    def read_outside(self, offset: int) -> None:
        outside = self.start - 1 if offset < 0 else self.next + 1
        try:
            self.log.read(outside, 100, self.next)
        except OffsetOutOfRange:
            return
        raise AssertionError("read what is not there")

    @rule(step=st.integers(-6000, 6000))
    def look_up_a_time(self, step: int) -> None:
        target = self.time + step
        found = self.log.offset_for_timestamp(target)
        records = read_all(self.log)
        expected = next((record for record in records if record.timestamp >= target), None)
        assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset))

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (self.start, self.next, self.next)
        assert log.last_stable_offset == min(self.open.values(), default=self.next)
        assert log.recovery_point <= log.log_end_offset
        assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)
        assert len(log.directory.files) <= 6

    @invariant()
    def everything_is_there_once_and_in_order(self) -> None:
        wanted = [(offset, value) for offset, value in self.records if offset >= self.start]
        found = [(record.offset, record.value) for record in read_all(self.log)]
        assert [offset for offset, _ in found] == [offset for offset, _ in wanted]
        assert all(value is None or value == got for (_, got), (_, value) in zip(found, wanted, strict=True))


LogModel.TestCase.settings = settings(
    max_examples=min(200, scaled(15)),
    stateful_step_count=min(100, scaled(25)),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestLogModel = LogModel.TestCase
