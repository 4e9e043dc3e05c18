r"""OAUTHBEARER (RFC 7628): the client sends a signed token. Use it on encrypted connections only.

n,,\1auth=Bearer TOKEN\1\1      ->  (empty)
                                ->  {"status":"invalid_token"}, which the client has to answer: \1  ->  failed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from security.sasl.exchange_protocol import InvalidCredentials, Refused

_SEPARATOR = b"\1"
_ESCAPES = (("=2C", ","), ("=3D", "="))
#: The longest token, in characters. Real tokens have one or two thousand. Checking tokens of a million characters would
#: delay all other clients.
_LONGEST_TOKEN = 16 * 1024
#: The end of the year 9999: a longer session does not fit into a response.
LATEST_MS = 253_402_300_799_999


class InvalidToken(Exception):
    """Why a token is rejected, for the broker's log. The client gets `refusal`."""

    refusal = '{"status":"invalid_token"}'


class InsufficientScope(InvalidToken):
    """The token lacks scopes. The client gets the required ones."""

    def __init__(self, required: Sequence[str]) -> None:
        super().__init__(f"its scope has not all of {', '.join(required)}")
        self.refusal = f'{{"status":"insufficient_scope", "scope":"[{", ".join(required)}]"}}'


class Token(NamedTuple):
    """The content of a valid token. It expires at `LATEST_MS` at the latest."""

    user: str
    expires_at_ms: int


Validate: TypeAlias = Callable[[str], Token]
"""Validate a token. Raises InvalidToken."""


class OAuthBearerExchange:
    """One token, and one more message if the token is rejected."""

    by_token = False

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def step(self, token: bytes) -> bytes:
        """Return an empty response if the token is accepted, else the error.

        After an error the exchange ends with the client's next message.
        """
        if self._refusal is not None:
            raise Refused(self._refusal)
        authorization_id, bearer = _parse(token)
        try:
            if len(bearer) > _LONGEST_TOKEN:
                raise InvalidToken("it is too long")
            accepted = self._validate(bearer)
        except InvalidToken as error:
            self._refusal = error.refusal
            return self._refusal.encode()
        if authorization_id not in ("", accepted.user):
            raise Refused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different"
                f" from the token's principal name ({accepted.user})"
            )
        self.user, self.expires_at_ms = accepted
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Return the authorization id, or "", and the token. Raises InvalidCredentials."""
    try:
        header, *pairs, end, rest = message.split(_SEPARATOR)
        flag, authorization_id, nothing = header.decode().split(",")
        values = dict(pair.decode().split("=", 1) for pair in pairs)
    except ValueError:
        raise InvalidCredentials("Invalid OAUTHBEARER client first message") from None
    if flag != "n" or nothing or end or rest or (authorization_id and not authorization_id.startswith("a=")):
        raise InvalidCredentials("Invalid OAUTHBEARER client first message")
    scheme, _, bearer = values.get("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not bearer.strip():
        raise InvalidCredentials("Invalid OAUTHBEARER client first message: no 'auth' with a bearer's token")
    authorization_id = authorization_id.removeprefix("a=")
    for escape, character in _ESCAPES:
        authorization_id = authorization_id.replace(escape, character)
    return authorization_id, bearer.strip()
