"""Delegation tokens of this cluster: their secret, whose they are, and that they go when their time is over."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hmac import compare_digest
from typing import TYPE_CHECKING

from broker.config.values import Password
from broker.ids import random_id
from metadata.delegation_tokens import Lifetimes, expired_tokens, is_expired
from security.delegation_token import TokenCredential, token_credential, token_hmac

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import BrokerConfig
    from broker.controller import Controller
    from broker.dispatch import RequestContext
    from broker.timers import Timers
    from protocol.schema import Struct
    from security.scram_credential import ScramMechanism

_USER_PREFIX = "User:"
_FIRST_VERSION_WITH_REQUESTER = 3


class DelegationTokens:
    """All of them. `secret` is None where there are to be none."""

    def __init__(self, config: BrokerConfig, controller: Controller, clock: Clock, timers: Timers) -> None:
        secret = config.values["delegation.token.secret.key"]
        self.secret = secret.value if isinstance(secret, Password) else None
        self.lifetimes = Lifetimes(
            config.get_int("delegation.token.max.lifetime.ms"), config.get_int("delegation.token.expiry.time.ms")
        )
        self._controller = controller
        self._clock = clock
        self._timers = timers
        self._sweep_ms = config.get_int("delegation.token.expiry.check.interval.ms")

    def start(self) -> None:
        """Look for expired ones from now on."""
        if self.secret is not None:
            self._timers.call_later(self._sweep_ms, self._sweep)

    def _sweep(self) -> None:
        self._controller.submit(expired_tokens(self._controller.image, self._clock.now_ms()))
        self._timers.call_later(self._sweep_ms, self._sweep)

    @staticmethod
    def new_id() -> str:
        """As Kafka's."""
        return urlsafe_b64encode(random_id()).decode().rstrip("=")

    def by_hmac(self, code: bytes) -> Struct | None:
        """The token with that HMAC."""
        assert self.secret is not None
        for token_id, token in self._controller.image.delegation_tokens.items():
            if compare_digest(token_hmac(self.secret, token_id), code):
                return token
        return None

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """By what SCRAM knows who has a token; None for one that is not there, or not any more."""
        token = self._controller.image.delegation_tokens.get(token_id)
        if self.secret is None or token is None or is_expired(token, self._clock.now_ms()):
            return None
        credential = token_credential(mechanism, self.secret, token_id)
        return TokenCredential(token.owner.removeprefix(_USER_PREFIX), token.expiration_timestamp, credential)


def may_ask(ctx: RequestContext) -> bool:
    """Whether a client may ask for tokens: who has not come by one, and is known by more than an open connection."""
    peer = ctx.connection
    if peer.token_authenticated or peer.security_protocol == "PLAINTEXT":
        return False
    return peer.security_protocol != "SSL" or peer.principal != "User:ANONYMOUS"


def people_of(version: int, owner: str, requester: str) -> dict[str, str]:
    """Whose a token is, as fields of answers in that version."""
    kind, _, name = owner.partition(":")
    people = {"principal_type": kind, "principal_name": name}
    if version >= _FIRST_VERSION_WITH_REQUESTER:
        kind, _, name = requester.partition(":")
        people |= {"token_requester_principal_type": kind, "token_requester_principal_name": name}
    return people
