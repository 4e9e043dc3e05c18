"""A round of fetching costs what has changed, however many partitions are followed."""

from __future__ import annotations

from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from replication.following import Fetcher
from tests.unit.replication.bytecodes import bytecodes
from tests.unit.replication.doubles import MemoryLog

TOPIC = bytes(range(16))


def cost(count: int) -> int:
    """Return the bytecodes of a round in which one of `count` partitions gets a record."""
    fetcher, now_ms, offset = Fetcher(2, 202), 0, 0
    for index in range(count):
        fetcher.add((TOPIC, index), MemoryLog(), 5)

    def round_of_one() -> None:
        nonlocal offset
        assert fetcher.resetting() == []
        assert fetcher.next_request(now_ms) is not None
        records = memoryview(b"").cast("B")
        data = PartitionData(
            partition_index=1, high_watermark=offset, log_start_offset=0, last_stable_offset=0, records=records
        )
        topic = FetchableTopicResponse(topic_id=TOPIC, partitions=[data])
        fetcher.answered(FETCH.response(session_id=7, responses=[topic]), now_ms)
        fetcher.wakes_at_ms()
        offset += 1

    round_of_one()
    round_of_one()
    return bytecodes(round_of_one)


def test_idle_partitions_cost_nothing() -> None:
    assert cost(1000) == cost(3)
