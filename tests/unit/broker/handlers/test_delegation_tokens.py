"""The four APIs of delegation tokens, and SCRAM logins with a token."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.handlers.create_delegation_token import create_delegation_token
from broker.handlers.describe_delegation_token import describe_delegation_token
from broker.handlers.expire_delegation_token import expire_delegation_token
from broker.handlers.renew_delegation_token import renew_delegation_token
from broker.requests.binding import bind
from protocol.error_codes import ErrorCode
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN, CreatableRenewers
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenOwner
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.messages.renew_delegation_token import RENEW_DELEGATION_TOKEN
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from security.delegation_token import token_hmac, token_password
from security.sasl.exchange_protocol import InvalidCredentials
from security.sasl.scram import ScramExchange
from security.sasl.scram_credential import ScramMechanism
from tests.support.controllers import ControllerHarness, answered
from tests.support.offered import Offered
from tests.support.sasl import scram_final

MECHANISM = ScramMechanism.SCRAM_SHA_512
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class Tokens:
    """Clients of SASL_SSL that request tokens."""

    def __init__(self, secret: str | None = "secret of this cluster") -> None:
        keys = {"delegation.token.secret.key": secret} if secret is not None else {}
        self.harness = ControllerHarness(keys | {"delegation.token.expiry.check.interval.ms": "1000"})
        self.harness.broker.clock = self.harness.loop.clock
        self.begin_again()
        self.tokens.start()

    def begin_again(self) -> None:
        broker = self.harness.broker
        broker.delegation_tokens = self.tokens = DelegationTokens(
            self.harness.config, self.harness.metadata, self.harness.controller, broker.clock, broker.timers
        )

    def ask(self, handler: Any, api: Any, version: int, user: str, *, peer: Any = None, **fields: Any) -> Struct:
        connection = {"principal": f"User:{user}", "security_protocol": "SASL_SSL", "token_authenticated": False}
        peer = SimpleNamespace(**connection | (peer or {}))
        ctx = SimpleNamespace(connection=peer, api=api, api_version=version)
        request, _ = api.request.decode(version, api.request.encode(version, api.request(**fields)))
        return answered(api, version, bind(handler, Offered(self.harness.broker))(ctx, request))

    def create(self, user: str = "alice", *, owner: str | None = None, **of: Any) -> Struct:
        renewers = [CreatableRenewers(principal_type=of.pop("renewer_type", "User"), principal_name="carol")]
        owned = {"owner_principal_type": "User" if owner else None, "owner_principal_name": owner}
        return self.ask(
            create_delegation_token,
            CREATE_DELEGATION_TOKEN,
            3,
            user,
            renewers=renewers,
            max_lifetime_ms=-1,
            **owned,
            **of,
        )

    def described(self, user: str, *owners: str, **of: Any) -> list[str]:
        """Return the token ids."""
        asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners] or None
        answer = self.ask(describe_delegation_token, DESCRIBE_DELEGATION_TOKEN, 3, user, owners=asked, **of)
        assert answer.error_code == 0
        return [each.token_id for each in answer.tokens]

    def renew(self, user: str, code: bytes, period_ms: int = -1, **of: Any) -> Struct:
        return self.ask(
            renew_delegation_token, RENEW_DELEGATION_TOKEN, 2, user, hmac=code, renew_period_ms=period_ms, **of
        )

    def expire(self, user: str, code: bytes, period_ms: int = -1, **of: Any) -> Struct:
        return self.ask(
            expire_delegation_token, EXPIRE_DELEGATION_TOKEN, 2, user, hmac=code, expiry_time_period_ms=period_ms, **of
        )

    def log_in(self, token_id: str, password: str, extension: str = ",tokenauth=true") -> ScramExchange:
        """Return the exchange after its last step. Raises InvalidCredentials."""
        find_token = lambda name: self.tokens.credential(MECHANISM, name)  # noqa: E731
        exchange = ScramExchange(MECHANISM, lambda _: None, b"secret", "server", find_token)
        bare = f"n={token_id},r=client{extension}"
        challenge = exchange.step(f"n,,{bare}".encode())
        exchange.step(scram_final(MECHANISM, bare, challenge, password))
        return exchange


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    return Tokens()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_newer_versions_report_the_requester_of_a_token(tokens: Tokens, version: int) -> None:
    """All versions report the owner."""
    made = tokens.ask(
        create_delegation_token, CREATE_DELEGATION_TOKEN, version, "alice", renewers=[], max_lifetime_ms=-1
    )
    (described,) = tokens.ask(
        describe_delegation_token, DESCRIBE_DELEGATION_TOKEN, version, "alice", owners=None
    ).tokens
    assert described.token_id == made.token_id
    for each in (made, described):
        assert (each.principal_type, each.principal_name) == ("User", "alice")
        assert each.token_requester_principal_name == ("alice" if version == 3 else "")


def test_a_token_is_created_and_described(tokens: Tokens) -> None:
    made = tokens.create(owner="alice", user="bob")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "bob")
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * 86_400_000
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == 86_400_000
    assert len(made.hmac) == 64
    answer = tokens.ask(describe_delegation_token, DESCRIBE_DELEGATION_TOKEN, 3, "carol", owners=None)
    (described,) = answer.tokens
    assert (described.token_id, bytes(described.hmac), described.renewers[0].principal_name) == (
        made.token_id,
        made.hmac,
        "carol",
    )


def test_a_token_authenticates_as_its_owner(tokens: Tokens) -> None:
    made = tokens.create()
    password = token_password(bytes(made.hmac))
    exchange = tokens.log_in(made.token_id, password)
    assert (exchange.user, exchange.by_token, exchange.expires_at_ms) == ("alice", True, made.expiry_timestamp_ms)
    for token_id, wrong, extension in (
        (made.token_id, "wrong", ",tokenauth=true"),
        ("another", password, ",tokenauth=true"),
        (made.token_id, password, ""),
        (made.token_id, password, ",tokenauth=false"),
    ):
        with pytest.raises(InvalidCredentials):
            tokens.log_in(token_id, wrong, extension)


def test_an_expired_token_is_rejected(tokens: Tokens) -> None:
    """The next sweep removes it."""
    made = tokens.create()
    password = token_password(bytes(made.hmac))
    assert tokens.renew("carol", made.hmac, 500).expiry_timestamp_ms == made.issue_timestamp_ms + 500
    tokens.harness.advance(501)
    assert tokens.described("alice") == [made.token_id]
    with pytest.raises(InvalidCredentials):
        tokens.log_in(made.token_id, password)
    assert tokens.renew("carol", made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    tokens.harness.advance(1_000)
    assert tokens.described("alice") == []


def test_a_token_is_found_by_hmac_without_computing_all(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that starts with tokens finds them too. A renewed token keeps its HMAC, a removed one is not found."""
    made = [bytes(tokens.create().hmac) for _ in range(5)]
    computed: list[str] = []

    def counted(secret: str, token_id: str) -> bytes:
        computed.append(token_id)
        return token_hmac(secret, token_id)

    monkeypatch.setattr("broker.access.authentication.delegation_tokens.token_hmac", counted)
    tokens.begin_again()
    assert [tokens.renew("alice", code).error_code for code in made] == [0] * 5
    assert tokens.expire("alice", made[3]).error_code == 0
    computed.clear()
    assert [code for code in made if tokens.tokens.by_hmac(code) is not None] == made[:3] + made[4:]
    assert tokens.tokens.by_hmac(b"no such") is None
    assert computed == []


def test_many_tokens_expire_in_slices(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.access.authentication.delegation_tokens._MOST_SWEPT", 2)
    for _ in range(5):
        tokens.renew("alice", tokens.create().hmac, 500)
    kept = tokens.create().token_id
    log = tokens.harness.log
    before = len(log.batches)
    tokens.harness.advance(1_000)
    for _ in range(3):
        tokens.harness.advance(1)
    assert tokens.described("alice") == [kept]
    assert [len(batch) for batch in log.batches[before:]] == [2, 2, 1]
    tokens.renew("alice", tokens.create().hmac, 500)
    tokens.harness.advance(1_000)
    assert tokens.described("alice") == [kept]


def test_a_failed_sweep_is_retried_later(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.access.authentication.delegation_tokens._MOST_SWEPT", 1)
    tokens.renew("alice", tokens.create().hmac, 500)
    tokens.harness.log.failure = OSError("no space")
    tokens.harness.advance(1_000)
    tokens.harness.log.failure = None
    tokens.harness.advance(10)
    assert len(tokens.described("alice")) == 1
    tokens.harness.advance(1_000)
    assert tokens.described("alice") == []


def test_owners_and_renewers_may_expire_a_token(tokens: Tokens) -> None:
    made = tokens.create()
    assert tokens.expire("dave", made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.expire("alice", b"no such").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert tokens.expire("alice", made.hmac).expiry_timestamp_ms == made.issue_timestamp_ms
    assert tokens.renew("alice", made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize(
    "peer",
    [
        {"security_protocol": "PLAINTEXT"},
        {"security_protocol": "SSL", "principal": "User:ANONYMOUS"},
        {"token_authenticated": True},
    ],
)
def test_clients_that_may_not_request_tokens(tokens: Tokens, peer: dict[str, Any]) -> None:
    """Kafka leaves out the times in these responses. It does not send zero."""
    refused = tokens.create(peer=peer)
    assert (refused.error_code, refused.expiry_timestamp_ms, refused.token_id) == (NOT_ALLOWED, -1, "")
    for ask in (tokens.renew, tokens.expire):
        answer = ask("alice", b"", peer=peer)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    answer = tokens.ask(describe_delegation_token, DESCRIBE_DELEGATION_TOKEN, 3, "alice", peer=peer, owners=None)
    assert answer.error_code == NOT_ALLOWED


def test_without_a_secret_key_tokens_are_disabled() -> None:
    tokens = Tokens(secret=None)
    answers = [tokens.create(), tokens.renew("alice", b""), tokens.expire("alice", b"")]
    answers.append(tokens.ask(describe_delegation_token, DESCRIBE_DELEGATION_TOKEN, 3, "alice", owners=None))
    assert {answer.error_code for answer in answers} == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
    assert tokens.tokens.credential(MECHANISM, "id") is None


def test_renewers_are_users(tokens: Tokens) -> None:
    assert tokens.create(renewer_type="Group").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_a_token_for_another_owner_needs_permission(tokens: Tokens) -> None:
    """So does the description of another owner's tokens, one token or all of them."""
    allowed: set[tuple[Operation, ResourceType, str]] = set()
    may = lambda ctx, *question: question in allowed  # noqa: E731
    tokens.harness.broker.guard = SimpleNamespace(may=may)
    refused = tokens.create("bob", owner="alice")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allowed.add((Operation.CREATE_TOKENS, ResourceType.USER, "User:alice"))
    made = tokens.create("bob", owner="alice")
    assert tokens.described("dave", "alice") == []
    allowed.add((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, made.token_id))
    assert tokens.described("dave", "alice") == [made.token_id]
    allowed.clear()
    allowed.add((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice"))
    assert tokens.described("dave", "alice") == [made.token_id]
    assert tokens.described("dave", "erin") == []
