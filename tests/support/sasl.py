"""The client's side of SASL, by hand, and tokens of OAUTHBEARER."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Struct
from security.sasl.scram_credential import ScramMechanism
from tests.support.wire import WireClient


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    """Return the only token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def scram_final(mechanism: ScramMechanism, bare: str, challenge: bytes, password: str) -> bytes:
    """Return a client's answer to the server's first message, for a password."""
    parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
    without_proof = f"c=biws,r={parts['r']}"
    salted = mechanism.salted_password(password, b64decode(parts["s"]), int(parts["i"]))
    client_key = mechanism.hmac(salted, b"Client Key")
    covered = f"{bare},{challenge.decode()},{without_proof}".encode()
    signature = mechanism.hmac(mechanism.hash(client_key), covered)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={b64encode(proof).decode()}".encode()


def log_in_plain(client: WireClient, user: str, password: str, version: int = 2) -> Struct:
    """Send handshake and token; return the last answer."""
    assert client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    return client.call(SASL_AUTHENTICATE, version, auth_bytes=plain_token(user, password))


def log_in_scram(client: WireClient, mechanism: ScramMechanism, user: str, password: str) -> list[Struct]:
    """Send the handshake and both messages; return the answers to these. The first may be the last."""
    assert client.call(SASL_HANDSHAKE, 1, mechanism=mechanism.sasl_name).error_code == 0
    bare = f"n={user},r=clientnonce"
    answers = [client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,{bare}".encode())]
    if answers[0].error_code == 0:
        token = scram_final(mechanism, bare, bytes(answers[0].auth_bytes), password)
        answers.append(client.call(SASL_AUTHENTICATE, 2, auth_bytes=token))
    return answers


class Provider:
    """A provider whose keys are in a file at `url`, with the fields `said` for each. `turn_over` rotates the key."""

    def __init__(self, directory: Path, **said: str) -> None:
        self._said = said
        self._path = directory / "jwks.json"
        self.url = self._path.as_uri()
        self._public_keys: list[dict[str, Any]] = []
        self.turn_over()

    def turn_over(self, *, publish: bool = True) -> None:
        """Sign with a new key from now on."""
        self.key = generate_private_key(65537, 2048)
        self.key_id = f"key-{time.monotonic_ns()}"
        public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self._public_keys.append({**public, "kid": self.key_id, "use": "sig", **self._said})
        if publish:
            self.publish()

    def publish(self, *others: Any) -> None:
        """Publish the public keys."""
        self._path.write_text(json.dumps({"keys": [*self._public_keys, *others]}))

    def token(self, key: Any = None, algorithm: str = "RS256", headers: Any = None, **claims: Any) -> str:
        """Return a token, valid for alice for an hour by default; a claim of None is left out."""
        now_s = int(time.time())
        said = {"sub": "alice", "iat": now_s, "exp": now_s + 3600} | claims
        return jwt.encode(
            {name: value for name, value in said.items() if value is not None},
            key if key is not None else self.key,
            algorithm=algorithm,
            headers=headers or {"kid": self.key_id},
        )
