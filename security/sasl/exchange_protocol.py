"""The interface of the server's side of a SASL mechanism: the client sends tokens, the server answers.

The mechanisms verify credentials in `step`: `plain.py`, `scram.py` and `oauthbearer.py` beside this file.
`broker/access/authentication/sasl_connection.py` calls `step` for each token, until the user is known.

An exchange is one attempt to authenticate. `InvalidCredentials` has a reason for the broker's log alone: the client
only learns that authentication failed. `Refused` has a text that Kafka sends to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class InvalidCredentials(Exception):
    """Authentication failed. The reason is not sent to the client."""


class Refused(Exception):
    """Authentication failed. The message is sent to the client."""


class Exchange(Protocol):
    """The server's side of one authentication."""

    @property
    def user(self) -> str | None:
        """The user, once it is authenticated; None until then."""

    @property
    def expires_at_ms(self) -> int | None:
        """When the credentials expire (milliseconds of the wall clock); None if they do not."""

    @property
    def by_token(self) -> bool:
        """Whether the client authenticated with a delegation token."""

    def step(self, token: bytes) -> bytes:
        """Return the response to the client's next token. InvalidCredentials and Refused end the exchange."""


NewExchange: TypeAlias = Callable[[], Exchange]
