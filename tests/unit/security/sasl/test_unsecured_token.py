"""Unsigned bearer tokens: which are accepted."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest

from security.sasl.oauthbearer import InsufficientScope, InvalidToken, OAuthBearerExchange
from security.sasl.unsecured_token import UnsecuredValidator

NOW_MS = 1_700_000_000_500
NOW_S = NOW_MS / 1000
UNSIGNED = {"alg": "none"}


def part(value: Any, encode: Callable[[bytes], bytes] = urlsafe_b64encode) -> str:
    return encode(json.dumps(value, ensure_ascii=False).encode()).decode().rstrip("=")


def token(header: Any = UNSIGNED, signature: str = "", **claims: Any) -> str:
    """Return a token of bob for ten seconds by default; a claim of None is left out."""
    all_claims = {"sub": "bob", "iat": NOW_S - 1, "exp": NOW_S + 10} | claims
    return f"{part(header)}.{part({key: value for key, value in all_claims.items() if value is not None})}.{signature}"


def validator(**options: str) -> UnsecuredValidator:
    return UnsecuredValidator({f"unsecuredValidator{key}": value for key, value in options.items()}, lambda: NOW_MS)


def test_a_valid_token_and_its_expiry() -> None:
    assert validator()(token()) == ("bob", NOW_MS + 10_000)
    assert validator()(token(iat=None)).user == "bob"
    assert validator()(token(exp=NOW_S + 0.25)).expires_at_ms == NOW_MS + 250
    assert validator()(token(exp=1e300)).expires_at_ms == 253_402_300_799_999


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_either_alphabet(encode: Callable[[bytes], bytes]) -> None:
    """As clients write it, and as in the standard."""
    body = part({"sub": "ü?>ÿ~~?", "exp": NOW_S + 1}, encode)
    assert set(body) & set("+/-_")
    assert validator()(f"{part(UNSIGNED)}.{body}.").user == "ü?>ÿ~~?"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": NOW_S},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": float("inf")},
        {"exp": 10**400},
        {"iat": NOW_S + 1},
        {"iat": "1"},
        {"iat": NOW_S - 1, "exp": NOW_S - 1},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"sub": ["bob"]},
        {"scope": 7},
        {"scope": {"a": 1}},
    ],
)
def test_claims_that_are_missing_or_out_of_time(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        validator()(token(**claims))


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "é.é.",
        token()[:-1],
        token() + ".",
        token(header=[]),
        token(header={}),
        token(header={"alg": None}),
        token(header={"alg": "None"}),
        token(header={"alg": "RS256"}),
        token(signature="c2ln"),
        f"{part(UNSIGNED)}.{part([])}.",
        f"{part(UNSIGNED)}.{b64encode(b'[' * 200_000).decode()}.",
    ],
)
def test_malformed_and_signed_tokens(malformed: str) -> None:
    with pytest.raises(InvalidToken):
        validator()(malformed)


def test_clock_skew_is_allowed() -> None:
    late, early = token(iat=NOW_S - 9, exp=NOW_S - 2), token(iat=NOW_S + 2)
    for each in (late, early):
        assert validator(AllowableClockSkewMs="2001")(each).user == "bob"
        with pytest.raises(InvalidToken):
            validator(AllowableClockSkewMs="1999")(each)
    with pytest.raises(InvalidToken):  # whatever the clocks are
        validator(AllowableClockSkewMs="99999")(token(iat=NOW_S + 2, exp=NOW_S + 2))


@pytest.mark.parametrize("skew", ["-1", "x", "1.5", "²"])
def test_invalid_clock_skew(skew: str) -> None:
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        validator(AllowableClockSkewMs=skew)


def test_another_claim_for_the_user() -> None:
    assert validator(PrincipalClaimName="client")(token(client="robot", sub=None)).user == "robot"
    with pytest.raises(InvalidToken):
        validator(PrincipalClaimName="client")(token())


@pytest.mark.parametrize(
    ("scope", "enough"),
    [
        (["a", "b", "c"], True),
        ([" b ", "a"], True),
        (["a"], False),
        ("a b", False),  # one word, as in Kafka
        ("a", False),
        ([], False),
        (None, False),
    ],
)
def test_required_scope(scope: Any, enough: bool) -> None:
    validate = validator(RequiredScope=" a  b ", ScopeClaimName="may")
    if enough:
        assert validate(token(may=scope)).user == "bob"
        return
    with pytest.raises(InsufficientScope):
        validate(token(may=scope, scope=["a", "b"]))


def test_a_string_is_one_scope() -> None:
    assert validator(RequiredScope="a")(token(scope=" a ")).user == "bob"


def test_refusal_equals_kafkas() -> None:
    exchange = OAuthBearerExchange(validator(RequiredScope="a b"))
    refusal = exchange.step(f"n,,\1auth=Bearer {token()}\1\1".encode())
    assert refusal == b'{"status":"insufficient_scope", "scope":"[a, b]"}'
