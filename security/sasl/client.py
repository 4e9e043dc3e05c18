"""The client's side of PLAIN, SCRAM and OAUTHBEARER (RFC 4616, 5802 with 7677, 7628): messages in, messages out.

plain.py, scram.py and oauthbearer.py show the messages.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hmac import compare_digest
from typing import Protocol

from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism

#: The most iterations that a client computes for an unknown server: some seconds of hashing.
_MOST_ITERATIONS = 1 << 22
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_SERVER_FIRST = re.compile(rf"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?")
_SERVER_FINAL = re.compile(rf"v=(?P<signature>{_BASE64})(?:,.*)?")
_CHANNEL = "biws"  # `n,,` in base64: no channel binding


class ServerRefused(Exception):
    """The server's message does not prove or allow what it should."""


class ClientExchange(Protocol):
    """One authentication."""

    def first(self) -> bytes:
        """Return the client's first message."""
        ...

    def answer(self, message: bytes) -> bytes | None:
        """Return the client's answer to a message of the server; None if there is none. Raises ServerRefused."""
        ...


class PlainClient:
    """Sends the user and the password in clear text."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, message: bytes) -> bytes | None:
        return None


class BearerClient:
    """Sends a signed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        return f"n,,\1auth=Bearer {self._token}\1\1".encode()

    def answer(self, message: bytes) -> bytes | None:
        """Answer a refusal. The server's next message is the error."""
        return b"\1" if message else None


class ScramClient:
    """Proves that it knows the password, to a server that has to prove the same.

    Args:
        nonce: of this exchange, from a secure random generator.
        by_token: the user is the id of a delegation token, and the password is its HMAC (KIP-48).
    """

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}{',tokenauth=true' if by_token else ''}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, message: bytes) -> bytes | None:
        text = message.decode(errors="replace")
        if self._signature is None:
            return self._prove(text)
        match = _SERVER_FINAL.fullmatch(text)
        if match is None or not compare_digest(b64decode(match["signature"]), self._signature):
            raise ServerRefused("the server does not know the password either")
        return None

    def _prove(self, server_first: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None or not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise ServerRefused("the server's first message is not a SCRAM message")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise ServerRefused(f"the server asks for {iterations} iterations")
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, b64decode(match["salt"]), iterations)
        without_proof = f"c={_CHANNEL},r={match['nonce']}"
        covered = f"{self._bare},{server_first},{without_proof}".encode()
        client_key = mechanism.hmac(salted, b"Client Key")
        signature = mechanism.hmac(mechanism.hash(client_key), covered)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), covered)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
