"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows a password without sending it.

    C: n,,n=alice,r=<client nonce>
    S: r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    C: c=biws,r=<both nonces>,p=<proof>
    S: v=<signature>

Kafka ends the exchange at the first message of an unknown user. This server sends such a user a salt that is computed
from the name and a secret, the same each time, with iterations that a real user has. The exchange then fails where a
wrong password fails.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import TypeAlias

from security.delegation_token import TokenCredential
from security.sasl.exchange_protocol import InvalidCredentials, Refused
from security.sasl.scram_credential import MIN_ITERATIONS, ScramCredential, ScramMechanism
from security.sasl.scram_messages import (
    ClientFirst,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
#: Salts and nonces are numbers of 130 bits in base 36, as in Kafka.
_NONCE_BITS = 130
_PLACE_BYTES = 4

FindCredential: TypeAlias = Callable[[str], ScramCredential | None]
FindToken: TypeAlias = Callable[[str], TokenCredential | None]
#: Returns the iterations of the user at a position, 0 to below 1, among all users in the order of their iterations.
IterationsAt: TypeAlias = Callable[[float], int]
#: The extension by which a client says that the user is the id of a delegation token (KIP-48).
_TOKEN_AUTH = "tokenauth"


class ScramExchange:
    """One authentication.

    Args:
        find: returns the credential of a user, None for an unknown one.
        secret: of this broker, for the salts of unknown users.
        nonce: of this exchange, from a secure random generator.
        find_token: returns the credential of a delegation token by its id.
        iterations_at: returns iterations for unknown users.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: FindCredential,
        secret: bytes,
        nonce: str,
        find_token: FindToken = lambda _: None,
        iterations_at: IterationsAt = lambda _: MIN_ITERATIONS,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._iterations_at = iterations_at
        self._secret = secret
        self._nonce = nonce
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._credential: ScramCredential
        self._is_known = False
        self._name = ""  # the user, once it has proved to know the password
        self.user: str | None = None
        self.expires_at_ms: int | None = None
        self.by_token = False

    def step(self, token: bytes) -> bytes:
        """Return the server's first message, then its final one."""
        return self._challenge(parse_client_first(token)) if self._first is None else self._verify(self._first, token)

    def _challenge(self, first: ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.user):
            raise Refused("Authentication failed: Client requested an authorization id that is different from username")
        found = self._find_any(first)
        made_up = self._made_up(first.user)  # computed for every user, because it takes time
        self._is_known = found is not None
        self._credential = found or made_up
        self._first = first
        self._nonce = first.nonce + self._nonce
        self._server_first = server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return self._server_first.encode()

    def _find_any(self, first: ClientFirst) -> ScramCredential | None:
        """Return the credential of a user, or of a token if the client says that it is one."""
        self._name = first.user
        if first.extensions.get(_TOKEN_AUTH, "").lower() != "true":
            return self._find(first.user)
        self.by_token = True
        token = self._find_token(first.user)
        if token is None:
            return None
        self._name, self.expires_at_ms, credential = token
        return credential

    def _verify(self, first: ClientFirst, token: bytes) -> bytes:
        final = parse_client_final(token)
        if not final.nonce.endswith(self._nonce):
            raise InvalidCredentials("the nonce is not that of this exchange")
        mechanism, credential = self._mechanism, self._credential
        covered = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        signature = mechanism.hmac(credential.stored_key, covered)
        client_key = bytes(a ^ b for a, b in zip(signature, final.proof, strict=False))
        proven = compare_digest(mechanism.hash(client_key), credential.stored_key)
        answer = server_final(mechanism.hmac(credential.server_key, covered))
        if not (proven and self._is_known):
            raise InvalidCredentials("wrong password" if self._is_known else "no such user")
        self.user = self._name
        return answer.encode()

    def _made_up(self, user: str) -> ScramCredential:
        """Return a credential for an unknown user, whose password nobody knows."""
        mechanism = self._mechanism
        seed = mechanism.hmac(self._secret, user.encode())
        salt = to_base_36(int.from_bytes(seed) >> (8 * len(seed) - _NONCE_BITS)).encode()
        place = int.from_bytes(seed[-_PLACE_BYTES:]) / (1 << 8 * _PLACE_BYTES)  # bits that the salt does not use
        iterations = MIN_ITERATIONS if self.by_token else self._iterations_at(place)  # tokens have MIN_ITERATIONS
        return ScramCredential(salt, mechanism.hash(seed), seed, iterations)


def to_base_36(number: int) -> str:
    """Return the number in base 36, as Java's BigInteger.toString(36)."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def new_nonce(random_bits: Callable[[int], int]) -> str:
    """Return a nonce or the text of a salt; `random_bits(count)` returns a number of that many random bits."""
    return to_base_36(random_bits(_NONCE_BITS))
