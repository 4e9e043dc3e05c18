"""The records that a follower's log refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.followed_log import DamagedRecords
from tests.support.producing import batch
from tests.unit.broker.replication.replica_pair import ReplicaPair, content

_EPOCH = slice(12, 16)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaPair]:
    made = ReplicaPair(tmp_path)
    yield made
    made.close()


def test_records_of_an_earlier_epoch_are_refused(pair: ReplicaPair) -> None:
    """A leader that has lost its role may read them after it has checked the fetch (KAFKA-18723)."""
    pair.leader.produce(batch(3), acks=1)
    pair.follow()
    pair.leader.produce(batch(3), acks=1)
    following = bytearray(content(pair.leader.partition.log)[len(content(pair.log)) :])
    following[_EPOCH] = (3).to_bytes(4, "big")
    with pytest.raises(DamagedRecords, match="The batch of epoch 3 at offset 3 does not follow epoch 4"):
        pair.followed.append(memoryview(following), 5)
    assert pair.log.log_end_offset == 3
    following[_EPOCH] = (5).to_bytes(4, "big")
    pair.followed.append(memoryview(following), 5)
    assert (pair.log.log_end_offset, pair.followed.latest_epoch) == (6, 5)


def test_a_truncation_is_logged(pair: ReplicaPair, caplog: pytest.LogCaptureFixture) -> None:
    """The records are lost to those who wrote them with acks=1; a truncation that removes nothing is silent."""
    for _ in range(2):
        pair.leader.produce(batch(3), acks=1)
        pair.follow()
    with caplog.at_level("INFO"):
        pair.followed.truncate(6)
        assert caplog.messages == []
        pair.followed.truncate(3)
    (line,) = caplog.messages
    assert line.startswith(f"Truncating {pair.followed.topic}-0 from offset 6 to 3")
