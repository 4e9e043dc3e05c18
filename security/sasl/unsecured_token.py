"""Unsigned bearer tokens (JWS with "alg": "none"), for development: anyone can make one for any user.

They are validated as by Apache Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, with the options of the JAAS
entry.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from security.sasl.oauthbearer import (
    LATEST_MS,
    InsufficientScope,
    InvalidToken,
    Token,
)

_OPTION = "unsecuredValidator"
_URL_ALPHABET = str.maketrans("-_", "+/")


class UnsecuredValidator:
    """Validates tokens by the options of a JAAS entry. Calling it with a token raises InvalidToken.

    Args:
        options: unsecuredValidatorPrincipalClaimName (sub), unsecuredValidatorScopeClaimName (scope),
            unsecuredValidatorRequiredScope separated by spaces (none), unsecuredValidatorAllowableClockSkewMs (0).
        now_ms: returns the wall clock.

    Raises ValueError for an invalid clock skew.
    """

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        def option(name: str) -> str:
            return options.get(_OPTION + name, "").strip()

        self._now_ms = now_ms
        self._user_claim = option("PrincipalClaimName") or "sub"
        self._scope_claim = option("ScopeClaimName") or "scope"
        self._required_scope = option("RequiredScope").split()
        skew_ms = option("AllowableClockSkewMs") or "0"
        if not (skew_ms.isascii() and skew_ms.isdigit()):
            raise ValueError(f"{_OPTION}AllowableClockSkewMs is not a number of milliseconds")
        self._skew_ms = int(skew_ms)

    def __call__(self, token: str) -> Token:
        try:
            header, body, signature = token.split(".")
            algorithm, claims = _members(header).get("alg"), _members(body)
        except (ValueError, RecursionError) as error:
            raise InvalidToken(f"it is malformed: {error}") from None
        if algorithm != "none" or signature:
            raise InvalidToken("it is signed, but only unsigned tokens are accepted")
        scope = _scope(claims.get(self._scope_claim))
        expires_at_ms = self._checked_times(claims)
        user = claims.get(self._user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"its claim {self._user_claim} has no user")
        if not scope.issuperset(self._required_scope):
            raise InsufficientScope(self._required_scope)
        return Token(user, expires_at_ms)

    def _checked_times(self, claims: dict[str, Any]) -> int:
        """Return when the token expires. Raises InvalidToken if it has expired or its times are inconsistent."""
        now_ms = self._now_ms()
        expires_ms, issued_ms = (_time_ms(claims, name) for name in ("exp", "iat"))
        if expires_ms is None:
            raise InvalidToken("it has no expiry time")
        if expires_ms <= now_ms - self._skew_ms:
            raise InvalidToken("it has expired")
        if issued_ms is not None and issued_ms > now_ms + self._skew_ms:
            raise InvalidToken("it was issued in the future")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise InvalidToken("it expires before it was issued")
        return min(round(expires_ms), LATEST_MS)


def _members(part: str) -> dict[str, Any]:
    """Return the members of a JSON object. Raises ValueError.

    Both alphabets of base64 are accepted: Kafka decodes the standard one, RFC 7515 specifies the URL-safe one.
    """
    padded = part.translate(_URL_ALPHABET) + "=" * (-len(part) % 4)
    found = json.loads(b64decode(padded, validate=True))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _time_ms(claims: dict[str, Any], name: str) -> float | None:
    """Return a claim in seconds, with or without a fraction, in ms; None if it is missing."""
    value = claims.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value) * 1000
    except OverflowError:
        pass
    raise InvalidToken(f"its claim {name} is not a time")


def _scope(value: Any) -> frozenset[str]:
    """Return the scopes of a word or a list of words."""
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list):
        raise InvalidToken("its scope is neither a string nor a list")
    return frozenset(each.strip() for each in values if isinstance(each, str) and each.strip())
