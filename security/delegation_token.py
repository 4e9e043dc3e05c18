"""Delegation tokens (KIP-48): a name that anybody may know, and a password that only this cluster can make of it.

A client logs in by SCRAM with the token's id for a user and the password, and is the token's owner then. Nothing of the
password is stored: it follows from the id and delegation.token.secret.key.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from functools import lru_cache
from typing import NamedTuple

from security.scram_credential import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_of


class TokenCredential(NamedTuple):
    """By what SCRAM knows who has a token: `owner` is who they are then, without "User:"."""

    owner: str
    expires_at_ms: int
    credential: ScramCredential


def token_hmac(secret: str, token_id: str) -> bytes:
    """What its owner gets along with a token, and names it by."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(code: bytes) -> str:
    """The password that goes with a token's HMAC."""
    return b64encode(code).decode()


@lru_cache(maxsize=10_000)  # some 10 MB, for a fleet whose every process has a token of its own
def token_credential(mechanism: ScramMechanism, secret: str, token_id: str) -> ScramCredential:
    """Costs some milliseconds for the first who comes with a token."""
    code = token_hmac(secret, token_id)
    salt = hmac.digest(code, b"salt", "sha256")
    return credential_of(
        mechanism, mechanism.salted_password(token_password(code), salt, MIN_ITERATIONS), salt, MIN_ITERATIONS
    )
