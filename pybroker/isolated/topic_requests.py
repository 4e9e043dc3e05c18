"""Requests for topics of a running broker: plan the offsets to read, find ends of partitions, read a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from pybroker.isolated.cluster import Cluster, TopicPartition, as_isolation_level, check, kept_cluster
from pybroker.isolated.connection import Connection
from pybroker.isolated.fetching import Range, fetch_range
from pybroker.isolated.rows import Rows
from pybroker.isolated.serving import Exchange
from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, Bounds
from pybroker.source.errors import NoSuchTime

#: The version with times and an isolation level; later ones are about remote storage.
_LIST_OFFSETS_VERSION = 6
_NO_OFFSET = -1


def reach(exchange: Exchange) -> None:
    """Check that a broker grants access. Request: `properties`. Errors: AccessDenied, BrokerFailed, UnusableOption."""
    with kept_cluster(exchange.wanted["properties"]) as cluster:
        cluster.at_any(lambda connection: None)


def plan(exchange: Exchange) -> list[dict[str, Any]]:
    """Return each partition with `earliest` and `latest`, and the offsets where reading starts and ends.

    Request: `properties` of the client; `topics`, `pattern` or `assigned`; `start` and `end` (Bounds).
    """
    wanted = exchange.wanted
    start, end = Bounds.from_json(wanted["start"]), Bounds.from_json(wanted["end"])
    with kept_cluster(wanted["properties"]) as cluster:
        places = _places(cluster, wanted)
        isolation = as_isolation_level(wanted["properties"])
        firsts, lasts = (_offsets(cluster, places, place, isolation) for place in (EARLIEST, LATEST))
        planned = []
        for place in places:
            known = {EARLIEST: firsts[place], LATEST: lasts[place]}
            planned.append(
                {
                    "topic": place[0],
                    "partition": place[1],
                    "earliest": firsts[place],
                    "latest": lasts[place],
                    "start": _resolve(cluster, place, start, known, isolation),
                    "end": _resolve(cluster, place, end, known, isolation),
                }
            )
        return planned


def ends(exchange: Exchange) -> list[tuple[str, int, int, int]]:
    """Return (topic, partition, earliest, latest) of all partitions now. Request: as `plan`, without bounds."""
    wanted = exchange.wanted
    with kept_cluster(wanted["properties"]) as cluster:
        places = _places(cluster, wanted)
        isolation = as_isolation_level(wanted["properties"])
        firsts, lasts = (_offsets(cluster, places, place, isolation) for place in (EARLIEST, LATEST))
        return [(*place, firsts[place], lasts[place]) for place in places]


def read(exchange: Exchange) -> dict[str, int]:
    """Send the records of a range, and return their number.

    Request: `properties`; `topic`, `partition`, `start`, `end`; `fail_on_data_loss`: deleted records raise DataLoss, or
    are skipped.
    """
    wanted = exchange.wanted
    rows = Rows(wanted["columns"], wanted["topic"], wanted["partition"], exchange.emit)
    of = Range((wanted["topic"], wanted["partition"]), wanted["start"], wanted["end"])
    isolation = as_isolation_level(wanted["properties"])
    with kept_cluster(wanted["properties"]) as cluster:

        def earliest() -> int:
            return _offsets(cluster, [of.place], EARLIEST, isolation)[of.place]

        fetch_range(cluster, of, rows, isolation, None if wanted["fail_on_data_loss"] else earliest)
    rows.flush()
    return {"count": rows.count}


def partition_offset(cluster: Cluster, place: TopicPartition, timestamp: int) -> int:
    """Return a partition's first offset (EARLIEST), or its end (LATEST), with uncommitted records."""
    return _offsets(cluster, [place], timestamp, isolation=0)[place]


def _places(cluster: Cluster, wanted: Any) -> list[TopicPartition]:
    if wanted["assigned"] is not None:
        return sorted((topic, partition) for topic, partition in wanted["assigned"])
    return cluster.partitions(wanted["topics"], wanted["pattern"])


def _resolve(cluster: Cluster, place: TopicPartition, bounds: Bounds, known: dict[int, int], isolation: int) -> int:
    bound = bounds.of(*place)
    if bound.kind == OFFSET:
        return known.get(bound.value, bound.value)
    found = _offsets(cluster, [place], bound.value, isolation)[place]
    if found != _NO_OFFSET:
        return found
    if bounds.late_means_latest:
        return known[LATEST]
    raise NoSuchTime(f"{place[0]}-{place[1]}: no record is at or after {bound.value} ms")


def _offsets(
    cluster: Cluster, places: Sequence[TopicPartition], timestamp: int, isolation: int
) -> dict[TopicPartition, int]:
    """Return the offset of a time, EARLIEST or LATEST in each partition; -1 if no record is as late."""
    return {place: cluster.at_leader(place, _list_offset(place, timestamp, isolation)) for place in places}


def _list_offset(place: TopicPartition, timestamp: int, isolation: int) -> Any:
    def call(connection: Connection) -> int:
        topic, partition = place
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        answer, _ = connection.call(
            LIST_OFFSETS,
            _LIST_OFFSETS_VERSION,
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        found = answer.topics[0].partitions[0]
        check(found.error_code, f"{topic}-{partition}")
        offset: int = found.offset
        return offset

    return call
