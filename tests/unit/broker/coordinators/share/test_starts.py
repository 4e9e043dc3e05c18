"""A share group that starts at a timestamp within a batch that a background thread has to search."""

import pytest

from metadata.delete_topics import TopicReference
from protocol.messages.share_fetch import SHARE_FETCH
from tests.support.share_broker import ShareBroker, ShareMemberClient
from tests.support.share_requests import fetch_of

#: More records than are searched on the loop.
LARGE = 600


@pytest.fixture
def broker(broker: ShareBroker) -> ShareBroker:
    """A broker with an old batch of three records and a large new one."""
    broker.fill(3)
    broker.advance(120_000)
    broker.fill(LARGE)
    broker.workers.held = True
    return broker


@pytest.fixture
def member(broker: ShareBroker) -> ShareMemberClient:
    """A member of a group that starts at the first record of the last minute."""
    client = broker.member()
    client.configure(share_auto_offset_reset="by_duration:PT1M")
    return client.enter()


def test_fetch_waits_until_the_start_is_known(broker: ShareBroker, member: ShareMemberClient) -> None:
    """The start is looked up once and cached."""
    for _ in range(3):
        assert member.acquire(wait_ms=0, most=10) == []
        broker.advance(100)
    assert broker.workers.submitted == 1
    broker.workers.release()
    assert member.acquire(wait_ms=0, most=10) == [(3, LARGE + 2, 1)]
    assert broker.workers.submitted == 1


def test_waiting_fetches_are_answered_soon_after(broker: ShareBroker, member: ShareMemberClient) -> None:
    broker.loop.call_later(0.2, broker.workers.release)
    reply = broker.send(SHARE_FETCH, 2, **fetch_of(member, 0, {member.topic_id: {0: []}}, max_wait_ms=500))
    broker.advance(199)
    assert reply is not None
    assert not reply.done
    broker.advance(51)
    assert reply.done


def test_restarted_group_looks_its_start_up_again(broker: ShareBroker, member: ShareMemberClient) -> None:
    assert member.acquire(wait_ms=0, most=10) == []
    key = next(iter(broker.share_partitions._start_offsets._pending))
    broker.share_partitions.forget("g", key.topic_id, [1])
    assert key in broker.share_partitions._start_offsets._pending
    broker.share_partitions.forget("g", key.topic_id)
    broker.workers.release()
    broker.fill(1)
    assert member.acquire(wait_ms=0, most=10) == []
    assert broker.workers.submitted == 2


def test_deleted_topic_leaves_no_start(broker: ShareBroker, member: ShareMemberClient) -> None:
    assert member.acquire(wait_ms=0, most=10) == []
    broker.controller.delete_topics([TopicReference("t")])
    broker.settle()
    broker.workers.release()
    assert not broker.share_partitions._start_offsets._pending
    assert "UNKNOWN_TOPIC_ID" in member.share_fetch(wait_ms=0)


def test_failed_look_up_is_an_error(broker: ShareBroker, member: ShareMemberClient) -> None:
    assert member.acquire(wait_ms=0, most=10) == []
    broker.partition("t").log.close_files()
    broker.workers.release()
    assert "KAFKA_STORAGE_ERROR" in member.share_fetch(wait_ms=0)
