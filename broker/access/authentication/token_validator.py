"""Validates bearer tokens: signature by a key of the provider, time, audience, and user.

It checks the claims that Apache Kafka's BrokerJwtValidator checks. PyJWT verifies the signatures.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import jwt
from jwt.exceptions import PyJWTError

from broker.access.authentication.jwks import Jwks
from security.sasl.oauthbearer import LATEST_MS, InvalidToken, Token

if TYPE_CHECKING:
    from broker.access.authentication.services import AuthenticationServices
    from config import BrokerConfig

log = logging.getLogger(__name__)

MECHANISM = "OAUTHBEARER"
_PREFIX = "sasl.oauthbearer."
#: Algorithms with key pairs only: the key that verifies a signature cannot make one.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class TokenValidator:
    """The validator of one listener, called with a token. Raises InvalidToken."""

    def __init__(self, config: BrokerConfig, listener_name: str, jwks: Jwks) -> None:
        def value(key: str) -> Any:
            return config.get_for_mechanism(listener_name, MECHANISM, _PREFIX + key)

        self._jwks = jwks
        self._audience: list[str] | None = list(value("expected.audience")) or None
        self._issuer: str | None = value("expected.issuer")
        self._skew_s: int = value("clock.skew.seconds")
        self._user_claim: str = value("sub.claim.name")

    def __call__(self, token: str) -> Token:
        try:
            return self._validated(token)
        except (PyJWTError, InvalidToken, ValueError, OverflowError, RecursionError) as error:
            log.debug("A token is not accepted: %s", error)
            raise InvalidToken(str(error)) from None

    def _validated(self, token: str) -> Token:
        key = self._jwks.key(jwt.get_unverified_header(token).get("kid"))
        if key is None:
            raise InvalidToken("it is signed by an unknown key")
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[each for each in key.algorithms if each in _ALGORITHMS],
            audience=self._audience,
            issuer=self._issuer,
            leeway=self._skew_s,
            options={
                "require": ["exp", "iat"],
                "verify_aud": self._audience is not None,
                "verify_iss": self._issuer is not None,
                "verify_sub": False,
            },
        )
        user = claims.get(self._user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"no user is in its claim {self._user_claim}")
        return Token(user.strip(), min(int(claims["exp"]) * 1000, LATEST_MS))


def token_validator(services: AuthenticationServices, listener_name: str) -> TokenValidator:
    """Return the validator of a listener, with the provider's keys. Blocks. Raises JwksError."""
    config = services.config

    def value(key: str) -> Any:
        return config.get_for_mechanism(listener_name, MECHANISM, f"{_PREFIX}jwks.endpoint.{key}")

    jwks = Jwks(
        value("url"),
        services.timers,
        services.offload,
        refresh_ms=value("refresh.ms"),
        backoff_ms=value("retry.backoff.max.ms"),
    )
    jwks.start()
    return TokenValidator(config, listener_name, jwks)
