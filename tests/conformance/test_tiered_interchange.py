"""Apache Kafka and pybroker in turn on one data directory and one remote storage, with the same server.properties.

Each finds all records of both tiers that the other one left, by offset, by time and with read_committed, and goes on:
it copies, expires and deletes. One run stops cleanly, the other by kill -9.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import iter_batches
from tests.support.brokers import RunningBroker
from tests.support.dump_log import dump_with_both
from tests.support.eventually import eventually, succeeds
from tests.support.java import JavaRunner
from tests.support.one_directory import KafkaOnFormatted, OneDirectory, OursOnFormatted
from tests.support.ports import free_port
from tests.support.scale import SCALE
from tests.support.settled import settled
from tests.support.tiered_brokers import tiered_classpath, tiered_properties
from tests.support.tiered_client import METADATA_TOPIC, TieredClient, await_remote, remote_files
from tests.support.tiered_side import FULL_BYTES, SECOND_MS, TIME_MS, Side

WAYS = ["killed", "stopped"][: 2 if SCALE > 1 else 1]
TOPICS = ("plain", "txn", "deleted", "sized")
TIMES = [TIME_MS + second * SECOND_MS for second in range(-1, 120, 5)]


class _Kafka(KafkaOnFormatted):
    def _classpaths(self) -> list[Path]:
        return list(tiered_classpath())


class _Directory(OneDirectory):
    kinds: Mapping[str, type[RunningBroker]] = {"kafka": _Kafka, "ours": OursOnFormatted}


def view(client: TieredClient, remote: Path, topic: str) -> dict[str, Any]:
    """Return what a client finds in both tiers, and the remote files."""
    start, end = client.bounds(topic)
    offset, batches, aborted = start, [], set()
    while offset < end:
        found = client.fetch(topic, offset)
        headers = [header for _, header in iter_batches(bytes(found.records))]
        read = [(each.base_offset, each.last_offset, each.crc) for each in headers]
        assert read, f"nothing at {offset} of {topic}"
        batches += read
        offset = read[-1][1] + 1
    for first, _, _ in batches:
        found = client.fetch(topic, max(start, first), isolation_level=1)
        aborted |= {(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()}
    return {
        "special": client.special(topic),
        "times": client.offsets(topic, TIMES),
        "batches": batches,
        "aborted": aborted,
        "committed": client.committed_records(topic),
        "remote": {name: path.name for name, path in remote_files(remote, topic).items()},
    }


class Relay:
    """The brokers one after the other; each is compared with what the last one left."""

    def __init__(self, home: Path, *, killed: bool) -> None:
        properties = {**tiered_properties(home / "remote"), "log.initial.task.delay.ms": "4000"}
        self.directory = _Directory(home / "node", free_port(), free_port(), standalone=killed, properties=properties)
        self._home = home
        self._killed = killed
        self._left: dict[str, Any] = {}

    def take_over(self, kind: str) -> Side:
        """Start a broker; it must show what the last one left."""
        broker = self.directory.start(kind)
        side = settled(broker, lambda: Side(broker, self._home / "remote"))
        for topic, expected in self._left.items():
            check = functools.partial(self._compare, side, topic, expected)
            # a broker serves clients before it has read the metadata of remote segments
            eventually(check, until=succeeds, retried=Exception if kind == "kafka" else AssertionError)
        return side

    def _compare(self, side: Side, topic: str, expected: dict[str, Any]) -> None:
        found = view(side.client, side.remote, topic)
        for name, value in expected.items():
            assert found[name] == value, f"{name} of {topic}"

    def end(self, side: Side, topics: tuple[str, ...] = TOPICS) -> None:
        """Stop or kill the broker; keep what it showed."""
        self._left = {topic: view(side.client, side.remote, topic) for topic in topics}
        side.client.close()
        self.directory.end(killed=self._killed)

    def metadata_logs(self) -> str:
        """Return the segments of `__remote_log_metadata`, as the tools that print them want them."""
        logs = self.directory.log_dir.glob(f"{METADATA_TOPIC}-*/*.log")
        return ",".join(sorted(str(path) for path in logs))


@pytest.fixture(params=WAYS)
def relay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path, killed=request.param == "killed")
    yield made
    if made.directory.running is not None:
        made.directory.running.kill()


def go_on(side: Side, first: int, start: int) -> None:
    """Write 20 records from offset `first` on; expire and delete what is before `start`; delete a topic."""
    kept = (first + 20 - start) // 10 * FULL_BYTES
    assert side.configure("sized", retention_bytes=str(kept)) == "NONE None"
    for topic in ("plain", "deleted", "sized"):
        side.write(topic, first, first + 20)
    side.client.delete_records("deleted", 0, start + 5)
    side.client.delete_topic(f"doomed-{start}")
    side.await_tiers("plain", first + 10, first + 9)
    await_remote(side.remote, "plain", range(0, first + 10, 10))
    await_remote(side.remote, "deleted", range(start, first + 10, 10))
    await_remote(side.remote, "sized", range(start, first + 10, 10))
    await_remote(side.remote, f"doomed-{start}", [])
    for topic in ("deleted", "sized"):
        side.await_tiers(topic, first + 10, first + 9)
    side.await_start("sized", start)


def test_one_remote_storage_alternates_between_both_brokers(relay: Relay, java: JavaRunner) -> None:
    kafka = relay.take_over("kafka")
    doomed = ("doomed-10", "doomed-20", "doomed-30")
    for topic in ("plain", "deleted", "sized", *doomed):
        kafka.create(topic)
        kafka.write(topic, 0, 40)
    kafka.create("txn")
    kafka.write_transactions("txn")
    for topic in ("plain", "deleted", "sized", *doomed):
        kafka.await_tiers(topic, 30, 29)
    kafka.await_tiers("txn", 60, 59)
    relay.end(kafka)

    ours = relay.take_over("ours")
    go_on(ours, 40, 10)
    relay.end(ours)
    dump_with_both(java, "--files", relay.metadata_logs(), "--remote-log-metadata-decoder")

    kafka = relay.take_over("kafka")
    go_on(kafka, 60, 20)
    relay.end(kafka)

    ours = relay.take_over("ours")
    go_on(ours, 80, 30)
    relay.end(ours)
    relay.take_over("ours")
