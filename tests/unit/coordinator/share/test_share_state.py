"""The state of the share coordinator: combining batches, rejected requests, and replay."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.group.refused import Refused
from coordinator.load import replay_batches
from coordinator.shard import UnknownRecord
from coordinator.share import decisions
from coordinator.share.records import SnapshotRecord, UpdateRecord, parse_record
from coordinator.share.shard import ShareCoordinatorSettings, ShareShard
from coordinator.share.state import ShareKey, ShareState, ShareUpdate, StateBatch, merge_batches
from protocol.error_codes import ErrorCode
from tests.support.scale import scaled

LOGS = Path(__file__).parents[3] / "data" / "logs"
SHARE = ShareKey("g", b"\1" * 16, 0)
NOW = Now(1_000, 0)

# Results of the same writes on Apache Kafka 4.3.1: (start offset, old, new, merge_batches)
COMBINED = [
    (8, [(8, 10, 2, 1), (11, 20, 0, 2)], [], [(8, 10, 2, 1), (11, 20, 0, 2)]),
    (
        8,
        [(8, 10, 2, 1), (11, 20, 0, 2)],
        [(9, 9, 0, 1), (12, 14, 2, 1), (30, 40, 9, 1)],
        [(8, 10, 2, 1), (11, 20, 0, 2), (30, 40, 9, 1)],
    ),
    (8, [(11, 20, 0, 2)], [(15, 16, 0, 1), (15, 16, 0, 3)], [(11, 14, 0, 2), (15, 16, 0, 3), (17, 20, 0, 2)]),
    (13, [(8, 10, 2, 1), (11, 14, 0, 2)], [], [(13, 14, 0, 2)]),
    (-1, [(13, 16, 0, 3)], [(16, 16, 4, 1)], [(13, 16, 0, 3)]),
    (2, [(13, 14, 0, 2)], [(3, 4, 2, 1), (10, 9, 2, 1)], [(3, 4, 2, 1), (10, 9, 2, 1), (13, 14, 0, 2)]),
    (0, [(3, 4, 2, 1), (13, 14, 0, 2)], [(3, 9, 2, 1), (10, 12, 2, 1), (13, 13, 2, 2)],
     [(3, 12, 2, 1), (13, 13, 2, 2), (14, 14, 0, 2)]),
]  # fmt: skip


def batches(rows):
    return tuple(StateBatch(*row) for row in rows)


@pytest.mark.parametrize(("start", "old", "new", "expected"), COMBINED)
def test_batches_combine_as_in_kafka(start, old, new, expected):
    """The higher delivery count wins, then the higher state; equal neighbours are joined."""
    assert batches(expected) == merge_batches(batches(old), batches(new), start)


def test_archived_replaces_archiving():
    """KIP-1191: the count is the same before and after the record is in its dead-letter queue."""
    archiving, archived = batches([(3, 5, 3, 1)]), batches([(3, 3, 4, 1), (5, 5, 4, 1)])
    assert merge_batches(archiving, archived, 0) == batches([(3, 3, 4, 1), (4, 4, 3, 1), (5, 5, 4, 1)])


SOME = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 10),
        st.sampled_from([0, 2, 3, 4]),
        st.integers(1, 3),
    ),
    max_size=8,
)


@given(SOME, SOME, st.integers(-1, 20))
@settings(max_examples=scaled(100))
def test_each_record_keeps_its_strongest_state(old, new, start):
    """Record by record; the result is ordered, without overlaps and as short as possible."""
    found = merge_batches(old, new, start)

    by_offset = {
        offset: max((b[3], b[2]) for b in (*old, *new) if b.first_offset <= offset <= b.last_offset)
        for b in (*old, *new)
        for offset in range(max(b.first_offset, start), b.last_offset + 1)
    }
    assert by_offset == {o: (b[3], b[2]) for b in found for o in range(b.first_offset, b.last_offset + 1)}
    assert all(a.last_offset < b.first_offset for a, b in pairwise(found))
    assert not any(a.last_offset + 1 == b.first_offset and a[2:] == b[2:] for a, b in pairwise(found))


class Counted(StateBatch):
    """Counts how often its end is read."""

    asked = 0

    @property
    def last_offset(self) -> int:  # type: ignore[override]
        Counted.asked += 1
        return self[1]


def test_combining_many_records_is_not_quadratic():
    """Each record of a large batch is acknowledged alone: not all are compared with all."""
    few = 1_000
    single = [Counted(offset, offset, 2, 2) for offset in range(0, 2 * few, 2)]
    Counted.asked = 0
    found = merge_batches([StateBatch(0, 2 * few - 1, 0, 1)], single, 0)
    assert found == tuple(
        StateBatch(offset, offset, 0 if offset % 2 else 2, 1 if offset % 2 else 2) for offset in range(2 * few)
    )
    assert Counted.asked <= 10 * few


class Harness:
    """A shard whose log is a list."""

    def __init__(self, **settings: int) -> None:
        self.shard = ShareShard(0, ShareCoordinatorSettings(**settings))
        self.log: list[tuple[bytes, bytes | None]] = []

    def append(self, records, producer=None) -> ErrorCode:
        for record in records:
            self.shard.replay(record, len(self.log))
            self.log.append((record.key, record.value))
        return ErrorCode.NONE

    def do(self, decide, *args, **fields):
        effects = Effects()
        found = decide(self.shard, SHARE, *args, effects=effects, **fields)
        carry_out(effects, self.append)
        return found

    def write(self, start, *rows, state_epoch=1, leader_epoch=0, done=0):
        self.do(
            decisions.write,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=done,
            batches=batches(rows),
            now=NOW,
        )

    def loaded(self) -> ShareShard:
        shard = ShareShard(0, self.shard.settings)
        for offset, (key, value) in enumerate(self.log):
            shard.replay(shard.parse(key, value), offset)
        return shard


def refused(decide, *args, **fields) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        decide(*args, **fields)
    return caught.value.code


def test_uninitialized_state_is_not_read_or_written():
    """As in Kafka; deleting and summarizing are allowed."""
    h = Harness()
    assert refused(h.write, 0) is ErrorCode.INVALID_REQUEST
    assert refused(h.do, decisions.read, 0) is ErrorCode.INVALID_REQUEST
    h.do(decisions.delete)
    assert decisions.summarize(h.shard, SHARE) == decisions.NO_STATE
    assert not h.log
    assert refused(decisions.check_partition, SHARE._replace(partition=-1)) is ErrorCode.INVALID_REQUEST


def test_fenced_requests_change_nothing():
    """An older group or leader is fenced; a newer leader is recorded when it reads."""
    h = Harness()
    h.do(decisions.initialize, 5, -1, NOW)
    assert refused(h.do, decisions.initialize, 4, 0, NOW) is ErrorCode.FENCED_STATE_EPOCH
    assert refused(h.write, 0, state_epoch=4) is ErrorCode.FENCED_STATE_EPOCH
    h.write(0, state_epoch=7, leader_epoch=3)
    h.do(decisions.read, 4)
    before = len(h.log)
    assert refused(h.write, 0, state_epoch=5, leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(h.do, decisions.read, 3) is ErrorCode.FENCED_LEADER_EPOCH
    assert before == len(h.log)
    assert (h.shard.states[SHARE].state_epoch, h.shard.states[SHARE].leader_epoch) == (5, 4)


def test_negative_epochs_are_invalid():
    """As in Kafka since 4.4, also without a state, and with a state that is to be initialized."""
    h = Harness()
    for _ in range(2):
        before = len(h.log)
        for decide, args, fields, message in (
            (h.do, (decisions.initialize, -1, 0, NOW), {}, "The state epoch cannot be a negative number."),
            (h.do, (decisions.read, -1), {}, "The leader epoch cannot be a negative number."),
            (h.write, (0,), {"leader_epoch": -1}, "The leader epoch cannot be a negative number."),
            (h.write, (0,), {"state_epoch": -1}, "The state epoch cannot be a negative number."),
        ):
            with pytest.raises(Refused) as caught:
                decide(*args, **fields)
            assert (caught.value.code, str(caught.value)) == (ErrorCode.INVALID_REQUEST, message)
        assert before == len(h.log)
        h.do(decisions.initialize, 1, 0, NOW)


def test_initialization_replaces_the_state():
    """The new snapshot has only a start offset."""
    h = Harness()
    h.do(decisions.initialize, 1, -1, NOW)
    h.write(0, (0, 4, 2, 1), done=5)
    h.do(decisions.initialize, 1, 3, NOW)
    assert ShareState(1, 3, 1, 0, 0, 1_000, 1_000, ()) == h.shard.states[SHARE]


def test_a_snapshot_follows_a_number_of_updates():
    """share.coordinator.snapshot.update.records.per.snapshot; the log is needed from the last snapshot on."""
    h = Harness(updates_per_snapshot=2)
    h.do(decisions.initialize, 1, 0, NOW)
    for offset in range(3):
        h.write(0, (offset, offset, 2, 1), done=offset + 1)
    assert [str(key[1]) for key, _ in h.log] == ["0", "1", "1", "0"]
    assert h.shard.needed_from == 3
    assert ShareState(1, 0, 1, 0, 3, 1_000, 1_000, batches([(0, 2, 2, 1)])) == h.shard.states[SHARE]
    h.do(decisions.delete)
    assert (h.shard.needed_from, len(h.shard)) == (5, 0)


def cold_snapshots(h, now_ms):
    """Return the snapshots that are due."""
    return [record for record in decisions.cold_snapshots(h.shard, lambda: Now(now_ms, 0)) if record is not None]


def test_idle_share_partitions_get_a_snapshot():
    """So the log can be truncated after their updates; without updates there is none."""
    h = Harness(cold_snapshot_interval_ms=100)
    h.do(decisions.initialize, 1, 0, NOW)
    assert cold_snapshots(h, 2_000) == []
    h.write(0, (0, 0, 2, 1))
    assert cold_snapshots(h, 1_050) == []
    [snapshot] = cold_snapshots(h, 2_000)
    h.append([snapshot])
    assert cold_snapshots(h, 3_000) == []
    assert (h.shard.needed_from, h.shard.states[SHARE].snapshot_epoch) == (2, 1)


@pytest.mark.parametrize(
    "change", [lambda h: h.do(decisions.delete), lambda h: h.append(cold_snapshots(h, 2_000))], ids=["gone", "written"]
)
def test_changed_share_partitions_get_no_cold_snapshot(change):
    h = Harness(cold_snapshot_interval_ms=100)
    h.do(decisions.initialize, 1, 0, NOW)
    h.write(0, (0, 0, 2, 1))
    due = decisions.cold_snapshots(h.shard, lambda: (change(h), Now(2_000, 0))[1])
    assert list(due) == [None]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(-1, 20), SOME, st.integers(1, 3), st.integers(-1, 3)),
        st.tuples(st.just("begin"), st.integers(1, 3), st.integers(-1, 10)),
        st.tuples(st.just("read"), st.integers(-1, 3)),
        st.tuples(st.just("delete")),
    ),
    max_size=20,
)


@given(STEPS)
@settings(max_examples=scaled(60))
def test_state_after_traffic_is_the_state_of_its_log(steps):
    """The log is replayed from encoded records, too."""
    h = Harness(updates_per_snapshot=3)
    for step in steps:
        try:
            if step[0] == "write":
                h.write(step[1], *step[2], state_epoch=step[3], leader_epoch=step[4])
            elif step[0] == "begin":
                h.do(decisions.initialize, step[1], step[2], NOW)
            elif step[0] == "read":
                h.do(decisions.read, step[1])
            else:
                h.do(decisions.delete)
        except Refused:
            pass
    loaded = h.loaded()
    assert h.shard.states == loaded.states
    assert (h.shard.update_counts, h.shard.snapshot_offsets) == (loaded.update_counts, loaded.snapshot_offsets)
    kept = ShareShard(0, h.shard.settings)
    for offset, (key, value) in list(enumerate(h.log))[h.shard.needed_from :]:
        kept.replay(kept.parse(key, value), offset)
    assert h.shard.states == kept.states


@pytest.mark.parametrize(
    "record",
    [
        SnapshotRecord(SHARE, ShareState(2, -1)),
        SnapshotRecord(SHARE, ShareState(2, 7, 3, 4, 5, 6, 7, batches([(7, 9, 4, 5)]))),
        SnapshotRecord(SHARE, None),
        UpdateRecord(SHARE, ShareUpdate(1, 2, 3, 4, batches([(7, 9, 0, 1), (10, 10, 2, 2)]))),
        UpdateRecord(SHARE, None),
    ],
)
def test_records_round_trip(record):
    assert record == parse_record(record.key, record.value)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"", b""), (b"\0\2", b""), (b"\0\0\0\5g", b""), (b"\0\1", None)]
)
def test_invalid_bytes_are_an_unknown_record(key, value):
    with pytest.raises(UnknownRecord):
        parse_record(key, value)


def test_key_of_a_share_partition_is_that_of_kafka():
    """It determines the partition in `__share_group_state`."""
    assert SHARE.coordinator_key == "g:AQEBAQEBAQEBAQEBAQEBAQ:0"


def test_recorded_log_loads_as_its_dump():
    """`__share_group_state` of Apache Kafka 4.3.1."""
    log = (LOGS / "v4.3.1-clean-shutdown" / "__share_group_state-0" / "00000000000000000000.log").read_bytes()
    shard = ShareShard(0, ShareCoordinatorSettings())
    assert list(replay_batches(shard, log, 0))[-1][0] == 2
    assert not shard.unknown_records
    [(share, state)] = shard.states.items()
    assert (share.group_id, share.partition) == ("g-share", 0)
    assert state == ShareState(2, 0, 0, 0, 18, 1795261472594, 1795261472594, batches([(0, 17, 2, 1)]))
