"""Remote storage that Apache Kafka and Aiven's plugin wrote (tests/data/remote) is read beside the local logs."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.tiering.counts import TierCounts
from broker.tiering.rate_quota import RateQuota
from broker.tiering.reading.reader import RemoteReader
from broker.tiering.remote_logs import RemoteLogs
from protocol.records.entries import iter_records
from remote.aiven_layout import AivenLayout
from remote.directory_store import DirectoryStore
from remote.local_tiered_layout import FOLDER, LocalTieredLayout
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL as LOCAL_FS
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.log.timestamps import Allowance
from storage.recovery.loading import load_log
from tests.support.fake_loop import FakeLoop
from tests.support.metadata_log import stored_values
from tests.support.tiered_broker import DEFAULTS, Threads, tiered_config
from tests.unit.remote.recorded import AIVEN, LOCAL
from tiered.metadata_records import TopicIdPartition, decode


class Recorded:
    """The partitions of one recording, and a reader."""

    def __init__(self, recording: Path, root: Path) -> None:
        shutil.copytree(recording / "log.dirs", root / "log.dirs")
        layout: Any
        if recording == AIVEN:
            layout = AivenLayout(DirectoryStore(str(recording)), "")
        else:
            shutil.copytree(recording, root / FOLDER, ignore=shutil.ignore_patterns("log.dirs"))
            layout = LocalTieredLayout(DirectoryStore(str(root)))
        self.remote_logs = RemoteLogs(lambda topic_id: None, lambda partition: True)
        self.named: dict[str, TopicIdPartition] = {}
        for log in sorted((recording / "log.dirs").glob("__remote_log_metadata-*/*.log")):
            for _, value in stored_values(log):
                partition, event = decode(value)
                self.remote_logs.replay(partition, event)
                self.named[partition.topic] = partition
        loop = FakeLoop()
        self.root = root / "log.dirs"
        self.reader = RemoteReader(
            SimpleNamespace(get_int=DEFAULTS.__getitem__, subscribe=lambda *_: None),  # type: ignore[arg-type]
            loop.clock,
            Timers(loop, loop.clock),
            Threads(),  # type: ignore[arg-type]
            RateQuota((1 << 63) - 1, 11, 1000),
            TierCounts(),
            self.remote_logs,
            layout,
            str(self.root),
        )

    def partition(self, topic: str) -> Any:
        """Open the local log."""
        path = f"{self.root}/{topic}-0"
        stored = StoredLog(path, topic, 0, tiered_config(), 0, clean=True)
        log = load_log(LogDirectory(str(self.root), LOCAL_FS, jitter=lambda limit: 0), stored)
        return SimpleNamespace(topic=topic, topic_id=self.named[topic].topic_id, index=0, log=log)

    def read(self, partition: Any, offset: int, **more: bool) -> Any:
        """Read what the remote storage has of an offset."""
        while isinstance(found := self.reader.read(partition, offset, 4000, **more), Deferred):
            found.result()
        return found


def recordings() -> list[Any]:
    return [
        pytest.param(path, topic, id=f"{path.name}-{topic}")
        for path in (AIVEN, *LOCAL)
        for topic in sorted({name.name.rpartition("-")[0] for name in (path / "log.dirs").iterdir() if name.is_dir()})
        if list(path.glob(f"{topic}-*"))
    ]


@pytest.mark.parametrize(("recording", "topic"), recordings())
def test_all_records_of_both_tiers(recording: Path, topic: str, tmp_path: Path) -> None:
    recorded = Recorded(recording, tmp_path)
    partition = recorded.partition(topic)
    log = partition.log
    offset, found = 0, []
    while offset < log.local_start_offset:
        part = recorded.read(partition, offset).records
        assert isinstance(part, FetchSlice)
        found += [record.offset for record in iter_records(part.read()) if record.offset >= offset]
        offset = found[-1] + 1
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, log.log_end_offset)
        found += [record.offset for record in iter_records(part.read()) if record.offset >= offset]
        offset = found[-1] + 1
    assert found == list(range(log.log_end_offset))


@pytest.mark.parametrize(("recording", "topic"), recordings())
def test_times_are_those_of_the_records(recording: Path, topic: str, tmp_path: Path) -> None:
    recorded = Recorded(recording, tmp_path)
    partition = recorded.partition(topic)
    times: dict[int, int] = {}
    while len(times) < partition.log.local_start_offset:
        records = iter_records(recorded.read(partition, len(times)).records.read())
        times |= {record.offset: record.timestamp for record in records}
    for wanted in [*list(times.values())[::37], max(times.values())]:
        steps = recorded.reader.find_timestamp(partition, wanted, Allowance(), 1 << 60)
        with pytest.raises(StopIteration) as ended:
            next(steps)
        first = next(offset for offset, time in times.items() if time >= wanted)
        assert ended.value.value[:2] == (times[first], first)


def test_aborted_transactions_of_kafka(tmp_path: Path) -> None:
    """All that its transaction indexes name are found, those of every read that they overlap."""
    recorded = Recorded(AIVEN, tmp_path)
    partition = recorded.partition("atx")
    entries = {
        each
        for segment in recorded.remote_logs.get(partition.topic_id, 0).segments
        for each in recorded.reader.indexes.aborted(recorded.named["atx"], segment)
    } | set(partition.log.aborted_transactions(0, partition.log.log_end_offset))
    assert len(entries) > 3
    offset = 0
    while offset < partition.log.local_start_offset:
        part = recorded.read(partition, offset, with_aborted=True)
        last = [record.offset for record in iter_records(part.records.read())][-1]
        overlapping = {each for each in entries if each.last_offset >= offset and each.first_offset <= last}
        assert overlapping <= set(part.aborted)
        assert set(part.aborted) <= {each for each in entries if each.last_offset >= offset}
        offset = last + 1
