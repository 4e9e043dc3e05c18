"""Random copies, crashes, truncations and expiries of a model log: no record of it is ever lost (tiered/README.md).

The model has the records of a log, the segments on its local disk, and the objects of a remote storage. `tiered/`
alone decides about copies and deletions. A crash may come between any two steps of a copy or deletion, and loses
records that are not synced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.scale import scaled
from tests.unit.tiered.copies import id_of
from tiered.copying import CopyLag, LocalSegment, due_for_copying
from tiered.expiry import RemoteRetention, expired, of_other_lineages
from tiered.lineage import Lineage, clamped
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate
from tiered.segments import RemoteSegments

BROKER = 7
#: Bytes and ms of one record.
RECORD = 10


@dataclass
class ModelLog:
    """Each record is a number. Segments are their first offsets; the last one is active."""

    records: dict[int, int] = field(default_factory=dict)
    starts: list[int] = field(default_factory=lambda: [0])
    epochs: list[tuple[int, int]] = field(default_factory=list)
    log_start: int = 0
    end: int = 0
    synced: int = 0

    @property
    def lineage(self) -> Lineage:
        return Lineage(tuple(self.epochs), self.end)

    @property
    def closed(self) -> list[LocalSegment]:
        return [
            LocalSegment(start, later - 1, (later - start) * RECORD, (later - 1) * RECORD)
            for start, later in pairwise(self.starts)
        ]

    def lead(self, epoch: int) -> None:
        """Begin a leader epoch, which replaces one that has no records."""
        while self.epochs and self.epochs[-1][1] >= self.end:
            self.epochs.pop()
        self.epochs.append((epoch, self.end))

    def truncate(self, end: int) -> None:
        self.end, self.synced = end, min(self.synced, end)
        self.starts = [start for start in self.starts if start < end] or [max(self.starts[0], end)]
        self.epochs = [entry for entry in self.epochs if entry[1] < end]
        self.log_start = min(self.log_start, end)

    def raise_start(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        self.epochs = list(clamped(self.epochs, self.log_start, self.end + 1))


class Tiers(RuleBasedStateMachine):
    """One log, its remote segments, and the objects in remote storage by segment id."""

    def __init__(self) -> None:
        super().__init__()
        self.log = ModelLog()
        self.remote = RemoteSegments()
        self.objects: dict[bytes, dict[int, int]] = {}
        self.numbers = count()
        self.ids = map(id_of, count(1))
        self.epoch = 0
        self.log.lead(0)

    def update(self, segment: RemoteSegment, state: SegmentState) -> None:
        assert self.remote.update(SegmentUpdate(segment.id, state, 0, BROKER))

    @rule(records=st.integers(1, 8), rolls=st.booleans())
    def append(self, records: int, rolls: bool) -> None:
        for _ in range(records):
            self.log.records[self.log.end] = next(self.numbers)
            self.log.end += 1
        if rolls:
            self.log.starts.append(self.log.end)

    @rule()
    def sync(self) -> None:
        self.log.synced = self.log.end

    @rule(steps=st.sampled_from(["start", "half", "upload", "finish"]), stable=st.integers(0, 10))
    def copy(self, steps: str, stable: int) -> None:
        """Copy what is due; a crash ends it after these steps of the first segment, unless they are all."""
        log = self.log
        due = due_for_copying(
            log.closed,
            copied_offset=log.lineage.copied_up_to(self.remote, log.log_start),
            log_start_offset=log.log_start,
            safe_offset=min(log.synced, log.end - stable),
            active_bytes=(log.end - log.starts[-1]) * RECORD,
            lag=CopyLag(),
            now_ms=log.end * RECORD,
        )
        for each in due:
            epochs = clamped(log.epochs, each.start_offset, each.end_offset + 1)
            if not epochs:
                break
            segment = RemoteSegment(
                next(self.ids), *each[:2], each.max_timestamp_ms, 0, BROKER, each.size_bytes, epochs
            )
            assert self.remote.add(segment)
            offsets = range(each.start_offset, each.end_offset + 1)
            if steps != "start":
                half = offsets[: len(offsets) // 2] if steps == "half" else offsets
                self.objects[segment.id] = {offset: log.records[offset] for offset in half}
            if steps != "finish":
                self.crash()
                return
            self.update(segment, SegmentState.COPY_FINISHED)

    @rule(keep=st.integers(0, 3))
    def expire_locally(self, keep: int) -> None:
        copied = self.log.lineage.copied_up_to(self.remote, self.log.log_start)
        while len(self.log.starts) > keep + 1 and self.log.starts[1] - 1 <= copied:
            del self.log.starts[0]

    @rule(
        ms=st.sampled_from([-1, 0, 50, 300]),
        limit=st.sampled_from([-1, 0, 100, 500]),
        deleted=st.integers(0, 4),
        half=st.booleans(),
    )
    def expire(self, ms: int, limit: int, deleted: int, half: bool) -> None:
        """Delete what has expired; a crash comes after so many deletions, if there are more."""
        log = self.log
        copied = log.lineage.copied_up_to(self.remote, log.log_start)
        found = expired(
            self.remote,
            log.lineage,
            RemoteRetention(ms, limit),
            log_start_offset=log.log_start,
            only_local_bytes=(log.end - max(copied + 1, log.log_start)) * RECORD,
            broker_id=BROKER,
            copying=(),
            now_ms=log.end * RECORD,
        )
        others = of_other_lineages(self.remote, log.lineage)
        if found.log_start_offset is not None:
            is_old = (found.log_start_offset - 1) * RECORD <= log.end * RECORD - ms
            is_large = (log.end - found.log_start_offset) * RECORD >= limit
            assert (ms >= 0 and is_old) or (limit >= 0 and is_large), "the log start passed records that are kept"
            log.raise_start(found.log_start_offset)
        for number, segment in enumerate(dict.fromkeys([*found.segments, *others])):
            self.update(segment, SegmentState.DELETE_STARTED)
            if number == deleted:
                if half:
                    self.objects.pop(segment.id, None)
                self.crash()
                return
            self.objects.pop(segment.id, None)
            self.update(segment, SegmentState.DELETE_FINISHED)

    @rule(deleted=st.integers(0, 4))
    def turn_off_for_a_while(self, deleted: int) -> None:
        """Delete copies of a topic that is not tiered; it is tiered again after so many of them."""
        self.log.raise_start(self.log.starts[0])
        for segment in list(self.remote)[:deleted]:
            self.update(segment, SegmentState.DELETE_STARTED)
            self.objects.pop(segment.id, None)
            self.update(segment, SegmentState.DELETE_FINISHED)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        span = self.log.end - self.log.log_start
        self.log.raise_start(self.log.log_start + int(span * share))

    @rule()
    def crash(self) -> None:
        self.log.truncate(max(self.log.synced, self.log.starts[0]))
        self.lead_again()

    @rule()
    def lead_again(self) -> None:
        self.epoch += 1
        self.log.lead(self.epoch)

    @rule(share=st.floats(0, 1))
    def lose_to_another_leader(self, share: float) -> None:
        """An unclean election: a replica that lacked the newest records leads on."""
        kept_from = max(self.log.starts[0], self.log.log_start)
        self.log.truncate(kept_from + int((self.log.end - kept_from) * share))
        self.lead_again()

    @invariant()
    def every_record_is_in_one_of_the_tiers(self) -> None:
        log = self.log
        for offset in range(log.log_start, log.end):
            if offset >= log.starts[0]:
                continue
            epoch = log.lineage.epoch_of(offset)
            segment = None if epoch is None else self.remote.find(epoch, offset)
            assert segment is not None, f"offset {offset} of {log} is nowhere"
            assert self.objects[segment.id][offset] == log.records[offset]

    @invariant()
    def nothing_is_counted_twice_or_forgotten(self) -> None:
        segments = list(self.remote)
        assert self.remote.count == len(segments)
        assert self.remote.size_bytes == sum(segment.size_bytes for segment in segments)
        assert self.objects.keys() <= {segment.id for segment in segments}


TestTiers = Tiers.TestCase
TestTiers.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
