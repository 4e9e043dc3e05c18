"""The state of a topic with tiered storage, by answers to clients and by files, as values of JSON for a comparison.

Left out is what differs in each run: ids, times of the broker, and leader epochs, which become ranks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.records.batch import iter_batches
from protocol.records.entries import iter_records
from storage.producers.snapshot import decode_snapshot
from tests.support.eventually import eventually
from tests.support.txn_client import TxnClient
from tiered.metadata_records import TopicIdPartition, decode
from tiered.segment import RemoteSegment, SegmentUpdate

#: Special times of ListOffsets, and the first version that knows all of them.
LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SPECIAL = (LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING)
_VERSION = 11
METADATA_TOPIC = "__remote_log_metadata"
_FILE = re.compile(r"(\d{20})-([\w-]{22})\.(\w+)")
_PATIENCE_MS = 60_000
#: How long a Fetch waits for records. For remote ones it waits longer, as remote.fetch.max.wait.ms says.
_WAIT_MS = 100
#: An entry of a transaction index: version, producer, first and last offset, last stable offset.
_ABORTED = Struct(">hqqqq")

Partition = tuple[str, int]


class TieredClient(TxnClient):
    """One connection."""

    #: Apache Kafka 4.3 answers some look-ups in remote storage at once that they have timed out.
    is_hasty = False

    def offsets(self, topic: str, times: Sequence[int], partition: int = 0, *, committed: bool = False) -> list[str]:
        """Send a ListOffsets for each time; return code, offset and time of each answer, "code c" for an error."""
        return [self._listed(topic, each, partition, committed) for each in times]

    def _listed(self, topic: str, timestamp: int, partition: int, committed: bool) -> str:
        wanted = {"partition_index": partition, "timestamp": timestamp}
        answer = self.call(
            LIST_OFFSETS,
            _VERSION,
            replica_id=-1,
            isolation_level=int(committed),
            topics=[{"name": topic, "partitions": [wanted]}],
            timeout_ms=_PATIENCE_MS,
        )
        found = answer.topics[0].partitions[0]
        if found.error_code == ErrorCode.REQUEST_TIMED_OUT and self.is_hasty:
            return self._listed(topic, timestamp, partition, committed)
        if found.error_code:
            return f"code {found.error_code}"
        # each restart raises the epoch, and Apache Kafka raises it twice after a kill
        return f"{found.offset} at {found.timestamp} in epoch {min(found.leader_epoch, 1)}"

    def changed_configs(self, topic: str, settings: Mapping[str, str]) -> str:
        """Set configurations of a topic in one request; return the answer's code and message."""
        configs = [{"name": key, "config_operation": 0, "value": value} for key, value in settings.items()]
        resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
        [answer] = self.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
        return f"{ErrorCode(answer.error_code).name} {answer.error_message}"

    def special(self, topic: str, partition: int = 0) -> list[int]:
        """Return the offsets of the special times; None for an error."""
        return [int(each.split()[0]) for each in self.offsets(topic, SPECIAL, partition)]

    def fetch_many(
        self, wanted: Iterable[tuple[str, int, int, int]], *, max_bytes: int = 50 << 20, committed: bool = False
    ) -> list[dict[str, Any]]:
        """Send one Fetch for (topic, partition, offset, max bytes) each; return the partitions' answers in order."""
        topics: dict[str, list[dict[str, int]]] = defaultdict(list)
        order = [(topic, partition) for topic, partition, _, _ in wanted]
        for topic, partition, offset, size in wanted:
            topics[topic].append({"partition": partition, "fetch_offset": offset, "partition_max_bytes": size})
        answer = self.call(
            FETCH,
            12,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
        )
        found = {(topic.topic, each.partition_index): each for topic in answer.responses for each in topic.partitions}
        return [self._fetched(found[place]) for place in order]

    def _fetched(self, found: Any) -> dict[str, Any]:
        records = bytes(found.records or b"")
        batches = [header for _, header in iter_batches(records)]
        aborted, end = found.aborted_transactions, batches[-1].last_offset if batches else -1
        return {
            "code": found.error_code,
            "end": found.high_watermark,
            "stable": found.last_stable_offset,
            "start": found.log_start_offset,
            "bytes": len(records),
            "batches": [f"{each.base_offset}-{each.last_offset}" for each in batches],
            # brokers may also list later transactions, and one transaction several times
            "aborted": None if aborted is None else self._names_of(aborted, end),
        }

    def _names_of(self, aborted: Iterable[Any], end: int) -> list[str]:
        found = {f"{self.name(each.producer_id)}@{each.first_offset}" for each in aborted if each.first_offset <= end}
        return sorted(found)

    def fetched(
        self, topic: str, offset: int, partition: int = 0, *, size: int = 1 << 20, committed: bool = False
    ) -> Any:
        """Send a Fetch of one partition; return its answer."""
        return self.fetch_many([(topic, partition, offset, size)], committed=committed)[0]

    def fetch(
        self, topic: str, offset: int, partition: int = 0, *, max_bytes: int = 1 << 20, isolation_level: int = 0
    ) -> Any:
        """Send one Fetch, which waits for remote records."""
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        topics = [{"topic": topic, "partitions": [wanted]}]
        answer = self.call(FETCH, 12, max_wait_ms=_WAIT_MS, min_bytes=1, isolation_level=isolation_level, topics=topics)
        found = answer.responses[0].partitions[0]
        assert not found.error_code, found
        return found

    def metadata_events(self) -> dict[Partition, list[tuple[TopicIdPartition, RemoteSegment | SegmentUpdate]]]:
        """Return what `__remote_log_metadata` says about each partition, in order."""
        found: dict[Partition, list[Any]] = defaultdict(list)
        for index in range(self.topics()[METADATA_TOPIC]):
            for record in self.read_all(METADATA_TOPIC, index):
                assert record.value is not None
                partition, event = decode(record.value)
                found[partition.topic, partition.partition].append((partition, event))
        return found

    def described_events(self, topic: str, partition: int = 0, *, timed: bool = True) -> list[str]:
        """Return the events of each segment of a partition, ordered by offset; `timed`: with largest times."""
        events: dict[bytes, list[Any]] = defaultdict(list)
        for _, event in self.metadata_events()[topic, partition]:
            events[event.id].append(event)
        ranks = Ranks()
        ordered = sorted(events.values(), key=lambda each: (each[0].start_offset, len(each)))
        return [
            f"{first.start_offset}-{first.end_offset} {first.size_bytes} bytes,"
            f"{f' largest time {first.max_timestamp_ms},' if timed else ''}"
            f" epochs {[(ranks.of(epoch), start) for epoch, start in first.epochs]},"
            f" {'no aborted' if first.has_no_aborted else 'aborted'},"
            f" states {[each.state.name for each in (first, *later)]}"
            for first, *later in ordered
        ]


class Ranks:
    """Leader epochs by their order: brokers raise them differently often at a restart."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}

    def of(self, epoch: int) -> int:
        return self._ranks.setdefault(epoch, len(self._ranks))


def folders(remote: Path, topic: str, partition: int = 0) -> list[Path]:
    """Return the folders of a partition in LocalTieredStorage's layout, one for each topic id."""
    return [
        path for path in remote.glob(f"{topic}-{partition}-*") if len(path.name) == len(f"{topic}-{partition}-") + 22
    ]


def remote_files(remote: Path, topic: str, partition: int = 0) -> dict[str, Path]:
    """Return the files of a partition by start offset and kind, as "20.log"."""
    found: dict[str, Path] = {}
    for folder in folders(remote, topic, partition):
        for path in folder.iterdir():
            matched = _FILE.fullmatch(path.name)
            if matched:
                name = f"{int(matched[1])}.{matched[3]}"
                assert name not in found, f"two copies: {path} and {found[name]}"
                found[name] = path
    return found


def remote_starts(remote: Path, topic: str, partition: int = 0) -> list[int]:
    """Return the start offsets of the segments that are remote, whole or in part."""
    return sorted({int(name.partition(".")[0]) for name in remote_files(remote, topic, partition)})


def described_files(remote: Path, topic: str, name: Callable[[int], str], partition: int = 0) -> dict[str, str]:
    """Return what is in the remote files of a partition; `name` returns the test's name of a producer id."""
    return {
        key: _content(key, path.read_bytes(), name)
        for key, path in sorted(remote_files(remote, topic, partition).items())
    }


def _content(key: str, data: bytes, name: Callable[[int], str]) -> str:
    kind = key.partition(".")[2]
    if kind == "log":
        ends = [header.next_offset for _, header in iter_batches(data)]
        return f"{len(data)} bytes, {sum(1 for _ in iter_records(data))} records, ends {ends}"
    if kind == "leader_epoch_checkpoint":
        ranks = Ranks()
        rows = [line.split() for line in data.decode().splitlines()[2:]]
        return str([(ranks.of(int(epoch)), int(start)) for epoch, start in rows])
    if kind == "snapshot":
        entries = decode_snapshot(data, key)
        return str(sorted((name(e.producer_id), e.producer_epoch, e.last_sequence, e.last_offset) for e in entries))
    if kind == "txnindex":
        return str(
            [(name(producer), first, last, stable) for _, producer, first, last, stable in _ABORTED.iter_unpack(data)]
        )
    return data.hex()


def await_remote(remote: Path, topic: str, starts: Sequence[int], partition: int = 0) -> None:
    """Wait until exactly the segments with these start offsets are remote."""
    eventually(
        lambda: remote_starts(remote, topic, partition),
        f"remote segments of {topic}-{partition}",
        equal_to=list(starts),
        retried=(OSError, AssertionError),
    )
