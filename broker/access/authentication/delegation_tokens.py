"""Delegation tokens of this cluster: their secret, their owners and their expiry."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from config.values import Password
from metadata.decision import Refused
from metadata.delegation_tokens import TokenLifetimes, expired_tokens, is_expired
from protocol.error_codes import ErrorCode
from runtime.ids import random_id
from security.delegation_token import TokenCredential, token_credential, token_hmac

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.metadata_cache import MetadataCache
    from broker.requests.context import RequestContext
    from broker.requests.served_api import Reply
    from config import BrokerConfig
    from controller.controller import Controller
    from metadata.decision import Decision
    from metadata.delta import Delta
    from protocol.schema import Struct
    from runtime.clock import Clock
    from runtime.deferred import Deferred
    from runtime.timers import Timers
    from security.sasl.scram_credential import ScramMechanism

_USER_PREFIX = "User:"
_FIRST_VERSION_WITH_REQUESTER = 3
_NO_TIME = -1
#: The most expired tokens that are removed in one turn of the loop.
_MOST_SWEPT = 500


class DelegationTokens:
    """All tokens. `secret` is None if tokens are disabled.

    `controller` removes expired tokens; None if the controllers are other nodes, which do that themselves.
    """

    def __init__(
        self, config: BrokerConfig, metadata: MetadataCache, controller: Controller | None, clock: Clock, timers: Timers
    ) -> None:
        secret = config.values["delegation.token.secret.key"]
        self.secret = secret.value if isinstance(secret, Password) else None
        self.lifetimes = TokenLifetimes(
            config.get_int("delegation.token.max.lifetime.ms"), config.get_int("delegation.token.expiry.time.ms")
        )
        self._image = metadata.image
        self._controller = controller
        self._clock = clock
        self._timers = timers
        self._sweep_ms = config.get_int("delegation.token.expiry.check.interval.ms")
        self._ids: dict[bytes, str] = {}  # by the hash of their HMAC, so that the time of a look-up reveals nothing
        if self.secret is not None:
            for token_id in self._image.delegation_tokens:
                self._ids[self._place(token_id)] = token_id
            metadata.on_change(self._on_change)

    def start(self) -> None:
        """Remove expired tokens from now on."""
        if self.secret is not None and self._controller is not None:
            self._timers.call_later(self._sweep_ms, self._sweep)

    def _on_change(self, delta: Delta) -> None:
        for token_id in delta.changed_tokens:
            if token_id in self._image.delegation_tokens:
                self._ids[self._place(token_id)] = token_id
            else:
                self._ids.pop(self._place(token_id), None)

    def _place(self, token_id: str) -> bytes:
        assert self.secret is not None
        return sha256(token_hmac(self.secret, token_id)).digest()

    def _sweep(self) -> None:
        expired = expired_tokens(self._image, self._clock.now_ms(), _MOST_SWEPT)
        assert self._controller is not None
        swept = self._controller.submit(expired, of_request=False)
        if len(expired) < _MOST_SWEPT:
            self._timers.call_later(self._sweep_ms, self._sweep)
        else:  # there may be more: go on when these are on disk
            swept.add_done_callback(self._sweep_on)

    def _sweep_on(self, swept: Deferred[None]) -> None:
        try:
            swept.result()
        except Exception:  # the controller has logged it
            self._timers.call_later(self._sweep_ms, self._sweep)
        else:
            self._timers.call_later(0, self._sweep)

    @staticmethod
    def new_id() -> str:
        """Return a new id in Kafka's form."""
        return urlsafe_b64encode(random_id()).decode().rstrip("=")

    def by_hmac(self, code: bytes) -> Struct | None:
        """Return the token with that HMAC, or None."""
        token_id = self._ids.get(sha256(code).digest())
        return None if token_id is None else self._image.delegation_tokens[token_id]

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return the SCRAM credential of a token; None if it does not exist or has expired."""
        token = self._image.delegation_tokens.get(token_id)
        if self.secret is None or token is None or is_expired(token, self._clock.now_ms()):
            return None
        credential = token_credential(mechanism, self.secret, token_id)
        return TokenCredential(token.owner.removeprefix(_USER_PREFIX), token.expiration_timestamp, credential)


def may_ask(ctx: RequestContext) -> bool:
    """Whether a client may use the token APIs: it is authenticated, and not by a token."""
    peer = ctx.connection
    if peer.token_authenticated or peer.security_protocol == "PLAINTEXT":
        return False
    return peer.security_protocol != "SSL" or peer.principal != "User:ANONYMOUS"


def change_end(
    tokens: DelegationTokens,
    controller: Controller,
    clock: Clock,
    ctx: RequestContext,
    code: bytes,
    decide: Callable[[Struct, str, int], Decision[int]],
) -> Reply:
    """Answer a request that changes when the token with the HMAC `code` expires.

    `decide(token, principal of the client, now)` returns the new time; raises Refused.
    """
    response = ctx.api.response
    if not may_ask(ctx):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIME)
    if tokens.secret is None:
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token = tokens.by_hmac(code)
    if token is None:
        return response(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    try:
        decision = decide(token, ctx.connection.principal, clock.now_ms())
    except Refused as refused:
        return response(error_code=refused.error_code)
    (end_ms,) = decision.results
    answer = response(expiry_timestamp_ms=end_ms)
    return controller.submit(decision.records).then(lambda _: answer)


def owner_and_requester_fields(version: int, owner: str, requester: str) -> dict[str, str]:
    """Return the owner and the requester of a token as fields of answers in that version."""
    kind, _, name = owner.partition(":")
    people = {"principal_type": kind, "principal_name": name}
    if version >= _FIRST_VERSION_WITH_REQUESTER:
        kind, _, name = requester.partition(":")
        people |= {"token_requester_principal_type": kind, "token_requester_principal_name": name}
    return people
