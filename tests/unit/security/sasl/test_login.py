"""The requests of a SASL login, answered by the test."""

from __future__ import annotations

import pytest

from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from security.sasl.client import PlainClient, ScramClient, ServerRefused
from security.sasl.login import CredentialsRefused, LoginRequests, MechanismRefused, login_requests
from security.sasl.scram_credential import BY_SASL_NAME

PLAIN = PlainClient("alice", "secret")


def started(requests: LoginRequests, mechanism: str = "PLAIN") -> LoginRequests:
    """A login whose handshake was accepted."""
    api, version, request = next(requests)
    assert (api, version, request.mechanism) == (SASL_HANDSHAKE, 1, mechanism)
    return requests


def test_login_returns_the_lifetime_of_the_session() -> None:
    requests = started(login_requests("PLAIN", PLAIN))
    api, version, request = requests.send(SASL_HANDSHAKE.response())
    assert (api, version, request.auth_bytes) == (SASL_AUTHENTICATE, 2, b"\0alice\0secret")
    with pytest.raises(StopIteration) as done:
        requests.send(SASL_AUTHENTICATE.response(session_lifetime_ms=5000))
    assert done.value.value == 5000


@pytest.mark.parametrize(("code", "enabled", "text"), [(33, ["SCRAM-SHA-256"], "SCRAM-SHA-256, not"), (34, [], "SASL")])
def test_refused_mechanism(code: int, enabled: list[str], text: str) -> None:
    requests = started(login_requests("PLAIN", PLAIN))
    with pytest.raises(MechanismRefused, match=text) as refused:
        requests.send(SASL_HANDSHAKE.response(error_code=code, mechanisms=enabled))
    assert refused.value.enabled == enabled


@pytest.mark.parametrize(("message", "text"), [("wrong", "wrong"), (None, "uthenticat")])
def test_refused_credentials(message: str | None, text: str) -> None:
    requests = started(login_requests("PLAIN", PLAIN))
    requests.send(SASL_HANDSHAKE.response())
    with pytest.raises(CredentialsRefused, match=text):
        requests.send(SASL_AUTHENTICATE.response(error_code=58, error_message=message))


def test_server_that_proves_nothing() -> None:
    exchange = ScramClient(BY_SASL_NAME["SCRAM-SHA-256"], "alice", "secret", "nonce")
    requests = started(login_requests("SCRAM-SHA-256", exchange), "SCRAM-SHA-256")
    requests.send(SASL_HANDSHAKE.response())
    with pytest.raises(ServerRefused):
        requests.send(SASL_AUTHENTICATE.response(auth_bytes=b"r=other,s=c2FsdA==,i=4096"))
