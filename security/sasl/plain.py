"""PLAIN (RFC 4616): user and password in one token. Use it on encrypted connections only."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from security.sasl.exchange_protocol import Refused

_USER_PREFIX = "user_"


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords by user, from the options `user_NAME="password"` of PlainLoginModule."""
    return {
        key.removeprefix(_USER_PREFIX): value
        for key, value in options.items()
        if key.startswith(_USER_PREFIX) and value
    }


class PlainExchange:
    """One token in UTF-8: authorization id, NUL, user, NUL, password."""

    expires_at_ms = None
    by_token = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        """Return an empty response if the password is right."""
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise Refused("Authentication failed: username not specified")
        if not password:
            raise Refused("Authentication failed: password not specified")
        known = self._passwords.get(user, "")  # an unknown user has an empty password, which no client can send
        if not compare_digest(known.encode(), password.encode()):
            raise Refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise Refused("Authentication failed: Client requested an authorization id that is different from username")
        self.user = user
        return b""
