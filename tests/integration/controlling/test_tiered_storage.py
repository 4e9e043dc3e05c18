"""Tiered storage of a replicated topic: each member can lead it, also one that never had its oldest records."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.controlling.own_controller import QUIET, OwnCluster
from tests.integration.controlling.test_cluster import read_all
from tests.integration.controlling.tiered_cluster import TOPIC, offsets, tiered_cluster
from tests.support.eventually import eventually
from tests.support.tiered_client import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    cluster = tiered_cluster(tmp_path)
    yield cluster
    cluster.close()


def produce(cluster: OwnCluster, topic: str, numbers: range) -> None:
    """Produce a batch for each number; on return, all in-sync replicas have it."""
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, str(number).zfill(300))
        assert producer.flush(60) == 0


def offset(cluster: OwnCluster, topic: str, at: int, time: int) -> int:
    answer = offsets(cluster, topic, at, time)[0]
    return int(answer.split()[0]) if not answer.startswith("code") else -1


def leader(cluster: OwnCluster, topic: str, at: int) -> int:
    return cluster.leaders(topic, at)[0]


def await_tiered(cluster: OwnCluster, topic: str, at: int, count: int) -> None:
    """Wait until so many records are in remote storage alone."""
    eventually(
        lambda: offset(cluster, topic, at, EARLIEST_LOCAL) >= count,
        lambda: (
            f"{offsets(cluster, topic, at, EARLIEST, LATEST_TIERED, EARLIEST_LOCAL, LATEST)}\n"
            + "\n".join(each.output for each in cluster.members.values())
        ),
        timeout_s=60,
    )


@pytest.mark.full_size  # half a minute; tests/integration/membership has a smaller one
def test_wiped_member_leads_both_tiers(cluster: OwnCluster) -> None:
    """It gets leader epochs and producers from remote storage, and copies on where the last leader stopped.

    Killed as soon as it has them, it still knows where the log starts.
    """
    cluster.create("t", **TOPIC)
    first = leader(cluster, "t", 1)
    produce(cluster, "t", range(20))
    await_tiered(cluster, "t", first, 12)
    wiped = first % 3 + 1
    cluster.members[wiped].kill()
    shutil.rmtree(cluster.members[wiped].log_dir)
    produce(cluster, "t", range(20, 24))
    cluster.members[wiped].start()
    eventually(lambda: wiped in cluster.isr("t", first)[0], lambda: cluster.members[wiped].output, timeout_s=60)
    cluster.members[wiped].kill()
    cluster.members[wiped].start()
    eventually(lambda: wiped in cluster.isr("t", first)[0], lambda: cluster.members[wiped].output, timeout_s=60)
    log = Path(cluster.members[wiped].log_dir, "t-0")
    assert min(int(each.stem) for each in log.glob("*.log")) >= 12, "older records come from remote storage"
    for each in {1, 2, 3} - {wiped}:
        cluster.members[each].kill()
        if each == 1:
            eventually(lambda: leader(cluster, "t", wiped) != 1, timeout_s=60)
    eventually(lambda: leader(cluster, "t", wiped) == wiped, timeout_s=60)
    assert read_all(cluster, "t", 24) == list(range(24))
    produce(cluster, "t", range(24, 40))
    await_tiered(cluster, "t", wiped, 30)
    assert read_all(cluster, "t", 40) == list(range(40))
    assert offset(cluster, "t", wiped, EARLIEST) == 0
    assert not [each for each in cluster.members.values() if "Traceback" in each.output]
