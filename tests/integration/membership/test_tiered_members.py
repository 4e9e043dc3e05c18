"""Tiered storage in a cluster: leaders copy, all replicas free their disks, and a new leader goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from pybroker.testing import Cluster
from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.tiered_brokers import remote_directory, tiered_properties
from tests.support.tiered_client import TieredClient, remote_files, remote_starts

PARTITIONS = 2
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": 1048576,
    "internal.segment.bytes": 1000,
    "local.retention.bytes": 1,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    properties = tiered_properties(tmp_path / "remote", {"log.initial.task.delay.ms": "300"})
    with Cluster(2, properties, directory=tmp_path / "nodes") as cluster:
        yield cluster


def client_of(cluster: Cluster, partition: int) -> TieredClient:
    """Return a client of the leader."""
    host, _, port = cluster.leader_of("t", partition).bootstrap_servers.partition(":")
    assert host == HOST
    return TieredClient(HOST, int(port))


def fill(cluster: Cluster, partition: int, first: int, count: int) -> None:
    with client_of(cluster, partition) as client:
        for number in range(first, first + count):
            client.produce("t", batch(b"%d" % number * 200), partition)


def local_starts(cluster: Cluster, partition: int) -> list[set[str]]:
    """Return the log files of each replica."""
    nodes = [cluster.directory / f"broker-{number}" / "data" / f"t-{partition}" for number in range(2)]
    return [{path.name for path in node.glob("*.log")} for node in nodes]


def await_copies(cluster: Cluster, partition: int, end: int) -> int:
    """Wait until each replica has the active segment alone; return its first offset."""
    eventually(
        lambda: local_starts(cluster, partition),
        until=lambda found: found[0] == found[1] and len(found[0]) == 1 and int(max(found[0])[:20]) > end - 5,
    )
    return int(max(local_starts(cluster, partition)[0])[:20])


def test_leaders_copy_and_followers_free_their_disks(cluster: Cluster, tmp_path: Path) -> None:
    """The metadata partitions have leaders, too, which need not be those of the partitions."""
    remote = remote_directory(tmp_path / "remote")
    cluster.create_topic("t", PARTITIONS, TOPIC)
    for partition in range(PARTITIONS):
        fill(cluster, partition, 0, 10)
        active = await_copies(cluster, partition, 10)
        assert remote_starts(remote, "t", partition)[0] == 0
        cluster.move_leader("t", partition)
        fill(cluster, partition, 10, 10)
        assert active < await_copies(cluster, partition, 20)
        starts = remote_starts(remote, "t", partition)
        assert len(remote_files(remote, "t", partition)) == 5 * len(starts), "each segment is there once"
        with client_of(cluster, partition) as client:
            assert client.values("t", partition) == [b"%d" % number * 200 for number in range(20)]
    with client_of(cluster, 0) as client:
        client.delete_topic("t")
    eventually(lambda: not any(remote_files(remote, "t", each) for each in range(PARTITIONS)))
    for each in cluster.brokers:
        assert "Traceback" not in each.log


def test_new_replica_continues_where_the_leaders_disk_begins(cluster: Cluster, tmp_path: Path) -> None:
    """It gets leader epochs and producers from remote storage, so that it can lead, and read and copy what is there."""
    cluster.create_topic("t", 1, TOPIC, replicas=1)
    fill(cluster, 0, 0, 10)
    leader = cluster.leader_of("t").node_id
    folder = cluster.directory / f"broker-{leader}" / "data" / "t-0"
    active = eventually(lambda: sorted(folder.glob("*.log")), until=lambda found: len(found) == 1)[0].name
    both = [leader, 1 - leader]
    with client_of(cluster, 0) as client:
        wanted = {"name": "t", "partitions": [{"partition_index": 0, "replicas": both}]}
        assert not client.call(ALTER_PARTITION_REASSIGNMENTS, 0, topics=[wanted], timeout_ms=30_000).error_code
    cluster.wait_until_in_sync("t")
    eventually(lambda: local_starts(cluster, 0), until=lambda found: found[0] == found[1] == {active})
    epochs = [
        (cluster.directory / f"broker-{number}" / "data" / "t-0" / "leader-epoch-checkpoint").read_text()
        for number in range(2)
    ]
    assert epochs[0] == epochs[1]
    assert cluster.move_leader("t").node_id == 1 - leader
    fill(cluster, 0, 10, 10)
    with client_of(cluster, 0) as client:
        eventually(lambda: client.special("t"), until=lambda special: special[4] > int(active[:20]) + 3)
        assert client.bounds("t") == (0, 20)
        assert client.values("t") == [b"%d" % number * 200 for number in range(20)]
    assert f"t-0 continues at offset {int(active[:20])}" in cluster.brokers[1 - leader].log
    for each in cluster.brokers:
        assert "Traceback" not in each.log
