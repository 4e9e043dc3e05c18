"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): a password is proven and never sent.

    C: n,,n=alice,r=<client nonce>
    S: r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    C: c=biws,r=<both nonces>,p=<proof>
    S: v=<signature>

Kafka ends an exchange at the first message of a user that it does not know. Here such a user is sent a salt that is
made of the name and a secret, the same at each try, with iterations that some user has, and fails where a wrong
password does.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import TypeAlias

from security.delegation_token import TokenCredential
from security.exchange import InvalidCredentials, Refused
from security.scram_credential import MIN_ITERATIONS, ScramCredential, ScramMechanism
from security.scram_messages import ClientFirst, parse_client_final, parse_client_first, server_final, server_first

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
#: Salts and nonces are numbers of 130 bits to the base of 36, as Kafka makes them.
_NONCE_BITS = 130
_PLACE_BYTES = 4

FindCredential: TypeAlias = Callable[[str], ScramCredential | None]
FindToken: TypeAlias = Callable[[str], TokenCredential | None]
#: The iterations that a user has who stands at such a place, from 0 to below 1, among all users by their iterations.
IterationsAt: TypeAlias = Callable[[float], int]
#: The extension by which a client says that the user is a delegation token (KIP-48).
_TOKEN_AUTH = "tokenauth"


class ScramExchange:
    """One authentication.

    Args:
        find: the credential of a user by name, None for one who has none.
        secret: of this broker, for the salts of users who are not there.
        nonce: of this exchange, from a good source of chance.
        find_token: the credential of a delegation token by its id.
        iterations_at: as many as users have, for those who are not there.
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
        self._name = ""  # of who it is, if they prove it
        self.user: str | None = None
        self.expires_at_ms: int | None = None
        self.by_token = False

    def step(self, token: bytes) -> bytes:
        """The server's first message, then its final one."""
        return self._challenge(parse_client_first(token)) if self._first is None else self._verify(self._first, token)

    def _challenge(self, first: ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.user):
            raise Refused("Authentication failed: Client requested an authorization id that is different from username")
        found = self._find_any(first)
        made_up = self._made_up(first.user)  # for everybody, as it takes time
        self._is_known = found is not None
        self._credential = found or made_up
        self._first = first
        self._nonce = first.nonce + self._nonce
        self._server_first = server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return self._server_first.encode()

    def _find_any(self, first: ClientFirst) -> ScramCredential | None:
        """Of a user, or of a token, if the client says that it is one."""
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
            raise InvalidCredentials("another nonce than that of this exchange")
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
        """For a user who is not there: nobody has the password for it."""
        mechanism = self._mechanism
        seed = mechanism.hmac(self._secret, user.encode())
        salt = to_base_36(int.from_bytes(seed) >> (8 * len(seed) - _NONCE_BITS)).encode()
        place = int.from_bytes(seed[-_PLACE_BYTES:]) / (1 << 8 * _PLACE_BYTES)  # none of the bits that the salt has
        iterations = MIN_ITERATIONS if self.by_token else self._iterations_at(place)  # as of tokens
        return ScramCredential(salt, mechanism.hash(seed), seed, iterations)


def to_base_36(number: int) -> str:
    """As Java's BigInteger.toString(36)."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def new_nonce(random_bits: Callable[[int], int]) -> str:
    """A nonce, or the text of a salt; `random_bits(count)` gives a number of so many random bits."""
    return to_base_36(random_bits(_NONCE_BITS))
