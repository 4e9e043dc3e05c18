"""Who may not read a topic is given none of its records, whenever and by whomever it was put into a share session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access.authorization.guard import Guard
from protocol.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from protocol.messages.share_fetch import SHARE_FETCH
from security.acl import Acl, Operation, PatternType, Permission, ResourceType
from security.authorizer import Authorizer
from tests.support.offered import handler_of
from tests.support.share_broker import SETTINGS, FakeConnection, ShareBroker, ShareMemberClient

REFUSED = "NONE 30000 ['0 TOPIC_AUTHORIZATION_FAILED NONE None [] 0']"


class Guarded(ShareBroker):
    """Its share fetches are asked about: `readers` may use the group and read its topic."""

    def protect(self) -> None:
        self.authorizer = Authorizer()
        self.guard = Guard(self.authorizer, self.metadata)  # type: ignore[assignment]
        for api in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            implementation = self.served[api.key].load()
            protected = self.guard.protect(api, handler_of(self, api))
            self.served[api.key].implementation = implementation._replace(handler=protected)

    def let(self, *readers: str) -> None:
        may = [(ResourceType.GROUP, "g", "User:*"), *((ResourceType.TOPIC, "t", f"User:{name}") for name in readers)]
        self.authorizer.load(
            Acl(kind, name, PatternType.LITERAL, who, "*", Operation.READ, Permission.ALLOW) for kind, name, who in may
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path, SETTINGS)
    made.create("t")
    yield made
    made.close()


@pytest.fixture
def member(broker: Guarded) -> ShareMemberClient:
    """Alice's, in the group, which begins with the first record. She may read."""
    client = broker.member()
    client.configure(share_auto_offset_reset="earliest")
    client.enter()
    broker.fill(10)
    broker.protect()
    broker.let("alice")
    as_user(client, "alice")
    return client


def as_user(client: ShareMemberClient, name: str) -> None:
    client.connection = FakeConnection()
    client.connection.principal = f"User:{name}"  # type: ignore[attr-defined]


def test_a_session_goes_on_without_a_topic_that_may_not_be_read_any_more(broker: Guarded, member: ShareMemberClient):
    """It is asked about at each fetch, also at those that name no topic; and again when it may be read again."""
    assert member.acquire(wait_ms=0, most=5, mode=1) == [(0, 4, 1)]
    broker.let()
    assert member.share_fetch(wait_ms=0) == REFUSED
    broker.let("alice")
    assert member.acquire(wait_ms=0) == [(5, 9, 1)]


def test_somebody_else_s_session_gives_nothing(broker: Guarded, member: ShareMemberClient):
    """Whoever has found out the member's id."""
    assert member.acquire(wait_ms=0, most=5, mode=1) == [(0, 4, 1)]
    as_user(member, "mallory")
    assert member.share_fetch(wait_ms=0) == REFUSED


def test_a_session_is_opened_with_a_topic_that_may_not_be_read(broker: Guarded, member: ShareMemberClient):
    """So that the client's count of its requests stays right."""
    broker.let()
    assert member.share_fetch(wait_ms=0) == REFUSED
    assert member.share_fetch(wait_ms=0) == REFUSED


def test_a_fetch_that_waits_is_asked_about_again(broker: Guarded, member: ShareMemberClient):
    member.acquire(wait_ms=0)
    fields = {"group_id": "g", "member_id": "member", "share_session_epoch": 1, "max_wait_ms": 500, "min_bytes": 1}
    fields |= {"max_bytes": 1 << 20, "max_records": 500, "batch_size": 500, "topics": []}
    broker.connection = member.connection
    waiting = broker.send(SHARE_FETCH, 2, **fields)
    broker.let()
    broker.fill(1)
    broker.settle()
    assert waiting is not None
    [topic] = broker.received(SHARE_FETCH, 2, waiting).responses
    assert [(each.error_code, len(each.records)) for each in topic.partitions] == [(29, 0)]


def test_acknowledgements_are_asked_about(broker: Guarded, member: ShareMemberClient):
    """Alone, or with a fetch; the session goes on all the same."""
    member.acquire(wait_ms=0)
    broker.let()
    assert member.acknowledge((0, 4, [1])) == "NONE ['0 TOPIC_AUTHORIZATION_FAILED None']"
    told = member.share_fetch((0, 4, [1]), wait_ms=0)
    assert "0 TOPIC_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED" in told
    broker.let("alice")
    assert member.acknowledge((0, 4, [1])) == "NONE ['0 NONE None']"
