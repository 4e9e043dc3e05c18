"""A truncated log compared with a log that never had more (storage/README.md, rule T1)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.compression import Codec
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log.truncation import truncate_log
from storage.log_config import LogConfig
from tests.support.logs import T0, append, batch, close, crash, end, idempotent, open_log, read_all
from tests.support.scale import scaled

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, segment_index_bytes=256, segment_ms=4000)


class Step(NamedTuple):
    """One append: `kind` is plain, 7 or 8 (a producer's batch), commit or abort."""

    kind: Any
    count: int
    codec: Codec
    later_ms: int
    next_epoch: bool
    transactional: bool


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["plain", 7, 8, "commit", "abort"]),
        st.integers(1, 4),
        st.sampled_from([Codec.NONE, Codec.LZ4]),
        st.integers(-500, 2500),
        st.booleans(),
        st.booleans(),
    ),
    max_size=25,
)


def run(log: PartitionLog, wanted: Sequence[Step], *, until: int | None = None) -> list[int]:
    """Append step after step, those that end at offset `until` at most. Return the ends of the batches."""
    ends: list[int] = []
    time, epoch = T0, log.leader_epochs.latest or 0
    for step in wanted:
        time, epoch = time + step.later_ms, epoch + step.next_epoch
        state = log.producer_state
        opened = [pid for pid, entry in state.producers.items() if entry.transaction_offset >= 0]
        if until is not None and log.log_end_offset >= until:
            break
        if step.kind in ("commit", "abort"):
            if opened:
                pid = min(opened)
                end(log, commit=step.kind == "commit", producer_id=pid, leader_epoch=epoch)
        elif step.kind == "plain":
            values = [b"v" * 20] * step.count
            append(log, batch(*values, codec=step.codec, timestamp=time), now_ms=time, leader_epoch=epoch)
        else:
            entry = state.producers.get(step.kind)
            sequence = 0 if entry is None else entry.last_sequence + 1
            transactional = step.transactional or step.kind in opened
            fields = {"producer_id": step.kind, "timestamp": time, "transactional": transactional}
            append(log, idempotent(sequence, step.count, **fields), now_ms=time, leader_epoch=epoch)
        if not ends or log.log_end_offset > ends[-1]:
            ends.append(log.log_end_offset)
    return ends


def state_of(log: PartitionLog) -> dict[str, Any]:
    """Return all that a reader, a follower or a producer can see of a log."""
    producers = {
        pid: (
            each.producer_epoch,
            each.last_sequence,
            each.last_offset,
            each.coordinator_epoch,
            each.transaction_offset,
        )
        for pid, each in log.producer_state.producers.items()
    }
    used = [segment for segment in log.segments if segment.size_bytes]
    times = [log.offset_for_timestamp(T0 + step) for step in range(-2000, 20_000, 1500)]
    listed = {path.name for path in Path(log.path).glob("*.snapshot")}
    assert listed == {Path(log.snapshot_path(offset)).name for offset in log.snapshots}
    return {
        "offsets": (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        "size": log.size_bytes,
        "largest": max((segment.largest.timestamp for segment in used), default=None),
        "records": [(each.offset, each.timestamp, each.value) for each in read_all(log)],
        "epochs": log.leader_epochs.entries,
        "producers": producers,
        "transactions": list(log.producer_state.transactions.items()),
        "aborted": log.aborted_transactions(0, log.log_end_offset),
        "times": times,
        "files": b"".join(LOCAL.read_file(segment.log.path)[: segment.size_bytes] for segment in used),
    }


@given(history=steps, later=steps, data=st.data(), restart=st.sampled_from(["no", "crash", "clean"]))
@settings(max_examples=min(1000, scaled(60)), deadline=None)
def test_truncated_log_equals_one_that_never_had_more(
    history: list[Step], later: list[Step], data: st.DataObject, restart: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        longer, shorter = open_log(Path(folder, "longer"), CONFIG), open_log(Path(folder, "shorter"), CONFIG)
        ends = run(longer, history)
        wanted = data.draw(st.integers(0, longer.log_end_offset), label="offset")
        truncate_log(longer, wanted, T0)
        kept = max((each for each in ends if each <= wanted), default=0)
        assert longer.log_end_offset == kept
        run(shorter, history, until=kept)
        assert state_of(longer) == state_of(shorter)
        run(longer, later)
        run(shorter, later)
        assert state_of(longer) == state_of(shorter)
        if restart != "no":
            (crash if restart == "crash" else close)(longer)
            left = {"clean": True, "recovery_point": shorter.log_end_offset} if restart == "clean" else {}
            again = open_log(Path(folder, "longer"), CONFIG, **left)
            assert state_of(again) == state_of(shorter)
            again.close_files()
        else:
            longer.close_files()
        shorter.close_files()
