"""Random histories of a compacted log, compared with a model of the cleaner's result.

They have plain, idempotent and transactional batches in all codecs, commits, aborts, new segments, cleaning rounds,
passing time and restarts. After each round the log equals the model, and after a restart it still knows its producers.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.cleaning import clean_log, consume
from tests.support.logs import T0, append, close, crash, end, open_log
from tests.support.scale import scaled

RETENTION_MS = 1000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1500,
    index_interval_bytes=200,
    delete_retention_ms=RETENTION_MS,
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]
#: Producers 1 and 2 are idempotent, 3 and 4 transactional; 0 means no producer.
PRODUCERS = range(5)
TRANSACTIONAL = (3, 4)

records = st.lists(
    st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=40))), min_size=1, max_size=5
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(PRODUCERS), records, st.sampled_from(list(Codec))),
        st.tuples(st.just("append"), st.sampled_from(PRODUCERS), records, st.just(Codec.NONE)),
        st.tuples(st.just("end"), st.sampled_from(TRANSACTIONAL), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean")),
        st.tuples(st.just("wait"), st.integers(1, RETENTION_MS)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Batch:
    """A batch in the model. `aborted` is None while its transaction is open."""

    last_offset: int
    records: list[tuple[int, bytes, bytes | None]]
    producer: int
    aborted: bool | None
    horizon_ms: int | None = None


@dataclass
class Model:
    """The expected records."""

    batches: list[Batch] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    now_ms: int = T0
    checkpoint: int | None = None

    def clean(self, end_offset: int) -> None:
        """Mark all records below `end_offset` as clean."""
        below = [batch for batch in self.batches if batch.last_offset < end_offset]
        last: dict[bytes, int] = {}
        for batch in below:
            if not batch.aborted:
                last.update((key, offset) for offset, key, _ in batch.records)
        for batch in below:
            gone = batch.horizon_ms is not None and batch.horizon_ms <= self.now_ms
            batch.records = [
                (offset, key, value)
                for offset, key, value in batch.records
                if not batch.aborted and last[key] == offset and not (value is None and gone)
            ]
            if batch.horizon_ms is None and any(value is None for _, _, value in batch.records):
                batch.horizon_ms = self.now_ms + RETENTION_MS
        self.checkpoint = end_offset

    def contents(self) -> list[tuple[int, bytes, bytes | None]]:
        return [record for batch in self.batches for record in batch.records]


class Machine:
    """A log and its model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: PartitionLog = open_log(root, CONFIG)
        self.model = Model()

    def append(self, producer: int, found: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        model = self.model
        sequence = model.sequences.get(producer, -1) + 1
        identity = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer else {}
        builder = BatchBuilder(codec=codec, transactional=producer in TRANSACTIONAL, **identity)
        for number, (key, value) in enumerate(found):
            builder.append(model.now_ms + number, key, value, (("h", b"x"),) if number % 2 else ())
        base = append(self.log, bytearray(builder.build()), model.now_ms)
        if producer:
            model.sequences[producer] = sequence + len(found) - 1
        model.batches.append(
            Batch(
                base + len(found) - 1,
                [(base + number, key, value) for number, (key, value) in enumerate(found)],
                producer,
                None if producer in TRANSACTIONAL else False,
            )
        )

    def end(self, producer: int, commit: bool) -> None:
        ended = [batch for batch in self.model.batches if batch.producer == producer and batch.aborted is None]
        if ended:
            end(self.log, commit=commit, producer_id=producer)
            for batch in ended:
                batch.aborted = not commit

    def roll(self) -> None:
        self.log.roll(self.log.log_end_offset, self.model.now_ms)

    def wait(self, milliseconds: int) -> None:
        self.model.now_ms += milliseconds

    def clean(self) -> None:
        before = self.log.log_end_offset, self.log.log_start_offset
        result = clean_log(self.log, self.model.now_ms, self.model.checkpoint)
        if result is not None:
            self.model.clean(result.end_offset)
        assert before == (self.log.log_end_offset, self.log.log_start_offset)
        self.check()

    def restart(self, clean: bool) -> None:
        """Restart after a clean shutdown, or after a kill, which reads all batches again."""
        if clean:
            close(self.log)
        else:
            crash(self.log)
        ends = self.log.log_end_offset, self.log.last_stable_offset
        self.log = open_log(self.root, CONFIG, clean=clean)
        assert ends == (self.log.log_end_offset, self.log.last_stable_offset)
        self.check()
        sequences = {
            producer: entry.last_sequence
            for producer, entry in self.log.producer_state.producers.items()
            if entry.last_sequence >= 0
        }
        # After a marker the last sequence of a transactional producer is in its last batch, which is kept.
        assert sequences.items() >= {k: v for k, v in self.model.sequences.items() if k not in TRANSACTIONAL}.items()

    def check(self) -> None:
        """Compare the records, and those that read_committed consumers skip."""
        expected = self.model.contents()
        found = consume(self.log)
        control = {record.offset for record in found if record.key is not None and len(record.key) == 4}
        data = [(record.offset, record.key, record.value) for record in found if record.offset not in control]
        assert data == expected
        for offset, _, _ in expected:
            at = self.log.read(offset, 1, self.log.log_end_offset)
            assert len(at)
        aborted = self.log.aborted_transactions(0, self.log.log_end_offset)
        for batch in self.model.batches:
            for offset, _, _ in batch.records:
                covered = any(
                    each.producer_id == batch.producer and each.first_offset <= offset < each.last_offset
                    for each in aborted
                )
                assert covered == bool(batch.aborted)
                if batch.aborted is not None and batch.producer in TRANSACTIONAL:
                    assert any(marker > offset for marker in control)


@given(operations)
@settings(
    max_examples=min(1500, scaled(60)),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_cleaned_log_equals_the_model(history: list[tuple]) -> None:  # type: ignore[type-arg]
    """The last value of each key with offset and order; tombstones until their horizon; no aborted record."""
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        for name, *arguments in history:
            getattr(machine, name)(*arguments)
        machine.roll()
        machine.clean()
        machine.wait(RETENTION_MS)
        machine.clean()
        machine.restart(clean=False)
        crash(machine.log)
