"""Quotas from the socket on: throttle times in responses.

A throttled client is not served meanwhile and loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.access.quotas.client_quotas import ClientLimits, ClientQuotas
from broker.access.quotas.rate import Rate
from broker.access.quotas.throttling import Charge
from metadata.delta import Delta
from metadata.image import MetadataImage
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.messages.share_fetch import SHARE_FETCH
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from tests.support.data_broker import TOPIC_ID
from tests.support.fake_loop import FakeLoop
from tests.support.network import answers_in, request_frame
from tests.support.one_connection import OneConnection

ENTITY = (("user", None),)
WINDOWS = {
    "quota.window.num": 11,
    "quota.window.size.seconds": 1,
    "controller.quota.window.num": 11,
    "controller.quota.window.size.seconds": 1,
}


class Throttled(OneConnection):
    """One connection, with quotas for its clients."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.broker.topic()
        self.image = MetadataImage()
        config: Any = SimpleNamespace(get_int=WINDOWS.__getitem__)
        self._set = lambda quotas: setattr(self.server.dispatcher, "quotas", quotas)
        self.quotas = ClientQuotas(config, self.image, self.broker.clock, self._set)

    def limit(self, **quotas: float) -> None:
        self.image.client_quotas[ENTITY] = quotas
        self.quotas.on_change(Delta(changed_quotas=True))

    def produce(self, size: int = 100, **fields: Any) -> Struct:
        return self.call(PRODUCE, 13, **produced(size, **fields))

    def fetch(self, max_bytes: int = 1 << 20, **fields: Any) -> Struct:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
        topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])]
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": max_bytes, "topics": topics} | fields
        return self.call(FETCH, 16, **fields)

    def send(self, *frames: bytes) -> None:
        self.client.sendall(b"".join(frames))
        self.readable()

    def received(self) -> bytes:
        self.client.setblocking(False)
        try:
            return self.client.recv(1 << 20)
        except BlockingIOError:
            return b""


def produced(size: int, acks: int = 1) -> dict[str, Any]:
    batch = BatchBuilder()
    batch.append(1, None, bytes(size))
    data = PartitionProduceData(index=0, records=batch.build())
    return {
        "acks": acks,
        "timeout_ms": 1000,
        "topic_data": [TopicProduceData(topic_id=TOPIC_ID, partition_data=[data])],
    }


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Throttled]:
    with Throttled(tmp_path) as link:
        yield link


def test_a_producer_over_its_quota_is_throttled(link: Throttled) -> None:
    """Its records are appended and acknowledged. The next request is served when the throttle time ends, not before."""
    link.limit(producer_byte_rate=100.0)
    assert link.produce(100).throttle_time_ms == 0
    answer = link.produce(3000)
    assert answer.throttle_time_ms > 10_000
    assert answer.responses[0].partition_responses[0].base_offset == 1
    link.send(request_frame(PRODUCE, 13, 7, **produced(1)), request_frame(PRODUCE, 13, 8, **produced(1)))
    link.loop.advance(answer.throttle_time_ms - 1)
    assert link.received() == b""
    link.loop.advance(1)
    assert [number for number, _ in answers_in(link.received(), [(PRODUCE, 13)] * 2)] == [7, 8]


def test_requests_behind_the_one_over_the_quota_wait_too(link: Throttled) -> None:
    link.limit(producer_byte_rate=100.0)
    link.send(*(request_frame(PRODUCE, 13, number, **produced(3000)) for number in (1, 2)))
    assert [number for number, _ in answers_in(link.received(), [(PRODUCE, 13)])] == [1]
    link.loop.advance(200_000)
    assert [number for number, _ in answers_in(link.received(), [(PRODUCE, 13)])] == [2]


def test_without_a_response_the_throttle_time_is_the_same(link: Throttled) -> None:
    link.limit(producer_byte_rate=100.0)
    link.send(request_frame(PRODUCE, 13, 1, **produced(3000, acks=0)), request_frame(PRODUCE, 13, 2, **produced(1)))
    assert link.received() == b""
    link.loop.advance(60_000)
    assert [number for number, _ in answers_in(link.received(), [(PRODUCE, 13)])] == [2]


def test_a_consumer_over_its_quota_gets_an_empty_response(link: Throttled) -> None:
    """That fetch is not charged, so the same fetch is served after the throttle time. The session continues."""
    for _ in range(3):
        link.produce(600)
    link.limit(consumer_byte_rate=100.0)
    opened = link.fetch(700, session_id=0, session_epoch=0)
    assert len(opened.responses) == 1
    assert opened.throttle_time_ms == 0
    refused = link.fetch(700, session_id=opened.session_id, session_epoch=1)
    assert refused.throttle_time_ms > 0
    assert (refused.error_code, refused.session_id, refused.responses) == (0, opened.session_id, [])
    link.loop.advance(60_000)
    again = link.fetch(700, session_id=opened.session_id, session_epoch=2)
    assert len(again.responses[0].partitions[0].records) > 600


def test_a_full_fetch_over_the_quota_opens_no_session(link: Throttled) -> None:
    link.produce(600)
    link.limit(consumer_byte_rate=100.0)
    link.fetch(session_id=0, session_epoch=-1)
    refused = link.fetch(session_id=0, session_epoch=0)
    assert (refused.throttle_time_ms > 0, refused.session_id, refused.responses) == (True, 0, [])
    assert len(link.broker.fetch_sessions) == 0


def test_a_batch_larger_than_all_windows_is_sent_if_first(link: Throttled) -> None:
    """Its client is throttled afterwards. Before, it would wait for ever."""
    link.produce(5000)
    link.limit(consumer_byte_rate=10.0)
    answer = link.fetch()
    assert len(answer.responses[0].partitions[0].records) > 5000
    assert answer.throttle_time_ms > 60_000


def test_no_fetch_is_larger_than_the_quota_windows(link: Throttled) -> None:
    for _ in range(5):
        link.produce(600)
    link.limit(consumer_byte_rate=100.0)
    answer = link.fetch()
    assert 600 < len(answer.responses[0].partitions[0].records) <= 1000
    assert answer.throttle_time_ms == 0


def test_the_time_of_any_request_is_charged(link: Throttled) -> None:
    """At most one window at a time."""
    link.limit(request_percentage=0.000001)
    answer = link.call(LIST_OFFSETS, 10, topics=[])
    assert answer.throttle_time_ms == 1000


def test_a_waiting_fetch_is_not_charged_for_its_wait(link: Throttled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four seconds out of ten would be 40 per cent."""
    monkeypatch.setattr(
        "broker.access.quotas.throttling.perf_counter_ns", lambda: link.loop.clock.monotonic_ms() * 1_000_000
    )
    link.limit(request_percentage=20.0)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])]
    link.send(request_frame(FETCH, 16, 1, max_wait_ms=5000, min_bytes=1, max_bytes=1000, topics=topics))
    link.loop.advance(4000)
    assert link.received() == b""
    link.broker.call(PRODUCE, 13, **produced(100))
    link.loop.settle()
    ((_, answer),) = answers_in(link.received(), [(FETCH, 16)])
    assert len(answer.responses[0].partitions[0].records) > 100
    assert answer.throttle_time_ms == 0


def test_a_quota_of_another_kind_does_not_throttle(link: Throttled) -> None:
    link.limit(controller_mutation_rate=1.0)
    assert link.produce(10_000).throttle_time_ms == 0
    assert link.fetch().throttle_time_ms == 0


def test_responses_without_throttle_time_are_throttled_too(link: Throttled) -> None:
    """Versions before KIP-124 have no field for it."""
    link.limit(request_percentage=0.000001)
    link.send(request_frame(LIST_OFFSETS, 1, 1, topics=[]), request_frame(LIST_OFFSETS, 1, 2, topics=[]))
    assert [number for number, _ in answers_in(link.received(), [(LIST_OFFSETS, 1)])] == [1]
    link.loop.advance(1000)
    assert [number for number, _ in answers_in(link.received(), [(LIST_OFFSETS, 1)])] == [2]


@pytest.mark.parametrize("waits_ms", [(5000, 1000), (1000, 5000)])
def test_of_two_throttle_times_the_later_end_counts(link: Throttled, waits_ms: tuple[int, int]) -> None:
    """Requests that are answered one after the other may each have a throttle time."""
    for wait_ms in waits_ms:
        link.connection.throttle(wait_ms)
    link.send(request_frame(LIST_OFFSETS, 10, 1, topics=[]))
    link.loop.advance(4999)
    assert link.received() == b""
    link.loop.advance(1)
    assert [number for number, _ in answers_in(link.received(), [(LIST_OFFSETS, 10)])] == [1]


def test_acquired_share_records_are_sent_and_charged() -> None:
    """The member of the share group is throttled afterwards."""
    waits: list[int] = []
    connection: Any = SimpleNamespace(throttle=waits.append)
    limits = ClientLimits(None, Rate(100.0, 11, 1000), None, None)
    for _ in range(2):
        charge = Charge(FakeLoop().clock, connection, limits, SHARE_FETCH, 1)
        charge.count_fetched(1_000)
        reply = charge.settle(SHARE_FETCH.response())
    assert waits == [reply.throttle_time_ms] == [10_000]
