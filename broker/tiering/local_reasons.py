"""Why segments of tiered logs are still on this broker's disk, as the broker knows it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.tiering.local_segments import copy_lag, lineage_of
from tiered.copying import LocalSegment
from tiered.why_local import LogFacts, OpenTransaction, Trouble, WhyLocal, why_local

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tiering.remote_logs import RemoteLog
    from broker.tiering.services import TierServices
    from broker.tiering.tier import Tier
    from storage.log.partition_log import PartitionLog

#: The most segments of a partition that are explained, the oldest ones.
MOST_SEGMENTS = 1000


class ExplainedLog(NamedTuple):
    """A log, and its segments with the reason of each. `copied_offset` is -1 if nothing is copied."""

    topic: str
    partition: int
    copied_offset: int
    segments: list[tuple[LocalSegment, WhyLocal]]
    left_out: int
    """How many further segments the log has."""


def tiered_logs(tier: Tier, topic: str | None = None, partition: int | None = None) -> list[PartitionLog]:
    """Return the tiered logs that are open here, or those of one topic or partition, by name."""
    logs = (each for each in tier.services.logs.logs.values() if each.config.tiered)
    chosen = (each for each in logs if topic in (None, each.topic) and partition in (None, each.partition))
    return sorted(chosen, key=lambda each: (each.topic, each.partition))


def explained_log(tier: Tier, log: PartitionLog) -> ExplainedLog | None:
    """Return why each segment of a log is local; None for one that is closed or whose disk fails. On the loop."""
    if log.closed or not log.directory.is_online:
        return None
    try:
        return _explained(tier, log)
    except OSError as error:  # the time index of a segment cannot be read
        log.directory.fail(error)
        return None


def _explained(tier: Tier, log: PartitionLog) -> ExplainedLog:
    services = tier.services
    all_segments = log.segments[:]
    chosen = all_segments if len(all_segments) <= MOST_SEGMENTS else all_segments[:MOST_SEGMENTS]
    ends = [*(each.base_offset for each in all_segments[1:]), log.log_end_offset]
    segments = [
        LocalSegment(each.base_offset, end - 1, each.size_bytes, each.largest_timestamp)
        for each, end in zip(chosen, ends, strict=False)
    ]
    left_out = len(all_segments) - len(chosen)
    if left_out:
        # One entry for all newer segments keeps the sums of bytes right.
        rest = sum(each.size_bytes for each in all_segments[len(chosen) :])
        segments.append(LocalSegment(all_segments[len(chosen)].base_offset, log.log_end_offset - 1, rest, -1))
    now_ms = services.clock.now_ms()
    reasons = why_local(_facts(tier, log, segments, now_ms), now_ms)
    explained = list(zip(segments, reasons, strict=True))
    return ExplainedLog(log.topic, log.partition, log.copied_offset, explained[: len(chosen)], left_out)


def _facts(tier: Tier, log: PartitionLog, segments: list[LocalSegment], now_ms: int) -> LogFacts:
    services, config = tier.services, log.config
    remote_log = tier.remote_logs.get(log.topic_id or b"", log.partition)
    partition = services.partitions.get_by_id(log.topic_id or b"", log.partition)
    return LogFacts(
        segments,
        log_start_offset=log.log_start_offset,
        copied_offset=log.copied_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        recovery_point=log.recovery_point,
        lag=copy_lag(config),
        copy_disabled=config.remote_log_copy_disable,
        local_ms=config.local_ms,
        local_bytes=config.local_bytes,
        is_loaded=remote_log.is_loaded,
        leads=partition is not None and partition.hosted,
        open_transaction=_open_transaction(log),
        is_copying=bool(remote_log.copying),
        storage_failure=tier.layout.health().reason,
        trouble=_trouble(tier, remote_log, now_ms),
        quota_until_ms=remote_log.quota_until_ms,
        unread_from=services.logs.unread_from(log) if config.retention_hold_max_bytes else None,
        hold_bytes=config.retention_hold_max_bytes,
        next_copies_ms=_as_time(services, tier.work.next_round_ms),
        next_retention_ms=_as_time(services, services.background.next_retention_ms),
        has_other_copy=_finder_of_other_copies(log, remote_log),
    )


def _finder_of_other_copies(log: PartitionLog, remote_log: RemoteLog) -> Callable[[LocalSegment], bool]:
    """Return a function that looks a segment's first and last offset up among the copies of each leader epoch."""
    lineage, copies = lineage_of(log), remote_log.segments
    epochs = [each for each in copies.epochs if (copies.highest_offset(each) or 0) > log.copied_offset]

    def has_other_copy(segment: LocalSegment) -> bool:
        offsets = segment.start_offset, segment.end_offset
        found = (copies.find(epoch, offset) for epoch in epochs for offset in offsets)
        return any(each is not None and not lineage.contains(each) for each in found)

    return has_other_copy


def _open_transaction(log: PartitionLog) -> OpenTransaction | None:
    producers = log.producer_state.producers.values()
    opened = [each for each in producers if each.transaction_offset >= 0]
    if not opened:
        return None
    first = min(opened, key=lambda each: each.transaction_offset)
    return OpenTransaction(first.producer_id, first.transaction_offset, first.last_timestamp)


def _trouble(tier: Tier, remote_log: RemoteLog, now_ms: int) -> Trouble | None:
    failure = tier.work.copying.failure(remote_log)
    if failure is None:
        return None
    error = " ".join(str(failure.error).split()) or type(failure.error).__name__
    return Trouble(failure.failures, error, now_ms + failure.delay_ms)


def _as_time(services: TierServices, monotonic_ms: int | None) -> int | None:
    """Return a time of the monotonic clock in ms since 1970."""
    if monotonic_ms is None:
        return None
    return services.clock.now_ms() + max(0, monotonic_ms - services.clock.monotonic_ms())
