"""Producer ids, from blocks that the metadata log reserves."""

from __future__ import annotations

import pytest

from broker.coordinators.transaction.producer_ids import BLOCK_SIZE, ProducerIds
from runtime.deferred import Deferred
from tests.support.controllers import ControllerHarness


class Blocks:
    """Reserves blocks when the test triggers it."""

    def __init__(self) -> None:
        self.asked: list[Deferred[int]] = []

    def __call__(self, count: int) -> Deferred[int]:
        self.asked.append(Deferred())
        return self.asked[-1]


def test_ids_come_from_a_block_until_it_is_used_up():
    """Concurrent requests wait for the same block."""
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    given: list[int] = []
    for _ in range(3):
        producer_ids.replenish().add_done_callback(lambda _: given.append(producer_ids.next()))
    assert not producer_ids.available
    assert len(blocks.asked) == 1

    blocks.asked[0].resolve(5000)
    assert given == [5000, 5001, 5002]
    rest = [producer_ids.next() for _ in range(BLOCK_SIZE - 3)]
    assert rest[-1] == 5999
    assert not producer_ids.available


def test_more_waiters_than_ids_need_a_second_block():
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    given: list[int] = []
    for _ in range(BLOCK_SIZE + 1):
        producer_ids.replenish().add_done_callback(lambda _: given.append(producer_ids.next()))
    blocks.asked[0].resolve(0)
    assert len(given) == BLOCK_SIZE

    blocks.asked[1].resolve(1000)
    assert given[-1] == 1000


def test_failed_reservation_fails_all_waiters():
    """The next request tries again."""
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    waiting = [producer_ids.replenish() for _ in range(2)]
    blocks.asked[0].fail(OSError("disk"))

    for deferred in waiting:
        with pytest.raises(OSError, match="disk"):
            deferred.result()
    producer_ids.replenish()
    assert len(blocks.asked) == 2


def test_blocks_are_reserved_once():
    """The log has the next block's start, also for later starts."""
    harness = ControllerHarness()
    harness.producer_ids.replenish().result()
    first = harness.producer_ids.next()

    assert first == 0
    assert harness.controller.image.next_producer_id == 1000
    assert harness.controller.allocate_producer_ids(1000).result() == 1000
