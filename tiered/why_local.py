"""Why each segment of a tiered log is still on the local disk (KIP-405, KIP-1241).

A segment leaves the disk after its copy is complete and local retention has expired. The reason is the first condition
that is not met. The functions decide what `copying.py` and local retention decide, and name the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from tiered.copying import CopyLag, LocalSegment


class Reason(Enum):
    """Why a segment is local. The value is the name in JSON."""

    ACTIVE = "active"
    BEFORE_LOG_START = "before-log-start"
    METADATA_NOT_LOADED = "metadata-not-loaded"
    LED_ELSEWHERE = "led-elsewhere"
    COPY_DISABLED = "copy-disabled"
    NOT_REPLICATED = "not-replicated"
    OPEN_TRANSACTION = "open-transaction"
    COPY_LAG = "copy-lag"
    COPYING = "copying"
    STORAGE_FAILS = "storage-fails"
    COPY_FAILED = "copy-failed"
    NOT_SYNCED = "not-synced"
    QUOTA = "quota"
    COPY_DUE = "copy-due"
    EARLIER_SEGMENT = "earlier-segment"
    LOCAL_RETENTION = "local-retention"
    HELD_BY_READER = "held-by-reader"
    REMOVAL_DUE = "removal-due"


class WhyLocal(NamedTuple):
    """A reason as a sentence, and when that may change, in ms since 1970; None: no time is known."""

    reason: Reason
    text: str
    at_ms: int | None = None


class OpenTransaction(NamedTuple):
    """The open transaction with the lowest offset; `last_batch_ms` is the time of its last batch."""

    producer_id: int
    first_offset: int
    last_batch_ms: int


class Trouble(NamedTuple):
    """Copies of a partition that failed one after the other."""

    failures: int
    error: str
    next_try_ms: int


class LogFacts(NamedTuple):
    """A tiered log and the work on it. Offsets `*_end` and `*_point` are exclusive; times are in ms since 1970.

    Limits are -1 if there are none. The fields that only a running broker knows have defaults.
    """

    segments: Sequence[LocalSegment]
    """All segments, ascending; the last one is active."""
    log_start_offset: int
    copied_offset: int
    """The last offset in remote storage (inclusive); -1: none."""
    high_watermark: int
    last_stable_offset: int
    recovery_point: int
    lag: CopyLag
    copy_disabled: bool
    local_ms: int
    local_bytes: int
    is_loaded: bool = True
    leads: bool = True
    open_transaction: OpenTransaction | None = None
    #: Whether a segment is being copied: the first one that is due.
    is_copying: bool = False
    storage_failure: str | None = None
    trouble: Trouble | None = None
    quota_until_ms: int = 0
    unread_from: int | None = None
    hold_bytes: int = 0
    next_copies_ms: int | None = None
    next_retention_ms: int | None = None
    #: Returns whether a finished copy of another lineage has offsets of a segment.
    has_other_copy: Callable[[LocalSegment], bool] = lambda segment: False


def why_local(log: LogFacts, now_ms: int) -> list[WhyLocal]:
    """Return why each of `log.segments` is local, in their order."""
    found: list[WhyLocal] = []
    waiting: int | None = None  # the first offset of the first segment that is not copied yet
    following_bytes = sum(each.size_bytes for each in log.segments)
    expires = _expiries(log, now_ms)
    for segment in log.segments[:-1]:
        following_bytes -= segment.size_bytes
        if segment.end_offset < log.log_start_offset:
            text = f"before the log's start {log.log_start_offset}; removed by the next check of retention"
            found.append(WhyLocal(Reason.BEFORE_LOG_START, text, log.next_retention_ms))
        elif not log.is_loaded:
            found.append(WhyLocal(Reason.METADATA_NOT_LOADED, "__remote_log_metadata is still being read"))
        elif segment.end_offset <= log.copied_offset:
            found.append(expires(segment))
        else:
            why = _uncopied(log, segment, following_bytes, waiting, now_ms)
            waiting = segment.start_offset if waiting is None else waiting
            found.append(_with_other_copy(why) if log.has_other_copy(segment) else why)
    if log.segments:
        found.append(WhyLocal(Reason.ACTIVE, "active: segment.ms or segment.bytes closes it before it is copied"))
    return found


def _with_other_copy(why: WhyLocal) -> WhyLocal:
    text = f"{why.text}; a copy of these offsets has other leader epochs, so it is not this log's"
    return why._replace(text=text)


def _uncopied(log: LogFacts, segment: LocalSegment, following_bytes: int, waiting: int | None, now_ms: int) -> WhyLocal:
    """Return why a closed segment is not copied. `waiting` is an earlier segment that is not copied, either."""
    if not log.leads:
        return WhyLocal(Reason.LED_ELSEWHERE, "not copied yet: the broker that leads the partition copies it")
    if log.copy_disabled:
        return WhyLocal(Reason.COPY_DISABLED, "remote.log.copy.disable=true; retention.* removes it")
    if segment.end_offset >= log.high_watermark:
        return WhyLocal(Reason.NOT_REPLICATED, f"not replicated: the high watermark is {log.high_watermark}")
    if segment.end_offset >= log.last_stable_offset:
        return _unstable(log)
    if not log.lag.allows(segment, following_bytes, now_ms):
        return _lagging(log.lag, segment, following_bytes)
    if waiting is not None:
        return WhyLocal(Reason.EARLIER_SEGMENT, f"copied after segment {waiting}: the oldest goes first")
    return _first(log, segment, now_ms)


def _unstable(log: LogFacts) -> WhyLocal:
    """Return that a transaction is open: records behind the last stable offset are not copied."""
    stable = f"the last stable offset is {log.last_stable_offset}"
    opened = log.open_transaction
    if opened is None:
        return WhyLocal(Reason.OPEN_TRANSACTION, f"not stable: {stable}")
    text = f"not stable: producer {opened.producer_id} has a transaction open from offset {opened.first_offset}"
    return WhyLocal(Reason.OPEN_TRANSACTION, f"{text}, its last batch is of {_utc(opened.last_batch_ms)}; {stable}")


def _utc(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{ms} ms"


def _lagging(lag: CopyLag, segment: LocalSegment, following_bytes: int) -> WhyLocal:
    """Return until when remote.copy.lag.* delays the copy. The end of one of both limits is enough."""
    waits = []
    if lag.ms > 0:
        waits.append(f"remote.copy.lag.ms={lag.ms}")
    if lag.bytes > 0:
        waits.append(f"remote.copy.lag.bytes={lag.bytes}, {lag.bytes - following_bytes} bytes to go")
    text = " or ".join(waits) or "remote.copy.lag.* has no limit, as local retention has none"
    return WhyLocal(Reason.COPY_LAG, text, segment.max_timestamp_ms + lag.ms if lag.ms > 0 else None)


def _first(log: LogFacts, segment: LocalSegment, now_ms: int) -> WhyLocal:
    """Return why the first segment that is due is not copied yet."""
    if log.is_copying:
        return WhyLocal(Reason.COPYING, "is being copied")
    if log.storage_failure is not None:
        return WhyLocal(Reason.STORAGE_FAILS, f"remote storage fails: {log.storage_failure}")
    if log.trouble is not None:
        text = f"the copy failed {log.trouble.failures} times: {log.trouble.error}"
        return WhyLocal(Reason.COPY_FAILED, text, log.trouble.next_try_ms)
    if log.quota_until_ms > now_ms:
        text = "waits for remote.log.manager.copy.max.bytes.per.second"
        return WhyLocal(Reason.QUOTA, text, log.quota_until_ms)
    if segment.end_offset >= log.recovery_point:
        return WhyLocal(Reason.NOT_SYNCED, "not synced to the disk; the next round syncs it", log.next_copies_ms)
    return WhyLocal(Reason.COPY_DUE, "the next round of remote.log.manager.task.interval.ms", log.next_copies_ms)


def _expiries(log: LogFacts, now_ms: int) -> Callable[[LocalSegment], WhyLocal]:
    """Return a function that says why a copied segment is local. Call it with one after the other, oldest first.

    A segment expires by size if the rest still has local.retention.bytes, or by time; never before an older one.
    """
    present = [each for each in log.segments if each.end_offset >= log.log_start_offset]
    total = sum(each.size_bytes for each in present)
    by_size: set[int] = set()
    excess = total - log.local_bytes
    for each in present if log.local_bytes >= 0 else ():
        excess -= each.size_bytes
        if excess < 0:
            break
        by_size.add(each.start_offset)
    expired: set[int] = set()
    due_ms: dict[int, int] = {}
    latest_ms = 0
    for each in present:
        if each.start_offset not in by_size:
            latest_ms = max(latest_ms, each.max_timestamp_ms)
            due_ms[each.start_offset] = latest_ms + log.local_ms + 1
            if log.local_ms < 0 or now_ms < due_ms[each.start_offset]:
                continue
        expired.add(each.start_offset)
    held_from = _held_from(log, [each for each in present if each.start_offset in expired])

    def why(segment: LocalSegment) -> WhyLocal:
        if segment.start_offset not in expired:
            return _retained(log, due_ms.get(segment.start_offset))
        if held_from is not None and segment.end_offset >= held_from:
            text = f"copied, held for a reader that is at offset {log.unread_from} (retention.hold.max.bytes)"
            return WhyLocal(Reason.HELD_BY_READER, text)
        return WhyLocal(Reason.REMOVAL_DUE, "copied; removed by the next check of retention", log.next_retention_ms)

    return why


def _held_from(log: LogFacts, expired: Sequence[LocalSegment]) -> int | None:
    """Return the first offset that is held for a reader; None if nothing is, or more than is allowed would be."""
    if not log.hold_bytes or log.unread_from is None:
        return None
    unread_from = max(log.unread_from, log.log_start_offset)
    held_bytes, first = 0, None
    for segment in reversed([each for each in expired if each.end_offset <= log.copied_offset]):
        if segment.end_offset < unread_from:
            break
        held_bytes += segment.size_bytes
        if held_bytes > log.hold_bytes:
            break
        first = segment.start_offset
    return first


def _retained(log: LogFacts, due_ms: int | None) -> WhyLocal:
    limits = []
    if log.local_ms >= 0:
        limits.append(f"local retention of {log.local_ms} ms")
    if log.local_bytes >= 0:
        limits.append(f"local retention of {log.local_bytes} bytes")
    text = f"copied; kept by the {' or '.join(limits)}" if limits else "copied; local retention has no limit"
    return WhyLocal(Reason.LOCAL_RETENTION, text, due_ms if log.local_ms >= 0 else None)
