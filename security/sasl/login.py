"""The requests of a SASL login (KIP-43, KIP-152), for clients with any kind of connection."""

from __future__ import annotations

from collections.abc import Generator

from protocol.client_session import error_text
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Api, Struct
from security.sasl.client import ClientExchange

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2

LoginRequests = Generator[tuple[Api, int, Struct], Struct, int]


class LoginRefused(Exception):
    """The broker rejects the mechanism or the credentials."""


class MechanismRefused(LoginRefused):
    """The broker does not accept the mechanism. `enabled` are those that it names; none if no login was expected."""

    def __init__(self, reason: str, enabled: list[str]) -> None:
        super().__init__(reason)
        self.enabled = enabled


class CredentialsRefused(LoginRefused):
    """The broker does not accept the credentials."""


def login_requests(mechanism: str, exchange: ClientExchange) -> LoginRequests:
    """Yield the requests (API, newest version, request) of a login, and take the fields of each response.

    Returns after how many milliseconds the broker expects another login (KIP-368); 0: never. Raises LoginRefused, and
    ServerRefused if the broker does not prove that it knows the password.
    """
    answer = yield SASL_HANDSHAKE, _HANDSHAKE_VERSION, SASL_HANDSHAKE.request(mechanism=mechanism)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise MechanismRefused(
            f"the listener accepts {', '.join(answer.mechanisms)}, not {mechanism}", answer.mechanisms
        )
    if answer.error_code:
        raise MechanismRefused(error_text(answer.error_code), [])
    message: bytes | None = exchange.first()
    lifetime_ms = 0
    while message is not None:
        request = SASL_AUTHENTICATE.request(auth_bytes=message)
        answer = yield SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, request
        if answer.error_code:
            raise CredentialsRefused(answer.error_message or error_text(answer.error_code))
        lifetime_ms = answer.session_lifetime_ms
        message = exchange.answer(answer.auth_bytes)
    return lifetime_ms
