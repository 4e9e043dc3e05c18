"""A replicated log moves to another log directory: its high watermark stays. A broker that resigns ends the move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.moving_broker import BIG, Moving
from tests.unit.broker.replication.leading_broker import REGISTERED, LeadingBroker


class MovingLeader(Moving):
    """Leads t-0; the followers 2 and 3 have nothing yet."""

    lead = LeadingBroker.lead

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.partition.log.begin_replication(0)
        self.proposed: list[object] = []
        self.led = self.partition = self.lead(self.partition.log, REGISTERED)  # type: ignore[misc, assignment]

    def broker_epoch(self, broker_id: int) -> int | None:
        return 10 * broker_id

    def fetched(self, broker_id: int, offset: int) -> None:
        self.led.follower_fetched(broker_id, 10 * broker_id, offset, 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MovingLeader]:
    made = MovingLeader(tmp_path)
    yield made
    made.close()


def test_what_is_not_committed_stays_so(broker: MovingLeader) -> None:
    broker.append(b"1", b"2")
    for follower in (2, 3):
        broker.fetched(follower, 1)
    broker.send_to(1)
    broker.settle()
    assert broker.place == "data1"
    log = broker.partition.log
    assert (log.high_watermark, log.log_end_offset, log.replicated) == (1, 2, True)
    broker.append(b"3")
    assert log.high_watermark == 1
    for follower in (2, 3):
        broker.fetched(follower, 3)
    assert log.high_watermark == 3


def test_a_move_ends_when_another_broker_leads(broker: MovingLeader) -> None:
    """From then on a fetcher appends to the log."""
    broker.append(BIG)
    broker.copies.held = True
    broker.send_to(1)
    log = broker.partition.log
    broker.partitions.give_up(broker.partition)
    broker.copies.release()
    broker.settle()
    assert not log.closed
    assert broker.logs.logs["t", 0] is log
    assert broker.names() == ["data0/t-0"]
    assert log.cleaning is None
