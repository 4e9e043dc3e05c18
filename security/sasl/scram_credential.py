"""The stored credential of a SCRAM user: enough to check a proof, not enough to compute one (RFC 5802, section 3)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384


class ScramMechanism(IntEnum):
    """SCRAM with a hash function. The numbers are those of messages and records; 0 is an unknown mechanism."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The mechanism's name in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of its hash function in hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the PBKDF2 of a password.

        It takes some milliseconds, for the client or for the user who sets the password.
        """
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


BY_SASL_NAME = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The credential of one user for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential for a salted password."""
    stored_key = mechanism.hash(mechanism.hmac(salted_password, b"Client Key"))
    return ScramCredential(salt, stored_key, mechanism.hmac(salted_password, b"Server Key"), iterations)
