"""Requests for a data directory: plan its splits, and read one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pybroker.isolated.aborted import Aborted, AbortedRanges
from pybroker.isolated.entries import add_entry, no_aborted
from pybroker.isolated.rows import Rows
from pybroker.isolated.serving import Exchange
from pybroker.isolated.stored_log import StoredLog
from pybroker.isolated.stored_transactions import StoredTransactions, find_transactions
from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, Bound, Bounds
from pybroker.source.errors import DataLoss, NoSuchTime, UnknownPartition, UnusableOption
from storage.directory_names import DirectoryKind, parse_name


def plan(exchange: Exchange) -> list[dict[str, Any]]:
    """Return the splits of a directory, each a part of a segment, in order.

    Request: `path` of a partition's directory, or of one with many; `topics` to read, or None; or `assigned`, the
    partitions to read; `start` and `end` (Bounds); `committed`; `remote`, with the `url` of remote storage and its
    `options`, or None. Without `path` everything is read from remote storage.
    """
    wanted = exchange.wanted
    start, end = Bounds.from_json(wanted["start"]), Bounds.from_json(wanted["end"])
    splits: list[dict[str, Any]] = []
    for log, more in _wanted_logs(wanted):
        splits += (split | more for split in _plan_partition(log, start, end, wanted["committed"]))
    return splits


def ends(exchange: Exchange) -> list[tuple[str, int, int, int, int]]:
    """Return (topic, partition, earliest, closed, latest): `closed` is the start of the active segment.

    Request: as `plan`, without bounds. With `committed`, `closed` and `latest` end at the first open transaction.
    """
    wanted = exchange.wanted
    described = []
    for log, _ in _wanted_logs(wanted):
        earliest, latest = log.start_offset(), log.end_offset()
        if wanted["committed"]:
            latest = find_transactions(log, latest).last_stable_offset
        closed = max(earliest, min(log.segments[-1].base_offset, latest))
        described.append((log.topic, log.partition, earliest, closed, latest))
    return described


def read(exchange: Exchange) -> dict[str, int]:
    """Send the records of a split of `plan`, and return their number."""
    wanted = exchange.wanted
    log = _split_log(wanted)
    rows = Rows(wanted["columns"], log.topic, log.partition, exchange.emit)
    aborted = [Aborted(*each) for each in wanted["aborted"]]
    is_aborted = AbortedRanges(aborted) if aborted else no_aborted
    for entry in log.read(wanted["start"], wanted["end"]):
        add_entry(rows, entry, wanted["start"], wanted["end"], is_aborted)
    rows.flush()
    return {"count": rows.count}


def _wanted_logs(wanted: Mapping[str, Any]) -> Iterator[tuple[StoredLog, dict[str, Any]]]:
    """Yield the wanted logs, each with the fields that a split needs to find it again."""
    remote = wanted.get("remote")
    if remote is None:
        for directory in _wanted_directories(wanted):
            yield StoredLog(directory), {}
        return
    from pybroker.isolated.remote_logs import log_of, remote_logs  # most logs are on a disk alone

    if wanted["path"] is None:
        assigned = wanted.get("assigned")
        each_of = None if assigned is None else {(topic, partition) for topic, partition in assigned}
        for log, topic_id in remote_logs(remote, wanted["topics"], each_of):
            yield log, {"remote": remote, "topic_id": topic_id}
        return
    for directory in _wanted_directories(wanted):
        yield log_of(directory, remote), {"remote": remote}


def _split_log(wanted: Mapping[str, Any]) -> StoredLog:
    if wanted.get("remote") is None:
        return StoredLog(wanted["directory"])
    from pybroker.isolated.remote_logs import split_log

    return split_log(wanted)


def _directories(path: str, topics: list[str] | None) -> Iterator[str]:
    if not os.path.isdir(path):
        raise UnusableOption(f"{path} is not a directory")
    if parse_name(os.path.basename(os.path.abspath(path)))[0] is DirectoryKind.PARTITION and _has_segment(path):
        yield path
        return
    found = set()
    for name in os.listdir(path):
        kind, topic, _ = parse_name(name)
        if kind is DirectoryKind.PARTITION and (not name.startswith("__") if topics is None else topic in topics):
            found.add(topic)
            yield f"{path}/{name}"
    if missing := sorted(set(topics or ()) - found):
        raise UnknownPartition(f"{path} has no partition of {', '.join(missing)}")
    if not found:
        raise UnknownPartition(f"{path} is not a partition's directory, and contains none of a topic")


def _wanted_directories(wanted: Mapping[str, Any]) -> list[str]:
    """Return the logs of the wanted topics or partitions, in order. Errors: UnknownPartition."""
    if wanted.get("assigned") is None:
        return sorted(_directories(wanted["path"], wanted["topics"]), key=_order)
    assigned = {(topic, partition) for topic, partition in wanted["assigned"]}
    directories = {_order(each): each for each in _directories(wanted["path"], sorted({each[0] for each in assigned}))}
    if missing := sorted(assigned - directories.keys()):
        names = ", ".join(f"{topic}-{partition}" for topic, partition in missing)
        raise UnknownPartition(f"{wanted['path']} has no partition {names}")
    return [directories[each] for each in sorted(assigned)]


def _has_segment(path: str) -> bool:
    return any(name.endswith(".log") for name in os.listdir(path))


def _order(directory: str) -> tuple[str, int]:
    _, topic, partition = parse_name(os.path.basename(os.path.abspath(directory)))
    return topic, partition


def _plan_partition(log: StoredLog, start: Bounds, end: Bounds, committed: bool) -> list[dict[str, Any]]:
    earliest, latest = log.start_offset(), log.end_offset()
    asked = start.each.get((log.topic, log.partition))
    if asked is not None and asked.kind == OFFSET and 0 <= asked.value < earliest:
        raise DataLoss(f"{log.directory}: offset {asked.value} was deleted: the log begins at {earliest}")
    transactions = StoredTransactions((), latest)
    if committed:
        transactions = find_transactions(log, latest)
        latest = transactions.last_stable_offset
    begun = max(earliest, _resolve(log, start, earliest, latest))
    ended = min(latest, _resolve(log, end, earliest, latest))
    splits = []
    for segment in log.segments:
        first = max(begun, segment.base_offset)
        behind = ended if segment.end_offset is None else min(ended, segment.end_offset)
        if first >= behind:
            continue
        splits.append(
            {
                "directory": log.directory,
                "topic": log.topic,
                "partition": log.partition,
                "start": first,
                "end": behind,
                "aborted": [
                    each for each in transactions.aborted if each.last_offset >= first and each.first_offset < behind
                ],
            }
        )
    return splits


def _resolve(log: StoredLog, bounds: Bounds, earliest: int, latest: int) -> int:
    bound: Bound = bounds.of(log.topic, log.partition)
    if bound.kind == OFFSET:
        return {EARLIEST: earliest, LATEST: latest}.get(bound.value, bound.value)
    found = log.offset_since(bound.value, latest)
    if found is None and not bounds.late_means_latest:
        raise NoSuchTime(f"{log.directory}: no record is at or after {bound.value} ms")
    return latest if found is None else found
