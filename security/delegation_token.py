"""Delegation tokens (KIP-48): a public id, and a password that only this cluster can compute from it.

A client logs in by SCRAM, with the token's id as user and with the password, and then acts as the token's owner. The
password is not stored: it follows from the id and delegation.token.secret.key.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from functools import lru_cache
from typing import NamedTuple

from security.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)


class TokenCredential(NamedTuple):
    """The SCRAM credential of a token: `owner` is the user that its bearer acts as, without "User:"."""

    owner: str
    expires_at_ms: int
    credential: ScramCredential


def token_hmac(secret: str, token_id: str) -> bytes:
    """Return the HMAC of a token, which its owner gets and by which requests name the token."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(code: bytes) -> str:
    """Return the password for a token's HMAC."""
    return b64encode(code).decode()


@lru_cache(maxsize=10_000)  # some 10 MB, for a fleet in which every process has a token of its own
def token_credential(mechanism: ScramMechanism, secret: str, token_id: str) -> ScramCredential:
    """Return the credential of a token. It takes some milliseconds, except from the cache."""
    code = token_hmac(secret, token_id)
    salt = hmac.digest(code, b"salt", "sha256")
    return credential_of(
        mechanism, mechanism.salted_password(token_password(code), salt, MIN_ITERATIONS), salt, MIN_ITERATIONS
    )
