"""The samples of tiered storage, under Kafka's names (KIP-405, KIP-963). Only a broker with a tier loads this file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.observability.metrics import metric_table as table
from broker.observability.metrics.metric import Sample, Timings, quantiles

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions
    from broker.tiering.tier import Tier
    from runtime.thread_pool import ThreadPool
    from storage.log.partition_log import PartitionLog


class _Sizes(NamedTuple):
    """Figures of the remote logs that this broker leads, in the order of the metrics."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    metadata_count: int = 0
    size_bytes: int = 0
    size_took_ms: int = 0

    def plus(self, other: _Sizes) -> _Sizes:
        return _Sizes(*map(sum, zip(self, other, strict=True)))


def tier_samples(tier: Tier, partitions: Partitions) -> Iterator[Sample]:
    """Yield all samples of a tier."""
    yield from _traffic(tier)
    yield from _sizes(tier, partitions)
    threads, config = tier.threads, tier.config
    yield (
        table.TIER_TASKS_IDLE,
        (),
        _idle(threads.copying, config.get_int("remote.log.manager.copier.thread.pool.size")),
    )
    readers = config.get_int("remote.log.reader.threads")
    yield table.TIER_READERS_IDLE, (), _idle(threads.reading, readers)
    yield table.TIER_READS_QUEUED, (), max(0, threads.reading.queued_count - readers)
    reads = tier.counts.reads
    yield table.TIER_READ_TIMES, (), Timings(reads.count, reads.total_ms, quantiles(reads.latest_ms))
    waits = ((tier.counts.copy_throttle, "copy"), (tier.counts.fetch_throttle, "fetch"))
    for wait, kind in waits:
        average, longest = table.TIER_THROTTLE[kind]
        yield average, (), wait.total_ms / wait.count if wait.count else 0
        yield longest, (), wait.longest_ms
    yield table.TIER_FAILING, ("copy",), tier.work.copying.failing
    yield table.TIER_FAILING, ("delete",), tier.work.expiring.failing
    health = tier.layout.health()
    yield table.TIER_STORE_FAILS, (), int(health.reason is not None)
    yield table.TIER_STORE_LIMIT, (), health.limit
    yield table.TIER_OLDEST_UPLOAD, (), health.oldest_upload_s


def _traffic(tier: Tier) -> Iterator[Sample]:
    totals = dict.fromkeys(table.TIER_TRAFFIC, 0)
    for topic, counts in list(tier.counts.topics.items()):
        for field, metric in table.TIER_TRAFFIC.items():
            value: int = getattr(counts, field)
            totals[field] += value
            yield metric, (topic,), value
    for field, metric in table.TIER_TRAFFIC.items():
        yield metric, (), totals[field]


def _sizes(tier: Tier, partitions: Partitions) -> Iterator[Sample]:
    total, topics = _Sizes(), dict[str, _Sizes]()
    for remote_log in list(tier.remote_logs):
        topic_id, topic, index = remote_log.partition
        partition = partitions.get_by_id(topic_id, index)
        log = None if partition is None else partition.open_log
        if log is None or not remote_log.is_loaded:
            continue
        segments, size_bytes = tier.copier.lag(log) if log.config.copied else (0, 0)
        remote = remote_log.segments
        found = _Sizes(
            size_bytes,
            segments,
            remote_log.delete_lag_bytes,
            remote_log.delete_lag_segments,
            remote.count,
            remote.size_bytes,
            remote_log.size_took_ms,
        )
        total = total.plus(found)
        topics[topic] = topics.get(topic, _Sizes()).plus(found)
        yield (
            table.RETENTION_PERCENT,
            (topic, str(index)),
            _percent(log.size_bytes + max(0, remote.size_bytes - _copied_bytes(log)), log.config.retention_bytes),
        )
        yield table.LOCAL_RETENTION_PERCENT, (topic, str(index)), _percent(log.size_bytes, log.config.local_bytes)
    for topic, sizes in topics.items():
        for metric, value in zip(table.TIER_SIZES.values(), sizes, strict=True):
            yield metric, (topic,), value
    for metric, value in zip(table.TIER_SIZES.values(), total, strict=True):
        yield metric, (), value


def _copied_bytes(log: PartitionLog) -> int:
    """Return the size of what is on this disk and in remote storage, too."""
    return sum(each.size_bytes for each in log.segments[:-1] if each.base_offset <= log.copied_offset)


def _percent(size_bytes: int, limit_bytes: int) -> int:
    return 0 if limit_bytes <= 0 else 100 * size_bytes // limit_bytes


def _idle(pool: ThreadPool, threads: int) -> float:
    return 1 - min(pool.queued_count, threads) / threads
