"""Users without read access to a topic get none of its records, whatever session it is in."""

from __future__ import annotations

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
    """Share fetches are authorized: `readers` may use the group and read its topic."""

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


pytestmark = pytest.mark.broker(Guarded, SETTINGS)


@pytest.fixture
def member(broker: Guarded) -> ShareMemberClient:
    """Alice's member of the group, which starts at the first record. She has read access."""
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


def test_session_continues_without_read_access(broker: Guarded, member: ShareMemberClient):
    """Access is checked at each fetch, also without topics in the request, so it can be granted again."""
    assert member.acquire(wait_ms=0, most=5, mode=1) == [(0, 4, 1)]
    broker.let()
    assert member.share_fetch(wait_ms=0) == REFUSED
    broker.let("alice")
    assert member.acquire(wait_ms=0) == [(5, 9, 1)]


def test_session_of_another_user_returns_nothing(broker: Guarded, member: ShareMemberClient):
    """The other user knows the member id."""
    assert member.acquire(wait_ms=0, most=5, mode=1) == [(0, 4, 1)]
    as_user(member, "mallory")
    assert member.share_fetch(wait_ms=0) == REFUSED


def test_session_opens_without_read_access(broker: Guarded, member: ShareMemberClient):
    """Without a session, the client's session epoch would differ."""
    broker.let()
    assert member.share_fetch(wait_ms=0) == REFUSED
    assert member.share_fetch(wait_ms=0) == REFUSED


def test_waiting_fetch_is_authorized_again(broker: Guarded, member: ShareMemberClient):
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


def test_acknowledgements_are_authorized(broker: Guarded, member: ShareMemberClient):
    """Alone or with a fetch. The session continues."""
    member.acquire(wait_ms=0)
    broker.let()
    assert member.acknowledge((0, 4, [1])) == "NONE ['0 TOPIC_AUTHORIZATION_FAILED None']"
    answer = member.share_fetch((0, 4, [1]), wait_ms=0)
    assert "0 TOPIC_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED" in answer
    broker.let("alice")
    assert member.acknowledge((0, 4, [1])) == "NONE ['0 NONE None']"
