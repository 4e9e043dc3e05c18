"""PLAIN: one token, and Kafka's error messages."""

from __future__ import annotations

import sys
from hmac import compare_digest
from types import FrameType

import pytest

from security.sasl import plain
from security.sasl.exchange_protocol import Refused
from security.sasl.plain import PlainExchange, users_of

USERS = {"alice": "secret", "bób": "pässword"}


@pytest.mark.parametrize("token", ["\0alice\0secret", "alice\0alice\0secret", "\0bób\0pässword"])
def test_right_password(token: str) -> None:
    exchange = PlainExchange(USERS)
    assert exchange.step(token.encode()) == b""
    assert exchange.user == token.split("\0")[1]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("\0mallory\0secret", "Authentication failed: Invalid username or password"),
        ("\0\0secret", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        (
            "bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_rejected_tokens(token: str, message: str) -> None:
    exchange = PlainExchange(USERS)
    with pytest.raises(Refused) as refused:
        exchange.step(token.encode())
    assert str(refused.value) == message
    assert exchange.user is None


@pytest.mark.parametrize(
    ("token", "count"), [(b"", 1), (b"alice", 1), (b"\0alice", 2), (b"\0a\0b\0c", 4), (b"\xff\xfe", 1)]
)
def test_malformed(token: bytes, count: int) -> None:
    """The message has the number of parts, as in Kafka."""
    with pytest.raises(Refused) as refused:
        PlainExchange(USERS).step(token)
    assert str(refused.value) == f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}"


def test_unknown_users_take_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that timing does not show which users exist: each password is compared, in the same time."""

    def steps(token: str) -> list[object]:
        found: list[object] = []

        def trace(frame: FrameType, event: str, _: object) -> object:
            if frame.f_code is PlainExchange.step.__code__:
                found.append((event, frame.f_lineno))
            return trace

        def compare(known: bytes, given: bytes) -> bool:
            found.append(given)
            return compare_digest(known, given)

        monkeypatch.setattr(plain, "compare_digest", compare)
        before = sys.gettrace()
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            with pytest.raises(Refused):
                PlainExchange(USERS).step(token.encode())
        finally:
            sys.settrace(before)
        return found

    there = steps("\0alice\0wrong!")
    assert b"wrong!" in there
    assert steps("\0nobody\0wrong!") == there


def test_users_of_a_login_module() -> None:
    """Other options, such as the broker's own login, are not users, nor are users with an empty password."""
    assert users_of({"username": "admin", "password": "x", "user_alice": "secret", "user_bob": ""}) == {
        "alice": "secret"
    }
