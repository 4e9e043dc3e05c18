"""Entries that a coordinator removes by itself: logged once removed, and flushed like other writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.support.disk_doubles.slow_disk import SlowDisk
from tests.support.txn_broker import TxnBroker

WEEK_MS = 604_800_000
T0 = ("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    """A transactional id, and a group with an offset, both unused for long."""
    settings = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    made = TxnBroker(tmp_path, settings | {"log.flush.interval.messages": "1"})
    made.create("t")
    client = made.client
    assert client.init("x") == "NONE P0 0"
    assert client.commit_offset("x", ("P0", 0), "g", T0, 5, version=5) == "NONE"
    assert client.end("x", ("P0", 0), True, 5) == "NONE P0 1"
    made.clock.advance(WEEK_MS)
    yield made
    made.close()


def remove(broker: TxnBroker, topic: str) -> None:
    if topic == TRANSACTION_STATE:
        broker.transactions._remove_expired()
    else:
        broker.groups._expire()
    broker.settle()  # removal takes several turns


@pytest.mark.parametrize("topic", [TRANSACTION_STATE, CONSUMER_OFFSETS])
def test_failed_removal_is_not_logged(broker: TxnBroker, caplog: pytest.LogCaptureFixture, topic: str):
    caplog.set_level("INFO")
    partition = broker.partition(topic)
    replicas, partition.isr = partition.isr, ()
    remove(broker, topic)
    assert "Removed" not in caplog.text
    partition.isr = replicas
    remove(broker, topic)
    assert f"from {topic}-0" in caplog.text
    assert broker.client.describe("x").startswith("TRANSACTIONAL_ID" if topic == TRANSACTION_STATE else "Complete")
    assert broker.client.committed_offset("g", T0) == ("NONE -1" if topic == CONSUMER_OFFSETS else "NONE 5")


@pytest.mark.parametrize("topic", [TRANSACTION_STATE, CONSUMER_OFFSETS])
def test_removals_are_flushed(broker: TxnBroker, topic: str):
    slow = SlowDisk(broker, topic)
    remove(broker, topic)
    assert len(slow) == (2 if topic == CONSUMER_OFFSETS else 1)  # the offset, then the group


def test_offsets_removed_with_their_topic_are_flushed(broker: TxnBroker):
    slow = SlowDisk(broker, CONSUMER_OFFSETS)
    topic_id = broker.partitions.topic_id("t")
    assert topic_id is not None
    broker.groups.topic_deleted("t", topic_id)
    assert len(slow) == 1
    slow.release()
    assert broker.client.committed_offset("g", T0) == "NONE -1"
