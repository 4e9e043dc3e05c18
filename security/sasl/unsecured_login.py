"""Unsigned bearer tokens for a broker's own logins, made from the options of its JAAS entry, for development.

Apache Kafka's OAuthBearerUnsecuredLoginCallbackHandler has the same options:

    OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker" unsecuredLoginLifetimeSeconds="600";
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping

_OPTION = "unsecuredLogin"
_STRING, _NUMBER, _LIST = f"{_OPTION}StringClaim_", f"{_OPTION}NumberClaim_", f"{_OPTION}ListClaim_"
_LIFETIME_S = "3600"


class UnsecuredLogin:
    """The claims of a broker's tokens. Raises ValueError for options without a user, or with invalid numbers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        user_claim = options.get(f"{_OPTION}PrincipalClaimName", "").strip() or "sub"
        self._lifetime_s = int(options.get(f"{_OPTION}LifetimeSeconds", "").strip() or _LIFETIME_S)
        self._claims: dict[str, object] = {}
        for name, value in options.items():
            if name.startswith(_STRING):
                self._claims[name.removeprefix(_STRING)] = value
            elif name.startswith(_NUMBER):
                self._claims[name.removeprefix(_NUMBER)] = float(value)
            elif name.startswith(_LIST):
                self._claims[name.removeprefix(_LIST)] = _list(value)
        if not isinstance(user := self._claims.get(user_claim), str) or not user.strip():
            raise ValueError(f"the login module has no {_STRING}{user_claim}, the user of the broker's tokens")

    def token(self, now_ms: int) -> str:
        """Return a token that is valid from now on."""
        claims = {**self._claims, "iat": now_ms / 1000, "exp": now_ms / 1000 + self._lifetime_s}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _list(value: str) -> list[str]:
    """Return the words of a list, which begins with its separator unless that is a comma."""
    if value and not (value[0].isalnum() or value[0] in "_ "):
        return value[1:].split(value[0])
    return value.split(",") if value else []


def _part(members: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(members, separators=(",", ":")).encode()).decode().rstrip("=")
