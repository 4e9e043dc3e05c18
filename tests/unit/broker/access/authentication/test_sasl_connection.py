"""A connection during authentication, without a socket and with a clock that the test moves."""

from __future__ import annotations

from functools import partial

import pytest

from broker.access.authentication.login_pace import LoginPace
from broker.access.authentication.sasl_connection import SaslAuthenticator
from broker.access.authentication.sasl_listener import SaslListener
from broker.handlers.sasl_authenticate import sasl_authenticate
from broker.handlers.sasl_handshake import sasl_handshake
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Api, Struct
from runtime.timers import Timers
from security.sasl.exchange_protocol import InvalidCredentials
from security.sasl.plain import PlainExchange
from tests.support.network import Link, answers_in, request_frame
from tests.support.sasl import plain_token

DELAY_MS, SESSION_MS = 100, 60_000
ALICE = plain_token("alice", "secret")


class Expiring(PlainExchange):
    """The credentials have an expiry time."""

    expires_at_ms: int | None

    def __init__(self, expires_at_ms: int) -> None:
        super().__init__({"alice": "secret"})
        self.expires_at_ms = expires_at_ms


class Broken(PlainExchange):
    def step(self, token: bytes) -> bytes:
        raise InvalidCredentials("for the log alone")


def heartbeat(ctx: RequestContext, _: Struct) -> Reply:
    return HEARTBEAT.response(error_code=int(ctx.connection.principal == "User:alice"))


def api_versions(_: RequestContext, request: Struct) -> Reply:
    return API_VERSIONS.response(error_code=42 if request.client_software_name == "bad" else 0)


def metadata(_: RequestContext, __: Struct) -> Reply:
    raise AssertionError("served before anybody has shown who they are")


def produce(_: RequestContext, __: Struct) -> Reply:
    raise AssertionError("served before anybody has shown who they are")


class Client:
    """A connection that has to authenticate."""

    def __init__(self, max_session_ms: int = 0) -> None:
        handlers = {
            HEARTBEAT: heartbeat,
            API_VERSIONS: api_versions,
            METADATA: metadata,
            PRODUCE: produce,
            SASL_HANDSHAKE: sasl_handshake,
            SASL_AUTHENTICATE: sasl_authenticate,
        }
        self.link = Link(handlers)
        self.clock = self.link.loop.clock
        users = {"alice": "secret", "bob": "other"}
        listener = SaslListener(
            exchanges={
                "PLAIN": partial(PlainExchange, users),
                "EXPIRING": lambda: Expiring(self.clock.now_ms() + 1_000),
                "BROKEN": partial(Broken, users),
            },
            max_session_ms={"PLAIN": max_session_ms, "EXPIRING": max_session_ms},
            max_token_bytes=1_000,
            failure_delay_ms=DELAY_MS,
        )
        timers = Timers(self.link.loop, self.clock)  # type: ignore[arg-type]
        self.pace = LoginPace(self.link.loop.call_soon, lambda: self.spent_ns)
        self.spent_ns = 0
        dispatcher = self.link.server.dispatcher
        SaslAuthenticator(self.link.connection, listener, dispatcher, timers, self.clock, self.pace)
        self.link.loop.settle()

    @property
    def closed(self) -> bool:
        return self.link.transport.closed is not None

    def ask(self, api: Api, version: int, **fields: object) -> Struct:
        self.link.receive(request_frame(api, version, 7, **fields))
        ((_, answer),) = self.sent((api, version))
        return answer

    def sent(self, *expected: tuple[Api, int]) -> list[tuple[int, Struct]]:
        answers = answers_in(bytes(self.link.transport.sent), list(expected))
        self.link.transport.sent.clear()
        return answers

    def log_in(self, token: bytes = ALICE, mechanism: str = "PLAIN") -> Struct:
        assert self.ask(SASL_HANDSHAKE, 1, mechanism=mechanism).error_code == 0
        return self.ask(SASL_AUTHENTICATE, 1, auth_bytes=token)

    def advance(self, milliseconds: int) -> None:
        self.link.loop.advance(milliseconds)
        self.link.loop.settle()


def test_a_client_authenticates() -> None:
    """ApiVersions comes first. Then handlers know the principal, and the session does not expire."""
    client = Client()
    client.ask(API_VERSIONS, 0)
    answer = client.log_in()
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert client.ask(HEARTBEAT, 4).error_code == 1
    assert client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 34
    client.advance(10**9)
    assert client.ask(HEARTBEAT, 4).error_code == 1


def test_slow_bytes_do_not_extend_the_deadline() -> None:
    """Authentication as a whole has connections.max.idle.ms. After that the limit holds between any two bytes."""
    client = Client()
    client.link.server.max_idle_ms = 8_000
    client.link.server.schedule_idle_sweep()
    for byte in request_frame(SASL_HANDSHAKE, 1, 1, mechanism="PLAIN")[:20]:
        client.link.receive(bytes([byte]))
        client.advance(500)
    assert client.closed

    client = Client()
    client.link.server.max_idle_ms = 8_000
    client.link.server.schedule_idle_sweep()
    client.log_in()
    for byte in request_frame(HEARTBEAT, 4, 1)[:20]:
        client.link.receive(bytes([byte]))
        client.advance(500)
    assert not client.closed


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_frames_at_once_and_byte_by_byte(piece: int) -> None:
    """Requests behind the last step are served as authenticated, never before."""
    client = Client()
    frames = [
        request_frame(SASL_HANDSHAKE, 1, 1, mechanism="PLAIN"),
        request_frame(SASL_AUTHENTICATE, 1, 2, auth_bytes=ALICE),
        request_frame(HEARTBEAT, 4, 3),
    ]
    client.link.receive(b"".join(frames), piece)
    answers = client.sent((SASL_HANDSHAKE, 1), (SASL_AUTHENTICATE, 1), (HEARTBEAT, 4))
    assert [correlation_id for correlation_id, _ in answers] == [1, 2, 3]
    assert answers[-1][1].error_code == 1


def test_a_failure_is_answered_with_a_delay() -> None:
    """Bytes that arrive meanwhile are ignored."""
    client = Client()
    client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    client.link.receive(request_frame(SASL_AUTHENTICATE, 1, 1, auth_bytes=plain_token("alice", "wrong")))
    client.link.receive(request_frame(SASL_AUTHENTICATE, 1, 2, auth_bytes=ALICE))
    client.advance(DELAY_MS - 1)
    assert not client.link.transport.sent
    assert not client.closed
    client.advance(1)
    ((correlation_id, answer),) = client.sent((SASL_AUTHENTICATE, 1))
    assert (correlation_id, answer.error_code) == (1, 58)
    assert client.closed
    assert client.link.connection.principal == "User:ANONYMOUS"


def test_details_for_the_log_are_not_sent() -> None:
    client = Client()
    client.ask(SASL_HANDSHAKE, 1, mechanism="BROKEN")
    client.link.receive(request_frame(SASL_AUTHENTICATE, 1, 1, auth_bytes=b""))
    client.advance(DELAY_MS)
    ((_, answer),) = client.sent((SASL_AUTHENTICATE, 1))
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism BROKEN"
    )


@pytest.mark.parametrize(
    "frame",
    [
        request_frame(HEARTBEAT, 4, 1),
        request_frame(SASL_AUTHENTICATE, 1, 1, auth_bytes=ALICE),
        b"\0\0\0\2ab",
        (1_001).to_bytes(4),
    ],
)
def test_other_requests_before_the_handshake_are_rejected(frame: bytes) -> None:
    client = Client()
    client.link.receive(frame)
    assert client.closed
    assert not client.link.transport.sent


def test_api_versions_repeats_only_after_a_rejection() -> None:
    """Kafka 4.3.1 closes the connection at a second ApiVersions if it answered the first."""
    client = Client()
    for _ in range(2):
        assert client.ask(API_VERSIONS, 3, client_software_name="bad", client_software_version="1").error_code == 42
    assert client.ask(API_VERSIONS, 3, client_software_name="good", client_software_version="1").error_code == 0
    client.link.receive(request_frame(API_VERSIONS, 3, 8, client_software_name="good", client_software_version="1"))
    assert client.closed
    assert not client.link.transport.sent


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
        (SASL_HANDSHAKE, 0, {"mechanism": "NONE"}),
        (API_VERSIONS, 0, {}),
        (API_VERSIONS, 4, {"client_software_name": "good", "client_software_version": "1"}),
        (HEARTBEAT, 4, {}),
        (METADATA, 13, {"topics": []}),
    ],
)
def test_other_requests_between_the_steps_are_rejected(api: Api, version: int, fields: dict[str, object]) -> None:
    """ILLEGAL_SASL_STATE in the schema of the API, delayed, then the connection closes: as in Kafka 4.3.1."""
    client = Client()
    client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    client.link.receive(request_frame(api, version, 9, **fields))
    assert not client.link.transport.sent
    client.advance(DELAY_MS)
    ((correlation_id, answer),) = client.sent((api, version))
    assert (correlation_id, answer.error_code) == (9, 34)
    assert client.closed
    assert client.link.connection.principal == "User:ANONYMOUS"


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("0000000a03e70000000000090000"),  # API key 999
        bytes.fromhex("0000000b0003006300000009000000"),  # Metadata v99
        bytes.fromhex("0000000b0012006300000009000000"),  # ApiVersions v99
        request_frame(PRODUCE, 9, 9, acks=0, timeout_ms=1, transactional_id=None, topic_data=[]),
        request_frame(HEARTBEAT, 4, 9, group_id="g" * 2000),
    ],
)
def test_malformed_requests_between_the_steps_close(frame: bytes) -> None:
    """Kafka 4.3.1 does not answer them either, except the last. It is too long to be parsed before authentication."""
    client = Client()
    client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    client.link.receive(frame)
    assert client.closed
    assert not client.link.transport.sent


def test_sessions_expire_and_reauthenticate() -> None:
    """A client reauthenticates as the same user, by the same mechanism, and not within a second."""
    client = Client(SESSION_MS)
    assert client.log_in().session_lifetime_ms == SESSION_MS
    client.advance(SESSION_MS - 1)
    assert client.log_in().session_lifetime_ms == SESSION_MS
    assert client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 34
    client.advance(SESSION_MS)
    assert client.log_in().error_code == 0  # also after the expiry: the handshake may still arrive
    client.advance(SESSION_MS)
    client.link.receive(request_frame(HEARTBEAT, 4, 1))
    assert client.closed


def test_a_session_expires_with_its_credentials() -> None:
    client = Client(SESSION_MS)
    assert client.log_in(mechanism="EXPIRING").session_lifetime_ms == 1_000
    client.advance(1_000)
    client.link.receive(request_frame(HEARTBEAT, 4, 1))
    assert client.closed


@pytest.mark.parametrize(
    ("token", "mechanism", "message"),
    [
        (
            plain_token("bob", "other"),
            "PLAIN",
            "Cannot change principals during re-authentication from User.alice: User.bob",
        ),
        (
            ALICE,
            "EXPIRING",
            "SASL mechanism 'EXPIRING' requested by client is not supported for re-authentication of mechanism 'PLAIN'",
        ),
    ],
)
def test_another_user_cannot_take_over_a_session(token: bytes, mechanism: str, message: str) -> None:
    client = Client(SESSION_MS)
    client.log_in()
    client.ask(SASL_HANDSHAKE, 1, mechanism=mechanism)
    client.link.receive(request_frame(SASL_AUTHENTICATE, 1, 1, auth_bytes=token))
    client.advance(DELAY_MS)
    ((_, answer),) = client.sent((SASL_AUTHENTICATE, 1))
    assert (answer.error_code, answer.error_message) == (58, message)
    assert client.closed


def test_a_client_that_disconnects_leaves_no_timer() -> None:
    client = Client(SESSION_MS)
    client.log_in()
    authenticator = client.link.connection.authenticator
    assert authenticator is not None
    client.link.transport.abort()
    assert authenticator._session_end is None


def test_client_values_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    client = Client()
    client.link.receive(request_frame(SASL_HANDSHAKE, 1, 1, mechanism="NONE\nsomebody else" + "!" * 500))
    client.advance(DELAY_MS)
    assert client.closed
    (warning,) = [message for message in caplog.messages if "NONE" in message]
    assert r"Unsupported SASL mechanism NONE\nsomebody else!!!" in warning
    assert len(warning) < 400


def test_a_login_waits_while_others_use_the_slice() -> None:
    """The response comes in the next turn, and later requests after it. A login that fails waits too."""
    for token, error_code in ((ALICE, 0), (plain_token("alice", "wrong"), 58)):
        client = Client()
        assert client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0

        def take_long(client: Client = client) -> None:
            client.spent_ns += 10_000_000

        client.pace(take_long)
        behind = request_frame(HEARTBEAT, 4, 8)
        frames = request_frame(SASL_AUTHENTICATE, 1, 7, auth_bytes=token) + behind
        client.link.receive(frames, settle=False)
        assert client.link.transport.sent == b""
        client.link.loop.settle()
        client.advance(DELAY_MS)
        expected = [(SASL_AUTHENTICATE, 1)] + ([(HEARTBEAT, 4)] if error_code == 0 else [])
        answers = [answer.error_code for _, answer in client.sent(*expected)]
        assert answers == ([0, 1] if error_code == 0 else [58])
        assert client.closed is (error_code != 0)


def test_a_large_frame_waits_for_its_turn_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long client id does not move a login to the front. If too many bytes wait, the connection closes."""
    monkeypatch.setattr("broker.access.authentication.login_pace._SMALL_BYTES", 0)
    for most, is_closed in ((1_000, False), (10, True)):
        monkeypatch.setattr("broker.access.authentication.login_pace._MOST_HELD_BYTES", most)
        client = Client()
        assert client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
        client.spent_ns = 0

        def take_long(client: Client = client) -> None:
            client.spent_ns += 10_000_000

        client.pace(take_long)
        client.link.receive(request_frame(SASL_AUTHENTICATE, 1, 7, auth_bytes=ALICE), settle=False)
        assert client.link.transport.sent == b""
        client.link.loop.settle()
        assert client.closed is is_closed
        assert bool(client.sent((SASL_AUTHENTICATE, 1)) if not is_closed else ()) is not is_closed
