"""Unsigned tokens of a broker's own logins: their claims are those that the options name."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from security.sasl.unsecured_login import UnsecuredLogin
from security.sasl.unsecured_token import UnsecuredValidator

NOW_MS = 1_700_000_000_500


def parts(token: str) -> tuple[Any, ...]:
    *encoded, signature = token.split(".")
    return *(json.loads(urlsafe_b64decode(each + "=" * (-len(each) % 4))) for each in encoded), signature


def token(**options: str) -> str:
    return UnsecuredLogin({f"unsecuredLogin{key}": value for key, value in options.items()}).token(NOW_MS)


def test_claims_of_the_options() -> None:
    made = token(StringClaim_sub="broker", NumberClaim_level="2", ListClaim_scope="|a|b", ListClaim_roles="x,y")
    header, claims, signature = parts(made)
    assert (header, signature) == ({"alg": "none"}, "")
    times = {"iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 3600}
    assert claims == {"sub": "broker", "level": 2.0, "scope": ["a", "b"], "roles": ["x", "y"], **times}


def test_listener_accepts_the_token() -> None:
    made = token(StringClaim_name="broker", PrincipalClaimName="name", LifetimeSeconds="60")
    validate = UnsecuredValidator({"unsecuredValidatorPrincipalClaimName": "name"}, lambda: NOW_MS)
    assert validate(made) == ("broker", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"StringClaim_sub": " "},
        {"NumberClaim_sub": "1"},
        {"StringClaim_sub": "a", "PrincipalClaimName": "name"},
        {"StringClaim_sub": "a", "LifetimeSeconds": "long"},
        {"StringClaim_sub": "a", "NumberClaim_level": "high"},
    ],
)
def test_options_without_a_user_or_with_bad_numbers(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"unsecuredLoginStringClaim|invalid|could not"):
        token(**options)
