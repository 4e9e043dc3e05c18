"""Delegation tokens, as both brokers serve them: each error in its order. Tools: `test_security_tools.py`."""

from __future__ import annotations

import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.create_acls import CREATE_ACLS, AclCreation
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN, CreatableRenewers
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenOwner
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.messages.renew_delegation_token import RENEW_DELEGATION_TOKEN
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Api, Struct
from security.acl import Operation, ResourceType
from security.sasl.scram_credential import ScramMechanism
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain, scram_final
from tests.support.wire import WireClient

MECHANISM = ScramMechanism.SCRAM_SHA_256
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = ("admin", "alice", "bob", "carol", "dave")
BOB = CreatableRenewers(principal_type="User", principal_name="bob")
LATEST_MS = 2**63 - 1
_MINUTE_MS = 60_000


class Secured:
    """A broker with a listener for authenticated clients, and another without authentication."""

    def __init__(self, kind: str, directory: Path) -> None:
        port, self.open_port, quorum = free_port(), free_port(), free_port()
        clients = f"CLIENTS://{HOST}:{port},OPEN://{HOST}:{self.open_port}"
        users = " ".join(f'user_{name}="secret"' for name in USERS)
        self.properties = {
            "listeners": clients if kind == "ours" else f"{clients},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.clients.plain.sasl.jaas.config": f"{MODULE} required {users};",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }
        if kind == "kafka":
            self.properties["controller.quorum.voters"] = f"1@{HOST}:{quorum}"
        secret = {"delegation.token.secret.key": "of this cluster"}
        self.broker: RunningBroker = BROKERS[kind](directory, {**self.properties, **secret}, port=port)
        self._links = ExitStack()

    def by(self, user: str) -> WireClient:
        """Return a user's connection."""
        link = self._links.enter_context(WireClient(HOST, self.broker.port))
        assert log_in_plain(link, user, "secret").error_code == 0
        return link

    def by_token(self, token: Struct) -> WireClient:
        """Return a connection authenticated by a token."""
        link = self._links.enter_context(WireClient(HOST, self.broker.port))
        assert self.token_error(link, token) == 0
        return link

    @staticmethod
    def token_error(link: WireClient, token: Struct) -> int:
        """Return the error of a login by a token."""
        assert link.call(SASL_HANDSHAKE, 1, mechanism=MECHANISM.sasl_name).error_code == 0
        bare = f"n={token.token_id},r=clientnonce,tokenauth=true"
        first = link.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,{bare}".encode())
        if first.error_code:
            return int(first.error_code)
        password = b64encode(bytes(token.hmac)).decode()
        final = scram_final(MECHANISM, bare, bytes(first.auth_bytes), password)
        return int(link.call(SASL_AUTHENTICATE, 2, auth_bytes=final).error_code)

    def by_nobody(self) -> WireClient:
        """Return a connection without authentication."""
        return self._links.enter_context(WireClient(HOST, self.open_port))

    def close(self) -> None:
        """Close the connections."""
        self._links.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Secured]]:
    """Start our broker and Apache Kafka."""
    pair = [Secured(kind, tmp_path_factory.mktemp(kind)) for kind in ("ours", "kafka")]
    yield pair
    for each in pair:
        each.close()
        each.broker.kill()


class Story:
    """Requests to a broker and its answers; times are minutes since the token's creation."""

    def __init__(self, secured: Secured) -> None:
        self.told: dict[str, Any] = {}
        self.secured = secured

    def create(self, what: str, link: WireClient, version: int = 3, **fields: Any) -> Struct:
        """Create a token, and wait until every broker accepts it."""
        answer = link.call(CREATE_DELEGATION_TOKEN, version, **{"renewers": [], "max_lifetime_ms": -1, **fields})
        self._record(f"create v{version}: {what}", answer, answer.issue_timestamp_ms)
        if answer.error_code == 0:
            eventually(lambda: answer.token_id in ids(link))
        return answer

    def change(self, what: str, link: WireClient, api: Api, token: Struct | None, period_ms: int) -> None:
        period = {"renew_period_ms" if api is RENEW_DELEGATION_TOKEN else "expiry_time_period_ms": period_ms}
        code = b"of no token" if token is None else bytes(token.hmac)
        answer = link.call(api, 2, hmac=code, **period)
        self._record(f"{api.name} for {period_ms}: {what}", answer, token.issue_timestamp_ms if token else 0)

    def describe(self, what: str, link: WireClient, *owners: str, version: int = 3) -> None:
        wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        answer = link.call(DESCRIBE_DELEGATION_TOKEN, version, owners=wanted if owners != ("all",) else None)
        found = [
            (
                each.principal_name,
                each.token_requester_principal_name,
                tuple((one.principal_type, one.principal_name) for one in each.renewers),
                round((each.max_timestamp - each.issue_timestamp) / _MINUTE_MS),
                len(each.hmac),
                len(each.token_id),
            )
            for each in answer.tokens
        ]
        self.told[f"describe v{version}: {what}"] = (answer.error_code, Counter(found))

    def _record(self, what: str, answer: Struct, made_ms: int) -> None:
        told = {}
        for field in answer.struct_type.fields:
            value = getattr(answer, field.name)
            if field.name.endswith("_ms") and value > 0:
                value = round((value - made_ms) / _MINUTE_MS)
            elif field.name in ("token_id", "hmac"):
                value = len(value)
            told[field.name] = value
        assert what not in self.told
        self.told[what] = told


def tokens(secured: Secured) -> Story:
    """Run all cases, from the creation of tokens to their end."""
    story = Story(secured)
    alice, bob, carol, nobody = (*map(secured.by, USERS[1:4]), secured.by_nobody())
    token = story.create("with a renewer", alice, renewers=[BOB])
    for version in (1, 2):
        story.create("of an older version", carol, version)
    for ms in (0, 60_000, LATEST_MS, -5):
        story.create(f"for {ms}", alice, max_lifetime_ms=ms)
    group = CreatableRenewers(principal_type="Group", principal_name="bob")
    story.create("renewed by a group", alice, renewers=[BOB, group])
    owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    story.create("of another", alice, **owner)
    story.create("of another, renewed by a group", alice, renewers=[group], **owner)
    story.create("of one's own by name", alice, owner_principal_type="User", owner_principal_name="alice")
    allow(secured, "alice", (ResourceType.USER, "User:bob", Operation.CREATE_TOKENS))
    story.create("of another, who lets her", alice, **owner)

    for api in (RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN):
        for period_ms in (
            (_MINUTE_MS * 5, LATEST_MS, 0) if api is EXPIRE_DELEGATION_TOKEN else (-1, 0, 300_000, -5, LATEST_MS)
        ):
            short = story.create(f"to {api.name} for {period_ms}", alice, renewers=[BOB])
            story.change("owner", alice, api, short, period_ms)
        story.change("renewer", bob, api, token, _MINUTE_MS * 50)
        story.change("stranger", carol, api, token, -1)
        story.change("nobody's", carol, api, None, -1)
        over = story.create(f"for a moment, to {api.name}", alice, max_lifetime_ms=1)
        time.sleep(0.05)
        story.change("owner, when it is over", alice, api, over, 5)
        story.change("stranger, when it is over", carol, api, over, 5)

    for who, link in (("alice", alice), ("bob", bob), ("carol", carol), ("admin", secured.by("admin"))):
        for owners in (("all",), (), ("alice",), ("bob", "carol"), ("somebody",)):
            story.describe(f"{owners} by {who}", link, *owners)
    story.describe("of an older version", carol, "all", version=1)
    allow(secured, "carol", (ResourceType.USER, "User:bo", Operation.DESCRIBE_TOKENS), pattern=4)
    story.describe("by who may see bob's", carol, "all")
    allow(secured, "carol", (ResourceType.DELEGATION_TOKEN, str(token.token_id), Operation.DESCRIBE))
    story.describe("by who may see one", carol, "all")

    for who, link in (("by a token", secured.by_token(token)), ("over PLAINTEXT", nobody)):
        story.create(who, link, renewers=[group], **owner)
        story.change(who, link, RENEW_DELEGATION_TOKEN, None, -1)
        story.change(who, link, EXPIRE_DELEGATION_TOKEN, None, -1)
        story.describe(who, link, "all")

    story.change("renewer, at once", bob, EXPIRE_DELEGATION_TOKEN, token, -1)
    eventually(lambda: token.token_id not in ids(alice))
    story.change("when it is gone", carol, EXPIRE_DELEGATION_TOKEN, token, -2)
    with WireClient(HOST, secured.broker.port) as link:
        story.told["login when it is gone"] = secured.token_error(link, token)
    return story


def allow(secured: Secured, user: str, *rights: tuple[ResourceType, str, Operation], pattern: int = 3) -> None:
    """Create ACLs, and wait until they are in force."""
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=3,
        )
        for kind, name, operation in rights
    ]
    admin = secured.by("admin")
    answer = admin.call(CREATE_ACLS, 3, creations=creations)
    assert [each.error_code for each in answer.results] == [0] * len(rights), answer
    any_acl: dict[str, Any] = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    any_acl |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}

    def told() -> set[tuple[int, str]]:
        return {(each.resource_type, each.resource_name) for each in admin.call(DESCRIBE_ACLS, 3, **any_acl).resources}

    eventually(lambda: {(kind, name) for kind, name, _ in rights} <= told())


def ids(link: WireClient) -> list[str]:
    """Return the ids of the tokens that a user may describe."""
    return [token.token_id for token in link.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens]


def test_both_brokers_treat_tokens_alike(both: list[Secured]) -> None:
    """Both brokers grant the same tokens and lifetimes, and return the same error where several apply."""
    ours, kafka = (tokens(each).told for each in both)
    assert {what: (ours[what], kafka[what]) for what in kafka if ours[what] != kafka[what]} == {}
