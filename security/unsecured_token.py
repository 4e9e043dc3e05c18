"""Bearer tokens that nobody has signed (JWS with "alg": "none"), for development: anyone can make one for any user.

They are looked at as by Apache Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, whose options are those of the
JAAS entry.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from security.oauthbearer import LATEST_MS, InsufficientScope, InvalidToken, Token

_OPTION = "unsecuredValidator"
_URL_ALPHABET = str.maketrans("-_", "+/")


class UnsecuredValidator:
    """By the options of a JAAS entry; called with a token. Raises InvalidToken.

    Args:
        options: unsecuredValidatorPrincipalClaimName (sub), unsecuredValidatorScopeClaimName (scope),
            unsecuredValidatorRequiredScope with spaces between (none), unsecuredValidatorAllowableClockSkewMs (0).
        now_ms: the wall clock, asked at each token.

    Raises ValueError for a clock skew that is none.
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
            raise ValueError(f"{_OPTION}AllowableClockSkewMs is no number of milliseconds")
        self._skew_ms = int(skew_ms)

    def __call__(self, token: str) -> Token:
        try:
            header, body, signature = token.split(".")
            algorithm, claims = _members(header).get("alg"), _members(body)
        except (ValueError, RecursionError) as error:
            raise InvalidToken(f"it is malformed: {error}") from None
        if algorithm != "none" or signature:
            raise InvalidToken("it is signed, where those are taken that nobody has signed")
        scope = _scope(claims.get(self._scope_claim))
        expires_at_ms = self._checked_times(claims)
        user = claims.get(self._user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"it has no user in its claim {self._user_claim}")
        if not scope.issuperset(self._required_scope):
            raise InsufficientScope(self._required_scope)
        return Token(user, expires_at_ms)

    def _checked_times(self, claims: dict[str, Any]) -> int:
        """When it expires, which is still to come; it was issued before, if it says when."""
        now_ms = self._now_ms()
        expires_ms, issued_ms = (_time_ms(claims, name) for name in ("exp", "iat"))
        if expires_ms is None:
            raise InvalidToken("it does not say when it expires")
        if expires_ms <= now_ms - self._skew_ms:
            raise InvalidToken("it has expired")
        if issued_ms is not None and issued_ms > now_ms + self._skew_ms:
            raise InvalidToken("it was issued in the future")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise InvalidToken("it expires before it was issued")
        return min(round(expires_ms), LATEST_MS)


def _members(part: str) -> dict[str, Any]:
    """A JSON object. Raises ValueError. Kafka reads base64's first alphabet, RFC 7515 has that of addresses: either."""
    padded = part.translate(_URL_ALPHABET) + "=" * (-len(part) % 4)
    found = json.loads(b64decode(padded, validate=True))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _time_ms(claims: dict[str, Any], name: str) -> float | None:
    """A claim in seconds, perhaps with a fraction."""
    value = claims.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value) * 1000
    except OverflowError:
        pass
    raise InvalidToken(f"its claim {name} is no time")


def _scope(value: Any) -> frozenset[str]:
    """Of one word or a list of them."""
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list):
        raise InvalidToken("its scope is neither a word nor a list")
    return frozenset(each.strip() for each in values if isinstance(each, str) and each.strip())
