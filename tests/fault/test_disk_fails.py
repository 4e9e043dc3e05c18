"""A disk is full or fails: its log directory goes offline, the others continue, no acknowledged record is lost.

A limit on the size of files simulates a full disk: a write is cut short, and the next one fails, as with ENOSPC. Other
tests fill a small file system (tests/fault/full_disks.py).
"""

from __future__ import annotations

import random
import re
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.partition_for_key import partition_for
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.fault.full_disks import DISKS, BrokerOnDisk, Disk
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually
from tests.support.wire import Closed

PROPERTIES = {
    "log.index.size.max.bytes": "4096",
    "log.flush.interval.ms": "100",
    "log.flush.scheduler.interval.ms": "50",
}
PARTITIONS = 6
OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR
NOISE = random.Random(5).randbytes(60_000)


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """The directory that will be full: `tmp_path`/full."""
    made: Disk = request.param(tmp_path / "full")
    yield made
    made.remove()


def start(tmp_path: Path, *names: str, disk: Disk | None = None) -> OurBroker:
    """A broker with those log directories. One of them may be `disk`."""
    dirs = ",".join(str(tmp_path / name) for name in names)
    properties = {**PROPERTIES, "log.dirs": dirs}
    if disk is None:
        return OurBroker(tmp_path / "broker", properties)
    return BrokerOnDisk(tmp_path / "broker", properties, disk)


class Writer:
    """An idempotent producer of one partition, which remembers the acknowledged records."""

    def __init__(self, client: DataClient, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.producer_id = client.new_producer_id()
        self.acknowledged: list[bytes] = []

    def write(self, client: DataClient) -> None:
        """Send the next record, and retry it until it is acknowledged."""
        number = len(self.acknowledged)
        value = b"%d:" % number + NOISE
        records = batch(value, producer_id=self.producer_id, producer_epoch=0, base_sequence=number)
        assert client.produce(self.topic, records, self.partition) == number
        self.acknowledged.append(value)

    def fill(self, client: DataClient) -> None:
        """Send records until the disk is full."""
        for _ in range(200):
            if refuses(lambda: self.write(client)):
                return
        raise AssertionError("the disk is not full")

    def check(self, client: DataClient) -> None:
        """Every acknowledged record is there, and no other. The next record is accepted."""
        assert client.values(self.topic, self.partition) == self.acknowledged
        self.write(client)


def directory_of(client: DataClient, topic: str) -> dict[int, str]:
    """Return the name of the log directory of each partition that is online."""
    answer = client.call(DESCRIBE_LOG_DIRS, 4, topics=None)
    return {
        partition.partition_index: Path(result.log_dir).name
        for result in answer.results
        for found in result.topics
        if found.name == topic
        for partition in found.partitions
    }


def directory_errors(client: DataClient) -> dict[str, int]:
    answer = client.call(DESCRIBE_LOG_DIRS, 4, topics=None)
    return {Path(result.log_dir).name: result.error_code for result in answer.results}


def leaders(client: DataClient, topic: str) -> dict[int, tuple[int, int, list[int]]]:
    """Return for each partition the error code, the leader, and the offline replicas."""
    [found] = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=topic)]).topics
    return {each.partition_index: (each.error_code, each.leader_id, each.offline_replicas) for each in found.partitions}


def is_quiet(broker: OurBroker) -> bool:
    """Return whether the output has the line once and no traceback, however often clients retry."""
    lines = [line for line in broker.output.splitlines() if " INFO " not in line]
    return "Traceback" not in broker.output and len(lines) < 20


def refuses(call: Callable[[], object]) -> bool:
    """Return whether the response to a request is KAFKA_STORAGE_ERROR."""
    try:
        call()
    except Refused as refused:
        return refused.code is OFFLINE
    return False


def test_full_directory_goes_offline_and_the_other_goes_on(disk: Disk, tmp_path: Path) -> None:
    """Its partitions return KAFKA_STORAGE_ERROR and have no leader.

    With free space a restart brings back all records.
    """
    broker = start(tmp_path, "data", "full", disk=disk)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", PARTITIONS)
        places = directory_of(client, "events")
        failing = [partition for partition, place in places.items() if place == "full"]
        others = [partition for partition, place in places.items() if place == "data"]
        assert failing
        assert others
        writers = [Writer(client, "events", partition) for partition in range(PARTITIONS)]
        for writer in writers:
            writer.write(client)
        polling = DataClient(HOST, broker.port)
        polling.send(FETCH, 12, long_poll(failing[1]))
        disk.fill(broker)
        writers[failing[0]].fill(client)

        eventually(lambda: leaders(client, "events")[failing[0]][1], equal_to=-1)
        described = leaders(client, "events")
        for partition in failing:
            assert described[partition] == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
            assert refuses(lambda partition=partition: writers[partition].write(client))
            assert refuses(lambda partition=partition: client.fetch("events", 0, partition))
            assert refuses(lambda partition=partition: client.bounds("events", partition))
            assert refuses(lambda partition=partition: client.producers("events", partition))
            assert refuses(lambda partition=partition: client.delete_records("events", partition, 0))
        for partition in others:
            assert described[partition] == (0, 1, [])
            for _ in range(3):
                writers[partition].write(client)
            assert client.values("events", partition) == writers[partition].acknowledged
        assert directory_errors(client) == {"data": 0, "full": OFFLINE}
        [polled] = polling.receive().responses[0].partitions
        assert polled.error_code == OFFLINE
        polling.close()
        # New partitions go to a working disk, and the metadata log continues.
        client.create_topic("later", 2)
        assert set(directory_of(client, "later").values()) == {"data"}
        for _ in range(100):
            assert refuses(lambda: writers[failing[0]].write(client))
    assert is_quiet(broker), broker.output
    assert broker.stop() == 0
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    assert not (disk.path / ".kafka_cleanshutdown").exists()

    if disk.outlasts_the_broker:
        broker.start()
        with DataClient(HOST, broker.port) as client:
            for partition in others:
                writers[partition].check(client)
            for partition in failing:
                assert refuses(lambda partition=partition: writers[partition].write(client))
        assert broker.stop() == 0
    disk.make_room()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert directory_errors(client) == {"data": 0, "full": 0}
        for writer in writers:
            writer.check(client)
        assert all(found == (0, 1, []) for found in leaders(client, "events").values())
    assert broker.stop() == 0


def long_poll(partition: int) -> dict[str, object]:
    """Send a Fetch of `events` that waits for a second record."""
    wanted = FetchPartition(partition=partition, fetch_offset=1, partition_max_bytes=1 << 20)
    return {"max_wait_ms": 60_000, "min_bytes": 1, "topics": [FetchTopic(topic="events", partitions=[wanted])]}


def test_groups_of_a_directory_that_fails(disk: Disk, tmp_path: Path) -> None:
    """They have no coordinator until the next start, and waiting members get the error. Other groups continue."""
    broker = start(tmp_path, "data", "full", disk=disk)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", 4)
        client.find_coordinator("any")
        places = directory_of(client, "__consumer_offsets")
        groups = {places[partition_for(name, len(places))]: name for name in map("group-{}".format, range(20))}
        for number in (1, 2, 3):
            for group in groups.values():
                client.commit(group, {("events", 0): number})
        joined = client.call(JOIN_GROUP, 3, join(groups["full"]))
        waiting = DataClient(HOST, broker.port)
        waiting.send(JOIN_GROUP, 3, join(groups["full"]))  # until the first member joins again
        disk.fill(broker)
        failing = next(partition for partition, place in directory_of(client, "events").items() if place == "full")
        Writer(client, "events", failing).fill(client)
        assert waiting.receive().error_code == ErrorCode.NOT_COORDINATOR
        beat = {"group_id": groups["full"], "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert client.call(HEARTBEAT, 3, beat).error_code == ErrorCode.NOT_COORDINATOR
        for call in (client.find_coordinator, lambda group: client.commit(group, {("events", 0): 4})):
            with pytest.raises(Refused) as refused:
                call(groups["full"])
            assert refused.value.code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
        client.find_coordinator(groups["data"])
        client.commit(groups["data"], {("events", 0): 4})
        waiting.close()
    assert is_quiet(broker), broker.output
    assert broker.stop() == 0
    disk.make_room()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert client.committed(groups["full"], "events") == [3]
        assert client.committed(groups["data"], "events") == [4]
    assert broker.stop() == 0


def join(group: str) -> dict[str, object]:
    return {
        "group_id": group,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")],
    }


def test_directory_that_cannot_be_read_at_the_start(tmp_path: Path) -> None:
    """The broker starts without it, as Apache Kafka does. Once the directory works again, all its records are back."""
    broker = start(tmp_path, "data", "failing")
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", PARTITIONS)
        client.find_coordinator("group")
        places = directory_of(client, "events")
        writers = [Writer(client, "events", partition) for partition in range(PARTITIONS)]
        for writer in writers:
            writer.write(client)
    assert broker.stop() == 0
    failing = [partition for partition, place in places.items() if place == "failing"]
    log = tmp_path / f"failing/events-{failing[0]}/00000000000000000000.log"
    log.rename(tmp_path / "log")
    log.symlink_to(log)  # opening it is an error, but not "no such file"
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert directory_errors(client) == {"data": 0, "failing": OFFLINE}
        for partition, writer in enumerate(writers):
            if partition in failing:
                assert leaders(client, "events")[partition] == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
                assert refuses(lambda writer=writer: writer.write(client))
            else:
                writer.check(client)
    assert is_quiet(broker), broker.output
    assert broker.stop() == 0
    log.unlink()
    (tmp_path / "log").rename(log)
    broker.start()
    with DataClient(HOST, broker.port) as client:
        for writer in writers:
            writer.check(client)
        client.find_coordinator("group")
    assert broker.stop() == 0


def test_only_directory_is_full_and_the_broker_ends(disk: Disk, tmp_path: Path) -> None:
    """As in Apache Kafka: nothing is left to serve. The client gets the error before its connection closes."""
    broker = start(tmp_path, "full", disk=disk)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events")
        writer = Writer(client, "events", 0)
        disk.fill(broker)
        writer.fill(client)
    assert broker.wait() == 1
    assert "all log directories are offline" in broker.output
    assert is_quiet(broker), broker.output
    if disk.outlasts_the_broker:
        broker.spawn()
        assert broker.wait() == 1
        assert re.fullmatch(r"pybroker: (\S+ is offline: )?.*No space left on device.*", broker.output.splitlines()[-1])
        assert is_quiet(broker), broker.output
    disk.make_room()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        writer.check(client)
    assert broker.stop() == 0


def test_directory_of_the_metadata_is_full(disk: Disk, tmp_path: Path) -> None:
    """Metadata cannot change, and requests that would change it get an error. Partitions elsewhere are served."""
    broker = start(tmp_path, "full", "data", disk=disk)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", PARTITIONS)
        places = directory_of(client, "events")
        writers = {partition: Writer(client, "events", partition) for partition in range(PARTITIONS)}
        for writer in writers.values():
            writer.write(client)
        disk.fill(broker)
        failing = next(partition for partition, place in places.items() if place == "full")
        writers[failing].fill(client)
        for partition, place in places.items():
            if place == "data":
                writers[partition].write(client)
                assert client.values("events", partition) == writers[partition].acknowledged
            else:
                assert refuses(lambda partition=partition: writers[partition].write(client))
        began = time.monotonic()
        assert refuses(lambda: client.create_topic("later"))
        assert refuses(lambda: client.set_topic_config("events", "retention.ms", "1"))
        assert time.monotonic() - began < 25, "the time that the requests grant is not waited for"
        assert "later" not in client.topics()
    assert is_quiet(broker), broker.output
    assert broker.stop() == 0
    disk.make_room()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert "later" not in client.topics()
        for writer in writers.values():
            writer.check(client)
    assert broker.stop() == 0


def test_disk_that_is_found_full_by_the_stop(tmp_path: Path) -> None:
    """Directories that can be written are left clean. The next start recovers the other one."""
    broker = start(tmp_path, "full", "data")
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", 200)
        writers = [Writer(client, "events", partition) for partition in range(4)]
        for writer in writers:
            writer.write(client)
    limit = len(broker.output) + 2000
    metadata = tmp_path / "full/__cluster_metadata-0/00000000000000000000.log"
    assert metadata.stat().st_size > limit  # so that the stop cannot write to it
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (limit, limit))
    assert broker.stop() == 0
    assert is_quiet(broker), broker.output
    assert not (tmp_path / "full/.kafka_cleanshutdown").exists()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        for writer in writers:
            writer.check(client)
    assert broker.stop() == 0


def test_disk_on_which_nothing_can_be_written_at_all(tmp_path: Path) -> None:
    """All writes fail from one moment on: no hang, few log lines, and acknowledged records are there afterwards."""
    broker = start(tmp_path, "data")
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", 3)
        client.find_coordinator("group")
        client.commit("group", {("events", 0): 1})
        writers = [Writer(client, "events", partition) for partition in range(3)]
        for writer in writers:
            writer.write(client)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, 0))
        with pytest.raises((Refused, Closed)):
            client.commit("group", {("events", 0): 2})
    assert broker.wait() == 1
    broker.start()
    with DataClient(HOST, broker.port) as client:
        for writer in writers:
            writer.check(client)
        assert client.committed("group", "events") == [1]
    assert broker.stop() == 0
