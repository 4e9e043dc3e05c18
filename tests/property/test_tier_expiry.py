"""Expiry looks at few segments: it decides as a plain walk over all of them does, after any records."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scale import scaled
from tests.unit.tiered.copies import DELETED, DELETING, FINISHED, STARTED, enter, id_of
from tiered.expiry import Expired, RemoteRetention, expired, of_other_lineages, remote_bytes
from tiered.lineage import Lineage, clamped
from tiered.segment import RemoteSegment, SegmentState
from tiered.segments import RemoteSegments

BROKER = 7
LOG_END = 60


def plain_bytes(segments: RemoteSegments, lineage: Lineage, log_start: int) -> int:
    return sum(
        segment.size_bytes
        for segment in segments
        if segment.state is FINISHED
        and lineage.contains(segment)
        and segment.end_offset >= log_start
        and not segments.is_replaced(segment, lineage.contains)
    )


def plain_expired(
    segments: RemoteSegments,
    lineage: Lineage,
    retention: RemoteRetention,
    log_start: int,
    only_local: int,
    copying: Collection[bytes],
    now_ms: int,
) -> Expired:
    excess = 0
    if retention.bytes >= 0:
        excess = max(0, only_local + plain_bytes(segments, lineage, log_start) - retention.bytes)
    new_start, stays = None, False
    found: dict[bytes, RemoteSegment] = {}
    for segment in (each for epoch, _ in lineage.epochs for each in segments.of_epoch(epoch)):
        if segment.id in found:
            continue
        lies_before = segment.end_offset < log_start and segment.epochs[-1][0] <= lineage.epochs[0][0]
        if segment.id in copying:
            stays = True
        elif segment.state is STARTED and segment.broker_id != BROKER:
            continue
        elif segment.state is not FINISHED or segments.is_replaced(segment, lineage.contains) or lies_before:
            found[segment.id] = segment
        elif not stays and lineage.contains(segment):
            is_old = 0 <= retention.ms <= now_ms and segment.max_timestamp_ms <= now_ms - retention.ms
            if not is_old and not (excess and segment.size_bytes <= excess):
                stays = True
                continue
            excess = max(0, excess - segment.size_bytes)
            found[segment.id] = segment
            new_start = max(new_start or 0, segment.end_offset + 1)
    return Expired([*found.values()], new_start)


@st.composite
def histories(draw: st.DrawFn) -> Lineage:
    """Leader epochs of a replica, some of which may have no records."""
    epochs = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True).map(sorted))
    starts = draw(st.lists(st.integers(1, LOG_END), min_size=len(epochs) - 1, max_size=len(epochs) - 1).map(sorted))
    return Lineage(tuple(zip(epochs, [0, *starts], strict=True)), draw(st.integers(LOG_END // 2, LOG_END)))


@st.composite
def copies(draw: st.DrawFn, lineages: list[Lineage]) -> RemoteSegments:
    """Copies of several leaders in some order, with deletions, in any state."""
    segments, most = RemoteSegments(), draw(st.integers(1, 30))
    begun, at = set[int](), 0
    for number in range(most):
        epochs, end = draw(st.sampled_from(lineages))
        in_turn = draw(st.booleans())
        start = at if in_turn and at < end else draw(st.integers(0, end - 1))
        last = min(end - 1, start + draw(st.integers(0, 12)))
        at = last + 1
        size, broker = draw(st.integers(1, 50)), draw(st.sampled_from([BROKER, BROKER, 8]))
        epochs = clamped(epochs, start, last + 1)
        segments.add(RemoteSegment(id_of(number), start, last, draw(st.integers(0, 60)), 1, broker, size, epochs))
        begun.add(number)
        for each in draw(st.lists(st.sampled_from(sorted(begun)), max_size=3)):
            enter(segments, each, draw(st.sampled_from([FINISHED, FINISHED, FINISHED, DELETING, DELETED])))
        if draw(st.integers(0, 3)):
            enter(segments, number, FINISHED)
    return segments


@given(data=st.data())
@settings(max_examples=scaled(100), deadline=None)
def test_decisions_are_those_of_a_walk_over_all_segments(data: st.DataObject) -> None:
    lineages = data.draw(st.lists(histories(), min_size=1, max_size=3))
    segments = data.draw(copies(lineages))
    lineage = data.draw(st.sampled_from(lineages))
    log_start = data.draw(st.one_of(st.just(0), st.integers(0, lineage.log_end_offset)))
    lineage = Lineage(clamped(lineage.epochs, log_start, LOG_END + 1), lineage.log_end_offset)
    retention = RemoteRetention(data.draw(st.sampled_from([-1, 0, 10, 30])), data.draw(st.integers(-1, 400)))
    ids = [each.id for each in segments]
    copying = data.draw(st.lists(st.sampled_from(ids), max_size=1)) if ids else []
    only_local = data.draw(st.integers(0, 50))
    assert remote_bytes(segments, lineage, log_start) == plain_bytes(segments, lineage, log_start)
    assert expired(
        segments,
        lineage,
        retention,
        log_start_offset=log_start,
        only_local_bytes=only_local,
        broker_id=BROKER,
        copying=copying,
        now_ms=60,
    ) == plain_expired(segments, lineage, retention, log_start, only_local, copying, 60)
    first = lineage.epochs[0][0] if lineage.epochs else -1
    assert of_other_lineages(segments, lineage) == [each for each in segments if each.epochs[-1][0] < first]
    in_order = [each for epoch, _ in lineage.epochs for each in segments.of_epoch(epoch)]
    finished = (each.start_offset for each in in_order if each.state is SegmentState.COPY_FINISHED)
    assert lineage.remote_start(segments) == next(finished, None)
