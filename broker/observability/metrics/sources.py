"""The sources of samples: generators that read the state of a broker's rooms, on the loop's thread.

With many partitions, a generator is suspended between turns of the loop. So each copies the collections that it
iterates over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING

from broker.observability.loop_watch import LAG_BOUNDS_S
from broker.observability.metrics import metric_table as table
from broker.observability.metrics.metric import Buckets, Sample, Timings, quantiles
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup
from metadata.partition_registration import NO_LEADER
from protocol.messages.fetch import FETCH
from protocol.messages.produce import PRODUCE
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.network.server import Server
    from broker.observability.metrics.observed import (
        MainParts,
        MeasuredProcess,
        MetadataProgress,
        ObservedProcess,
        QuorumView,
    )
    from broker.observability.metrics.traffic import Traffic
    from broker.observability.telemetry.received import Series
    from metadata.image import MetadataImage
    from storage.log_config import LogConfig

_GROUP_TYPES = {ClassicGroup: "classic", ConsumerGroup: "consumer", ShareGroup: "share", StreamsGroup: "streams"}


def all_samples(broker: ObservedProcess, traffic: Traffic) -> Iterator[Sample]:
    """Yield all samples of a running broker."""
    yield from requests(broker)
    yield from clients(broker)
    yield from process(broker)
    yield from partitions(broker, traffic)
    yield from directories(broker)
    yield from queries(broker)
    yield from dead_letters(broker)
    if broker.tier is not None:
        from broker.observability.metrics.tier_samples import tier_samples  # few brokers have a tier

        yield from tier_samples(broker.tier, broker.partitions)
    main = broker.main_parts
    yield from cluster(broker, main)
    yield from groups(broker, main)
    yield from transactions(main)
    yield from telemetry(main)
    if main.replicas is not None:
        yield from main.replicas.samples()


def totals(broker: ObservedProcess, traffic: Traffic) -> Iterator[Sample]:
    """Yield samples for an overview, without one for each topic; the samples of a metric are to be added."""
    yield table.REQUESTS, (), sum(each.requests for each in list(broker.dispatcher.prepared))
    yield table.CONNECTIONS, (), len(broker.server.connections)
    yield _loop_lag(broker)
    yield from traffic.total(broker.logs.logs.values())


def requests(broker: MeasuredProcess) -> Iterator[Sample]:
    """Yield the counts of requests."""
    of_api: Counter[int] = Counter()
    for each in list(broker.dispatcher.prepared):
        of_api[each.api.key] += each.requests
        yield table.REQUESTS, (each.api.name, str(each.version)), each.requests
    yield table.PRODUCE_REQUESTS, (), of_api[PRODUCE.key]
    yield table.FETCH_REQUESTS, (), of_api[FETCH.key]
    if broker.endpoint is not None:
        yield from broker.endpoint.request_times.samples()


def clients(broker: ObservedProcess) -> Iterator[Sample]:
    """Yield connections, and waiting requests."""
    server = broker.server
    yield from connections(server)
    yield table.MISROUTED_CONNECTIONS, (), broker.identity.misrouted
    yield table.SENDFILE_BYTES, (), server.sendfile_bytes
    yield table.WAITING, (), len(broker.purgatory)
    yield table.FETCH_SESSIONS, (), len(broker.fetch_sessions)
    yield table.SESSION_PARTITIONS, (), broker.fetch_sessions.partition_count


def connections(server: Server) -> Iterator[Sample]:
    """Yield connections, and the requests that they hold."""
    by_listener = Counter({listener.name: 0 for listener in server.listeners})
    by_listener.update(connection.listener_name for connection in server.connections)
    for name, count in by_listener.items():
        yield table.CONNECTIONS, (name,), count
        yield table.SOCKET_CONNECTIONS, (name,), count
    yield table.CONNECTIONS_CLOSED, (), server.ended_count
    yield table.REQUEST_QUEUE, (), server.queued_requests
    yield table.HELD_BYTES, (), server.held_bytes


def process(broker: ObservedProcess) -> Iterator[Sample]:
    """Yield figures of the event loop, its threads and worker processes."""
    watch = broker.loop_watch
    yield _loop_lag(broker)
    yield table.LOOP_STALLS, (), watch.stalls
    yield table.LOOP_CPU, (), watch.cpu_s
    for metric in (table.LOOP_IDLE, table.PROCESSOR_IDLE, table.HANDLER_IDLE):
        yield metric, (), watch.idle
    yield table.TIMERS, (), len(broker.timers)
    yield table.THREAD_CALLS, ("offload",), broker.offload.queued_count
    yield table.THREAD_CALLS, ("handshake",), broker.handshakes.queued_count
    yield table.WORKER_PROCESSES, (), len(broker.workers.process_ids)
    yield table.BACKGROUND_TASKS, (), broker.background.queued_count
    flushes = broker.background.flush_times.measured()
    yield table.FLUSHES, (), Timings(flushes.count, flushes.total_ms, quantiles(flushes.latest_ms))
    yield table.BROKER_STATE, (), broker.state
    yield table.INFO, (version("pybroker"), broker.metadata.cluster_id, str(broker.partitions.node_id)), 1


def _loop_lag(broker: ObservedProcess) -> Sample:
    watch = broker.loop_watch
    up_to = accumulate(watch.lag_counts)
    counts = list(zip((*map(str, LAG_BOUNDS_S), "+Inf"), up_to, strict=True))
    return table.LOOP_LAG, (), Buckets(counts, watch.lag_sum_s)


def partitions(broker: ObservedProcess, traffic: Traffic) -> Iterator[Sample]:
    """Yield figures of partitions with their logs, and the traffic of topics."""
    counts: Counter[str] = Counter()
    unflushed = 0
    logs = broker.logs
    for partition in list(broker.partitions):
        counts["all"] += 1
        in_sync, replicas = len(partition.isr), len(partition.replicas)
        counts["under replicated"] += in_sync < replicas
        # Not `partition.log`, which would open a log that is opened on demand.
        log = logs.logs.get((partition.topic, partition.index))
        if log is None or not log.directory.is_online:
            waiting = logs.unopened.get((partition.topic, partition.index))
            if waiting is not None and waiting.problem is None:
                _count_online(counts, waiting.stored.config, in_sync, replicas)
            continue
        _count_online(counts, log.config, in_sync, replicas)
        traffic.note(log)
        unflushed += max(0, log.log_end_offset - log.recovery_point)
        labels = (partition.topic, str(partition.index))
        yield table.LOG_SIZE, labels, log.size_bytes
        yield table.LOG_START, labels, log.log_start_offset
        yield table.LOG_END, labels, log.log_end_offset
        yield table.LOG_SEGMENTS, labels, len(log.segments)
        yield table.PARTITION_UNDER_REPLICATED, labels, in_sync < replicas
        yield table.STABLE_OFFSET_LAG, labels, log.high_watermark - log.last_stable_offset
    yield from traffic.samples({partition.topic for partition in broker.partitions})
    view = broker.main_parts.replicas
    followed, offline = (0, 0) if view is None else (view.followed_count, view.offline_count)
    shrinks, expands = (0, 0) if view is None else view.isr_changes
    yield table.PARTITIONS, (), counts["all"] + followed
    yield table.LEADERS, (), counts["online"]
    yield table.OFFLINE_REPLICAS, (), counts["all"] - counts["online"] + offline
    yield table.UNDER_REPLICATED, (), counts["under replicated"]
    yield table.UNDER_MIN_ISR, (), counts["under min isr"]
    yield table.AT_MIN_ISR, (), counts["at min isr"]
    yield table.ISR_SHRINKS, (), shrinks
    yield table.ISR_EXPANDS, (), expands
    yield table.UNFLUSHED, (), unflushed


def _count_online(counts: Counter[str], config: LogConfig, in_sync: int, replicas: int) -> None:
    """Count an available partition. Like Kafka, never ask for more replicas in sync than there are replicas."""
    least = min(config.min_insync_replicas, replicas)
    counts["online"] += 1
    counts["under min isr"] += in_sync < least
    counts["at min isr"] += in_sync == least


def directories(broker: ObservedProcess) -> Iterator[Sample]:
    """Yield figures of log directories and of the cleaner."""
    cleaner = broker.cleaner
    uncleanable = Counter(log.directory.path for log in cleaner.uncleanable)
    offline = 0
    for directory in broker.logs.directories:
        offline += not directory.is_online
        yield table.DIRECTORY_OFFLINE, (directory.path,), not directory.is_online
        yield table.UNCLEANABLE, (directory.path,), uncleanable[directory.path]
    yield table.OFFLINE_DIRECTORIES, (), offline
    yield table.CLEANER_ROUNDS, (), cleaner.total.rounds
    yield table.CLEANER_READ, (), cleaner.total.read_bytes
    yield table.CLEANER_KEPT, (), cleaner.total.kept_bytes
    yield table.CLEANER_ACTIVE, (), cleaner.active_count


def queries(broker: ObservedProcess, *, of_all: bool = False) -> Iterator[Sample]:
    """Yield figures of Spark queries, in the partitions of this broker or `of_all`; and the bytes kept for them."""
    for (topic, index), held_bytes in broker.background.holds.held_bytes().items():
        yield table.HELD_BY_RETENTION, (topic, str(index)), held_bytes
    found = broker.queries.found if broker.queries is not None else None
    if found is None:
        return
    for query in found.queries:
        progress = query.progress
        if progress.batch is not None:
            yield table.QUERY_BATCH, (query.name,), progress.batch
        if progress.committed_ms is not None:
            yield table.QUERY_COMMITTED, (query.name,), progress.committed_ms / 1000
        for (topic, index), offset in progress.positions.items():
            end = _high_watermark(broker, topic, index) if of_all else _own_high_watermark(broker, topic, index)
            if end is not None:
                labels = (query.name, topic, str(index))
                yield table.QUERY_OFFSET, labels, offset
                yield table.QUERY_LAG, labels, max(0, end - offset)
    yield table.QUERIES_UNREADABLE, (), len(found.problems)


def cluster(broker: ObservedProcess, main: MainParts) -> Iterator[Sample]:
    """Yield figures of the metadata."""
    yield from metadata(broker.metadata.image, main.quorum, main.controller, broker.config.node_id)
    if main.cluster_controller is not None:
        yield from main.cluster_controller.samples()
    else:
        yield table.UNCLEAN_ELECTIONS, (), 0
    yield table.METADATA_APPLIED, (), main.controller.last_offset


def metadata(image: MetadataImage, quorum: QuorumView, progress: MetadataProgress, node_id: int) -> Iterator[Sample]:
    """Yield figures of a metadata image, and of the log it comes from."""
    active = sum(each.is_active for each in image.brokers.values())
    yield table.ACTIVE_CONTROLLERS, (), int(quorum.leader_id == node_id)
    yield table.ACTIVE_BROKERS, (), active
    yield table.FENCED_BROKERS, (), len(image.brokers) - active
    yield table.TOPICS, (), len(image.topics_by_name)
    registered = [each for topic in image.topics_by_name.values() for each in topic.partitions.values()]
    yield table.ALL_PARTITIONS, (), len(registered)
    yield table.OFFLINE_PARTITIONS, (), sum(each.leader == NO_LEADER for each in registered)
    yield table.NOT_PREFERRED, (), sum(not each.has_preferred_leader for each in registered)
    yield table.METADATA_OFFSET, (), progress.last_offset
    yield table.QUORUM_LEADER, (), quorum.leader_id
    yield table.QUORUM_EPOCH, (), quorum.epoch
    yield table.QUORUM_HIGH_WATERMARK, (), quorum.high_watermark
    yield table.QUORUM_END, (), quorum.end_offset


def groups(broker: ObservedProcess, main: MainParts) -> Iterator[Sample]:
    """Yield groups with their members, offsets and lag."""
    by_kind: Counter[tuple[str, str]] = Counter()
    offsets = 0
    for shard in [each.shard for each in main.groups.loaded_logs()]:
        for group_id, group in list(shard.groups.items()):
            by_kind[_GROUP_TYPES[type(group)], _name(group.state)] += 1
            yield table.GROUP_MEMBERS, (group_id,), len(group.members)
        for group_id in shard.offsets.group_ids():
            for topic, committed in list(shard.offsets.of_group(group_id).items()):
                for index, each in list(committed.items()):
                    offsets += 1
                    labels = (group_id, topic, str(index))
                    yield table.GROUP_OFFSET, labels, each.offset
                    end = _high_watermark(broker, topic, index)
                    if end is not None:
                        yield table.GROUP_LAG, labels, max(0, end - each.offset)
    for kind_and_state, count in by_kind.items():
        yield table.GROUPS_OF_TYPE, kind_and_state, count
    for state, metric in table.GROUPS_BY_STATE.items():
        yield metric, (), by_kind["classic", state]
    yield table.GROUPS, (), sum(count for (kind, _), count in by_kind.items() if kind == "classic")
    yield table.OFFSETS, (), offsets


def dead_letters(broker: ObservedProcess) -> Iterator[Sample]:
    """Yield what share groups have written to their dead-letter queues."""
    for group_id, counts in list(broker.dead_letter_counts.items()):
        yield table.DEAD_LETTERS, (group_id,), counts.records
        yield table.DEAD_LETTER_REQUESTS, (group_id,), counts.requests
        yield table.DEAD_LETTER_FAILURES, (group_id,), counts.failures


def _high_watermark(broker: ObservedProcess, topic: str, index: int) -> int | None:
    """Return the high watermark: exact for logs open here, else the last value that another broker reported."""
    own = _own_high_watermark(broker, topic, index)
    return own if own is not None else broker.end_offsets.known_ends.get((topic, index))


def _own_high_watermark(broker: ObservedProcess, topic: str, index: int) -> int | None:
    log = broker.logs.logs.get((topic, index))
    return log.high_watermark if log is not None and log.directory.is_online else None


def learn_ends(broker: ObservedProcess) -> Deferred[None]:
    """Ask other brokers for the end offsets that `groups`, and `queries` of all, need."""
    return broker.end_offsets.learn_ends(_committed(broker, broker.main_parts))


def _committed(broker: ObservedProcess, main: MainParts) -> Iterator[tuple[str, int]]:
    """Yield the partitions with an offset of a group or a query; some more than once."""
    for each in main.groups.loaded_logs():
        offsets = each.shard.offsets
        for group_id in offsets.group_ids():
            for topic, indexes in offsets.of_group(group_id).items():
                for index in indexes:
                    yield topic, index
    found = broker.queries.found if broker.queries is not None else None
    for query in () if found is None else found.queries:
        yield from query.progress.positions


def transactions(main: MainParts) -> Iterator[Sample]:
    """Yield figures of ongoing transactions."""
    shards = [each.shard for each in main.transactions.loaded_logs()]
    yield table.TRANSACTIONAL_IDS, (), sum(len(shard.transactions) for shard in shards)
    yield table.TRANSACTIONS, ("ongoing",), sum(len(shard.ongoing) for shard in shards)
    yield table.TRANSACTIONS, ("decided",), sum(len(shard.prepared) for shard in shards)


def telemetry(main: MainParts) -> Iterator[Sample]:
    """Yield figures of pushed client metrics; `client_series` has the pushed numbers."""
    metrics = main.client_metrics
    yield table.CLIENT_INSTANCES, (), metrics.instance_count
    for error, count in list(metrics.pushes.items()):
        yield table.CLIENT_PUSHES, (error.name,), count
    if metrics.received is not None:
        yield table.CLIENT_SERIES, (), len(metrics.received.series())
        yield table.CLIENT_LEFT_OUT, (), metrics.received.left_out


def client_series(broker: ObservedProcess) -> list[Series]:
    """Return the numbers that clients pushed to this broker."""
    received = broker.main_parts.client_metrics.received
    return received.series() if received is not None else []


def _name(state: Enum) -> str:
    """Return the state's name as clients see it."""
    return str(state.value)
