"""Each segment on the local disk has the reason that the decisions of copying and local retention have."""

from __future__ import annotations

from typing import Any

import pytest

from tiered.copying import CopyLag, LocalSegment, due_for_copying
from tiered.why_local import LogFacts, OpenTransaction, Reason, Trouble, why_local

NOW_MS = 1_000_000
SEGMENTS = [LocalSegment(start, start + 9, 100, NOW_MS - 1000 + start) for start in range(0, 50, 10)]
DUE = ["copy-due", "earlier-segment", "earlier-segment", "earlier-segment", "active"]


def facts(**values: Any) -> LogFacts:
    defaults: dict[str, Any] = {
        "segments": SEGMENTS,
        "log_start_offset": 0,
        "copied_offset": -1,
        "high_watermark": 50,
        "last_stable_offset": 50,
        "recovery_point": 50,
        "lag": CopyLag(),
        "copy_disabled": False,
        "local_ms": -1,
        "local_bytes": -1,
    }
    return LogFacts(**{**defaults, **values})


def names(log: LogFacts) -> list[str]:
    return [why.reason.value for why in why_local(log, NOW_MS)]


def test_log_without_segments_has_no_reasons() -> None:
    assert why_local(facts(segments=[]), NOW_MS) == []


def test_oldest_segment_is_due_and_the_others_follow_it() -> None:
    found = why_local(facts(next_copies_ms=NOW_MS + 7), NOW_MS)
    assert [why.reason.value for why in found] == DUE
    assert found[0].at_ms == NOW_MS + 7
    assert found[1].text == "copied after segment 0: the oldest goes first"


@pytest.mark.parametrize(
    ("values", "reason", "text", "at_ms"),
    [
        ({"leads": False}, Reason.LED_ELSEWHERE, "leads the partition", None),
        ({"copy_disabled": True}, Reason.COPY_DISABLED, "remote.log.copy.disable", None),
        ({"high_watermark": 5}, Reason.NOT_REPLICATED, "high watermark is 5", None),
        ({"last_stable_offset": 5}, Reason.OPEN_TRANSACTION, "last stable offset is 5", None),
        (
            {"last_stable_offset": 5, "open_transaction": OpenTransaction(77, 5, 123_000)},
            Reason.OPEN_TRANSACTION,
            "producer 77 has a transaction open from offset 5, its last batch is of 1970-01-01 00:02:03 UTC",
            None,
        ),
        ({"lag": CopyLag(5000, -1)}, Reason.COPY_LAG, "remote.copy.lag.ms=5000", NOW_MS + 4000),
        ({"lag": CopyLag(-1, 1000)}, Reason.COPY_LAG, "remote.copy.lag.bytes=1000, 600 bytes to go", None),
        ({"lag": CopyLag(-1, -1)}, Reason.COPY_LAG, "no limit", None),
        ({"is_copying": True}, Reason.COPYING, "is being copied", None),
        ({"storage_failure": "no route"}, Reason.STORAGE_FAILS, "remote storage fails: no route", None),
        ({"trouble": Trouble(3, "no answer", NOW_MS + 9)}, Reason.COPY_FAILED, "failed 3 times: no answer", NOW_MS + 9),
        ({"quota_until_ms": NOW_MS + 5}, Reason.QUOTA, "copy.max.bytes.per.second", NOW_MS + 5),
        ({"recovery_point": 9}, Reason.NOT_SYNCED, "not synced", None),
        ({"is_loaded": False}, Reason.METADATA_NOT_LOADED, "__remote_log_metadata", None),
        ({"log_start_offset": 10}, Reason.BEFORE_LOG_START, "before the log's start 10", None),
    ],
)
def test_first_segment_has_its_reason(values: dict[str, Any], reason: Reason, text: str, at_ms: int | None) -> None:
    found = why_local(facts(**values), NOW_MS)[0]
    assert found.reason is reason
    assert text in found.text
    assert found.at_ms == at_ms


def test_quota_that_is_over_is_no_reason() -> None:
    assert names(facts(quota_until_ms=NOW_MS)) == DUE


def test_own_reason_goes_before_an_earlier_segment() -> None:
    """Else an open transaction behind a slow copy would stay hidden."""
    found = names(facts(last_stable_offset=25))
    assert found == ["copy-due", "earlier-segment", "open-transaction", "open-transaction", "active"]


def test_segment_whose_copy_is_of_another_lineage_says_so() -> None:
    found = why_local(facts(has_other_copy=lambda segment: segment.start_offset == 10), NOW_MS)
    assert ["other leader epochs" in why.text for why in found] == [False, True, False, False, False]


@pytest.mark.parametrize("copied_offset", [-1, 9, 19, 39])
@pytest.mark.parametrize("stable", [5, 20, 35, 50])
@pytest.mark.parametrize("lag", [CopyLag(), CopyLag(970, -1), CopyLag(-1, 250), CopyLag(-1, -1)])
def test_reasons_agree_with_what_is_due(copied_offset: int, stable: int, lag: CopyLag) -> None:
    due = due_for_copying(
        SEGMENTS[:-1],
        copied_offset=copied_offset,
        log_start_offset=0,
        safe_offset=stable,
        active_bytes=100,
        lag=lag,
        now_ms=NOW_MS,
    )
    found = why_local(facts(copied_offset=copied_offset, last_stable_offset=stable, lag=lag), NOW_MS)
    ready = [Reason.COPY_DUE, Reason.EARLIER_SEGMENT]
    first = sum(each.end_offset <= copied_offset for each in SEGMENTS)
    assert [why.reason in ready for why in found[first : first + len(due)]] == [True] * len(due)
    following = found[first + len(due)].reason
    assert following not in ready


# -- copied ones -----------------------------------------------------------------------------------------------------


def test_copied_segments_wait_for_local_retention_by_time() -> None:
    found = why_local(facts(copied_offset=39, local_ms=985, next_retention_ms=NOW_MS + 60), NOW_MS)
    assert [why.reason.value for why in found] == [*["removal-due"] * 2, *["local-retention"] * 2, "active"]
    assert found[0].at_ms == NOW_MS + 60
    assert found[2].at_ms == SEGMENTS[2].max_timestamp_ms + 985 + 1
    assert "985 ms" in found[2].text


def test_segment_behind_a_newer_time_waits_with_it() -> None:
    """Retention never removes a segment before an older one."""
    newer_first = [SEGMENTS[0]._replace(max_timestamp_ms=NOW_MS), *SEGMENTS[1:]]
    found = why_local(facts(segments=newer_first, copied_offset=39, local_ms=500), NOW_MS)
    assert {why.reason for why in found[:4]} == {Reason.LOCAL_RETENTION}
    assert {why.at_ms for why in found[:4]} == {NOW_MS + 501}


def test_copied_segments_wait_for_local_retention_by_size() -> None:
    found = names(facts(copied_offset=39, local_bytes=300))
    assert found == ["removal-due", "removal-due", "local-retention", "local-retention", "active"]


def test_copied_segments_without_a_limit_stay() -> None:
    found = why_local(facts(copied_offset=39), NOW_MS)
    assert found[0].text == "copied; local retention has no limit"
    assert found[0].at_ms is None


def test_reader_holds_expired_segments_up_to_the_limit() -> None:
    values = {"copied_offset": 39, "local_bytes": 100, "unread_from": 15}
    held = ["removal-due", "held-by-reader", "held-by-reader", "held-by-reader", "active"]
    assert names(facts(**values, hold_bytes=300)) == held
    assert names(facts(**values, hold_bytes=250)) == ["removal-due", "removal-due", *held[2:]]
    assert names(facts(**values)) == ["removal-due"] * 4 + ["active"]
