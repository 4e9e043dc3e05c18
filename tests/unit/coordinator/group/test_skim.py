"""Loading with a skim has the same result as decoding every record, for any log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.records import CommittedOffset, GroupMetadata, GroupRecord, OffsetRecord, StoredRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.group.skim import CommitSkim
from coordinator.load import replay_batches
from coordinator.shard import no_skim
from coordinator.timers import Timers
from protocol.records.batch import compute_crc, iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.control import build_end_transaction_marker
from protocol.records.errors import RecordsError

ID = b"0123456789abcdef"
EMPTY_GROUP = GroupMetadata("consumer", 1, None, None, 1)


class OpeningShard(GroupShard):
    """A shard that decodes every record."""

    __slots__ = ()
    skim = staticmethod(no_skim)  # type: ignore[assignment]


def loaded(kind: type[GroupShard], data: bytes, piece_bytes: int = 1 << 20) -> dict[str, Any]:
    """Return the state after a log was read in pieces."""
    shard, replayed, problem = kind(GROUP_KINDS, 0, GroupSettings(), Timers()), [], ""
    position = offset = 0
    while not problem:
        end, piece = 0, data[position : position + piece_bytes]
        try:
            for place in replay_batches(shard, piece, offset, lambda *damage: replayed.append(damage)):
                offset, end = place
        except RecordsError as error:
            problem = str(error)
        position += end
        if not end:
            break
    offsets = shard.offsets
    return {
        "committed": [
            (group, topic, list(partitions.items()))
            for group, topics in offsets._committed.items()
            for topic, partitions in topics.items()
        ],
        "open": (offsets._open, offsets._pending, offsets._last_applied_offsets),
        "groups": [(name, type(group), group.is_simple) for name, group in shard.groups.items()],  # type: ignore[union-attr]
        "unknown": shard.unknown_records,
        "told": [(*place, str(error)) for *place, error in replayed],
        "end": (position, offset, problem),
    }


def commits(
    group_id: str, topic: str, partitions: Iterable[int], offset: int = 5, metadata: str = ""
) -> list[StoredRecord]:
    return [
        OffsetRecord(group_id, topic, each, CommittedOffset(offset, -1, metadata, 1_700_000_000_000, topic_id=ID))
        for each in partitions
    ]


def batch(
    base_offset: int, records: Iterable[StoredRecord], *, step: int = 1, step_ms: int = 0, **options: Any
) -> bytes:
    """Return a batch of these records; `step` between their offsets, `step_ms` between their times."""
    builder = BatchBuilder(base_offset, **options)
    for number, record in enumerate(records):
        builder.append(7 + number * step_ms, record.key, record.value, offset=base_offset + number * step)
    return builder.build()


def opened(data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many records are decoded during the load."""
    parse, calls = GroupShard.parse, []
    monkeypatch.setattr(GroupShard, "parse", lambda shard, key, value: (calls.append(key), parse(shard, key, value))[1])
    loaded(GroupShard, data)
    monkeypatch.undo()
    return len(calls)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_only_the_last_commit_of_a_partition_is_opened(count: int, monkeypatch: pytest.MonkeyPatch):
    log = b"".join(batch(at * count, commits("g", "t", range(count), offset=at)) for at in range(20))
    assert opened(log, monkeypatch) == count
    state = loaded(GroupShard, log)
    assert state == loaded(OpeningShard, log)
    [(_, _, partitions)] = state["committed"]
    assert {committed.offset for _, committed in partitions} == {19}


@pytest.mark.parametrize("name_size", [1, 8, 9, 10, 40, 51, 52, 53, 54, 249])
def test_names_of_any_length_are_found(name_size: int, monkeypatch: pytest.MonkeyPatch):
    """At sizes that need one more byte: about 50 bytes of a key."""
    log = b"".join(batch(at * 3, commits("g" * name_size, "t", range(3), offset=at)) for at in range(4))
    log += b"".join(batch(12 + at, commits("g" * name_size, "t", [7], offset=at)) for at in range(4))
    assert opened(log, monkeypatch) == 4
    assert loaded(GroupShard, log) == loaded(OpeningShard, log)


def test_commits_of_several_groups_in_a_batch_are_skimmed(monkeypatch: pytest.MonkeyPatch):
    """As Apache Kafka writes them after a few milliseconds of linger."""
    records = [*commits("g", "t", range(3)), *commits("long-name", "u", range(2)), *commits("g", "another", [0])]
    log = batch(0, records, step_ms=3) + batch(6, records, step_ms=3)
    assert opened(log, monkeypatch) == 6
    assert loaded(GroupShard, log) == loaded(OpeningShard, log)


@pytest.mark.parametrize("count", [1, 2, 66])
def test_every_byte_of_a_batch_is_checked(count: int):
    """Each byte is changed, with a right checksum: the result is the same as if all were decoded."""
    before = batch(0, commits("g", "t", range(count), offset=4))
    good = batch(count, commits("g", "t", range(count)))
    behind = batch(2 * count, commits("g", "t", [count]))
    last = len(good) if count < 66 else 200  # the first two records, and those with an offset delta of two bytes
    for place in [*range(last), *range(max(last, len(good) - 230), len(good))]:
        for flipped in (1, 0x80, 0xFF):
            wrong = bytearray(good)
            wrong[place] ^= flipped
            wrong[17:21] = compute_crc(wrong, 0, len(wrong)).to_bytes(4, "big")
            log = before + wrong + behind
            assert loaded(GroupShard, log) == loaded(OpeningShard, log), (place, flipped)


def test_piece_is_read_from_a_given_position():
    data = batch(5, commits("g", "t", range(2)))
    assert CommitSkim(data).take(0, 5) == (7, len(data))
    assert CommitSkim(data).take(0, 6) is None
    assert CommitSkim(data[:-1]).take(0, 5) is None
    assert CommitSkim(data).take(len(data), 5) is None


def test_skimmed_records_are_replayed_in_portions():
    shard = GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers())
    log = b"".join(batch(at * 100, commits("g", "t", range(at * 100, at * 100 + 100))) for at in range(10))
    known = [len(shard.offsets.of_group("g").get("t", ())) for _ in replay_batches(shard, log, 0)]
    assert known == [0] * 5 + [600] * 4 + [600]
    assert len(shard.offsets.of_group("g")["t"]) == 1000


NAMES = st.sampled_from(["g", "hh", "a-longer-name"])
PRODUCERS = st.sampled_from([1, 2])


@st.composite
def _batch(draw: st.DrawFn) -> Any:
    """Return a function from a base offset to a batch."""
    kind = draw(st.sampled_from(["commit", "commit", "commit", "deletion", "group", "marker"]))
    if kind == "marker":
        producer, is_commit = draw(PRODUCERS), draw(st.booleans())
        marker = build_end_transaction_marker(producer, 0, commit=is_commit, coordinator_epoch=0, timestamp_ms=7)
        return lambda offset: offset.to_bytes(8, "big") + marker[8:]
    if kind == "group":
        records: list[StoredRecord] = [GroupRecord(draw(NAMES), draw(st.sampled_from([None, EMPTY_GROUP])))]
    elif kind == "deletion":
        records = [OffsetRecord(draw(NAMES), draw(NAMES), draw(st.integers(0, 3)), None)]
    else:
        metadata = draw(st.sampled_from(["", "", "", "m"]))
        places = draw(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3)), min_size=1, max_size=3))
        numbers = draw(st.sampled_from([1, 1, 2, 70]))
        records = [
            record
            for group, topic, first in places
            for record in commits(group, topic, range(first, first + numbers), draw(st.integers(0, 9)), metadata)
        ]
    options: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {}, {"step": 2}, {"step_ms": 9}, {"step_ms": -1}, {"codec": Codec.LZ4}])
    )
    if kind == "commit" and draw(st.integers(0, 4)) == 0:
        options = {**options, "producer_id": draw(PRODUCERS), "producer_epoch": 0, "transactional": True}
    return lambda offset: batch(offset, records, **options)


@given(st.lists(_batch(), max_size=12), st.integers(4000, 20_000), st.lists(st.integers(0, 1 << 16), max_size=2))
def test_any_log_is_loaded_equally(makers: list[Any], piece_bytes: int, hits: list[int]):
    """Commits of many kinds, deletions, groups, transactions and markers; read in pieces, perhaps with a flipped
    bit.
    """
    log, offset = bytearray(), 0
    for make in makers:
        made = make(offset)
        [(_, header)] = iter_batches(made)
        log += made
        offset = header.next_offset
    for hit in hits if log else ():
        log[hit % len(log)] ^= 1 << hit % 8
    assert loaded(GroupShard, bytes(log), piece_bytes) == loaded(OpeningShard, bytes(log), piece_bytes)
