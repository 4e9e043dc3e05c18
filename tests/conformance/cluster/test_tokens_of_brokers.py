"""A delegation token is created at one broker, and used, renewed and expired at another one of the other kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.messages.renew_delegation_token import RENEW_DELEGATION_TOKEN
from protocol.schema import Struct
from tests.conformance.test_delegation_tokens import BOB, MODULE, SCRAM_MODULE, Secured
from tests.integration.membership.kafka_nodes import SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain
from tests.support.wire import WireClient

pytestmark = pytest.mark.full_size

_SECRET = {"delegation.token.secret.key": "of this cluster"}
_HOUR_MS = 3_600_000


class LoginPorts(NamedTuple):
    """The ports of the listeners that need a login: of a member, and of a broker of Apache Kafka."""

    ours: int
    theirs: int


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginPorts]:
    """Start a controller of Apache Kafka and both kinds of brokers."""
    found, plain = LoginPorts(free_port(), free_port()), (free_port(), free_port())

    def properties(port: int, login_port: int) -> dict[str, str]:
        return {
            **SECURED,
            **_SECRET,
            "listeners": f"PLAINTEXT://{HOST}:{port},LOGIN://{HOST}:{login_port}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret" user_bob="secret";',
            "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        }

    homes = [tmp_path_factory.mktemp(name) for name in ("controller", "ours", "theirs")]
    with ExitStack() as stack:
        controller = stack.enter_context(KafkaController(homes[0], _SECRET))
        ours = MemberBroker(homes[1], controller.port, properties(plain[0], found.ours), port=plain[0])
        stack.enter_context(ours)
        theirs = OtherBroker(homes[2], controller.port, properties(plain[1], found.theirs), port=plain[1])
        stack.enter_context(theirs)
        yield found


def by(stack: ExitStack, user: str, port: int) -> WireClient:
    """Return a user's connection."""
    link = stack.enter_context(WireClient(HOST, port))
    assert log_in_plain(link, user, "secret").error_code == 0
    return link


def login(token: Struct, port: int) -> int:
    """Return the error of a login by a token."""
    with WireClient(HOST, port) as link:
        return Secured.token_error(link, token)


def described(link: WireClient, token: Struct) -> list[int]:
    """Return when the token expires, as the broker of a connection knows it; nothing if it has expired."""
    answer = link.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
    assert answer.error_code == 0
    return [each.expiry_timestamp for each in answer.tokens if each.token_id == token.token_id]


@pytest.mark.parametrize("creator", ["ours", "theirs"])
def test_token_of_another_broker(ports: LoginPorts, creator: str) -> None:
    here, there = ports if creator == "ours" else reversed(ports)
    with ExitStack() as stack:
        alice_here, alice_there = by(stack, "alice", here), by(stack, "alice", there)
        token = alice_here.call(
            CREATE_DELEGATION_TOKEN, 3, renewers=[BOB], max_lifetime_ms=24 * _HOUR_MS, owner_principal_name=None
        )
        assert token.error_code == 0
        for port in (here, there):
            eventually(lambda port=port: login(token, port), equal_to=0)  # type: ignore[misc]
        bob_there = by(stack, "bob", there)
        renewed = bob_there.call(RENEW_DELEGATION_TOKEN, 2, hmac=bytes(token.hmac), renew_period_ms=2 * _HOUR_MS)
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms < token.expiry_timestamp_ms
        for link in (alice_here, alice_there):
            eventually(lambda link=link: described(link, token), equal_to=[renewed.expiry_timestamp_ms])  # type: ignore[misc]
        expired = alice_there.call(EXPIRE_DELEGATION_TOKEN, 2, hmac=bytes(token.hmac), expiry_time_period_ms=-1)
        assert expired.error_code == 0
        for port, link in ((here, alice_here), (there, alice_there)):
            eventually(lambda link=link: described(link, token), equal_to=[])  # type: ignore[misc]
            assert login(token, port) == ErrorCode.SASL_AUTHENTICATION_FAILED
