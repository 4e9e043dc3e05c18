"""What all SASL mechanisms have in common, seen from the server: tokens come, tokens are answered, until one is known.

An exchange is made for one try to authenticate. `InvalidCredentials` carries what went wrong for the broker's log
alone: the client is told no more than that it did. `Refused` carries a text that Kafka tells the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class InvalidCredentials(Exception):
    """Authentication failed; why is no business of the client's."""


class Refused(Exception):
    """Authentication failed, and the client is told why in these words."""


class Exchange(Protocol):
    """The server's side of one authentication."""

    @property
    def user(self) -> str | None:
        """Who it is, once that is proven; None until then."""

    @property
    def expires_at_ms(self) -> int | None:
        """When what was shown runs out (milliseconds of the wall clock); None where it does not."""

    @property
    def by_token(self) -> bool:
        """Whether a delegation token was shown, in the place of what its owner knows."""

    def step(self, token: bytes) -> bytes:
        """The answer to the client's next token. Raises InvalidCredentials or Refused: the exchange is over then."""


NewExchange: TypeAlias = Callable[[], Exchange]
