"""OAUTHBEARER as a conversation: a token, and one more message if it is rejected."""

from __future__ import annotations

import pytest

from security.sasl.exchange_protocol import InvalidCredentials, Refused
from security.sasl.oauthbearer import InvalidToken, OAuthBearerExchange, Token


def validate(token: str) -> Token:
    if token != "good":
        raise InvalidToken("why is nobody's business")
    return Token("alice", 1_000)


def first(token: str, header: str = "n,,", pairs: str = "") -> bytes:
    return f"{header}\1auth=Bearer {token}\1{pairs}\1".encode()


@pytest.fixture
def exchange() -> OAuthBearerExchange:
    return OAuthBearerExchange(validate)


@pytest.mark.parametrize(
    "message",
    [first("good"), first("good", "n,a=alice,"), first("good", pairs="key=value\1"), b"n,,\1auth=bEARER  good\1\1"],
)
def test_a_good_token(exchange: OAuthBearerExchange, message: bytes) -> None:
    assert exchange.step(message) == b""
    assert (exchange.user, exchange.expires_at_ms) == ("alice", 1_000)


def test_a_rejected_token(exchange: OAuthBearerExchange) -> None:
    """The client gets the error, and fails with any next message, even a valid token."""
    assert exchange.step(first("bad")) == b'{"status":"invalid_token"}'
    assert exchange.user is None
    with pytest.raises(Refused, match="invalid_token"):
        exchange.step(first("good"))
    assert exchange.user is None


def test_too_long_tokens_are_not_checked() -> None:
    looked_at: list[int] = []

    def look(token: str) -> Token:
        looked_at.append(len(token))
        return Token("alice", 1_000)

    assert OAuthBearerExchange(look).step(first("x" * 16_385)) == b'{"status":"invalid_token"}'
    assert OAuthBearerExchange(look).step(first("x" * 16_384)) == b""
    assert looked_at == [16_384]


def test_another_authorization_id(exchange: OAuthBearerExchange) -> None:
    with pytest.raises(Refused, match=r"an authorization id \(b=o,b\) that is different"):
        exchange.step(first("good", "n,a=b=3Do=2Cb,"))
    assert exchange.user is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,",
        b"n,,\1\1",
        b"n,,\1auth=Bearer good\1",
        b"n,,\1auth=Bearer good\1\1more",
        b"y,,\1auth=Bearer good\1\1",
        b"n,alice,\1auth=Bearer good\1\1",
        b"n,,\1auth=Basic good\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth\1\1",
        b"n,,\1auth=Bearer \xff\1\1",
    ],
)
def test_malformed_first_messages(exchange: OAuthBearerExchange, message: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        exchange.step(message)
    assert exchange.user is None
