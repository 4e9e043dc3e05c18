"""Sessions of share groups: partitions in responses, and requests with errors."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.share_fetch import SHARE_FETCH
from tests.support.share_broker import ShareBroker, ShareMemberClient
from tests.support.share_requests import NOTHING, acknowledge, fetch, fetch_of


def test_acknowledgements_are_answered_by_partition(broker: ShareBroker, member: ShareMemberClient):
    """A partition without acknowledgements is in the response if it has records or an error."""
    broker.fill(5)
    member.acquire(wait_ms=0)
    own, other = member.topic_id, b"some other topic"
    assert acknowledge(member, 1, {own: {0: []}}) == "NONE []"
    assert acknowledge(member, 2, {own: {0: [], 7: []}, other: {0: [(5, 1, [1])]}}) == (
        "NONE ['other-0 UNKNOWN_TOPIC_ID', 'own-7 UNKNOWN_TOPIC_OR_PARTITION']"
    )
    broker.create("second")
    second = broker.partition("second").topic_id
    assert acknowledge(member, 3, {own: {0: [(0, 0, [1])]}, second: {0: []}}) == ("NONE ['other-0 NONE', 'own-0 NONE']")


def test_sessions_continue_after_invalid_requests(broker: ShareBroker, member: ShareMemberClient):
    own = member.topic_id
    assert fetch(member, 0, {own: {0: []}}, is_renew_ack=True, **NOTHING) == "NONE []"
    assert fetch(member, 1, {}, share_acquire_mode=9) == "UNKNOWN_SERVER_ERROR []"
    assert fetch(member, 2, {}, max_wait_ms=0) == "NONE ['own-0 NONE NONE []']"  # not yet in the session
    assert fetch(member, 3, {}, max_wait_ms=0) == "NONE []"
    assert fetch(member, -1, {}, share_acquire_mode=9) == "NONE []"


def test_partitions_of_all_sessions_are_bounded(
    broker: ShareBroker, member: ShareMemberClient, monkeypatch: pytest.MonkeyPatch
):
    """A session without room starts again, and its records go to others. Other sessions continue."""
    monkeypatch.setattr("broker.coordinators.share.sessions.MOST_PARTITIONS", 3)
    sessions = broker.share_partitions.sessions
    broker.fill(5)
    other = broker.member("other")
    assert fetch(other, 0, {b"nobody's topics!": {0: []}}, max_wait_ms=0).startswith("NONE")
    assert member.acquire(wait_ms=0)
    assert fetch(member, 1, {b"nobody's topics!": {0: []}}, max_wait_ms=0).startswith("NONE")

    broker.connection = member.connection
    refused = broker.send(SHARE_FETCH, 2, **fetch_of(member, 2, {b"nobody's topics!": {1: [], 2: []}}, max_wait_ms=100))
    assert refused is not None
    broker.advance(100)
    assert refused.result().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 1
    assert fetch(member, 3, {}, max_wait_ms=0) == "SHARE_SESSION_NOT_FOUND []"
    assert fetch(other, 1, {}, max_wait_ms=0).startswith("NONE")
    assert fetch(member, 0, {member.topic_id: {0: []}}, max_wait_ms=0).startswith("NONE ['own-0")


def test_partition_error_does_not_end_the_wait_for_others(broker: ShareBroker, member: ShareMemberClient):
    member.acquire(wait_ms=0)
    asked = fetch_of(member, 1, {member.topic_id: {9: []}}, max_wait_ms=500)
    broker.connection = member.connection
    waiting = broker.send(SHARE_FETCH, 2, **asked)
    broker.settle()
    assert waiting is not None
    assert not waiting.done
    broker.fill(1)
    broker.settle()
    [topic] = broker.received(SHARE_FETCH, 2, waiting).responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(9, 3), (0, 0)]
    expected = "NONE ['own-9 UNKNOWN_TOPIC_OR_PARTITION NONE []']"
    assert fetch(member, 2, {}, [0], max_wait_ms=500) == expected  # nothing else arrives


def test_zero_max_bytes_does_not_wait(broker: ShareBroker, member: ShareMemberClient):
    member.acquire(wait_ms=0)
    assert fetch(member, 1, {}, min_bytes=0) == "NONE []"
