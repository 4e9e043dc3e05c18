"""An OAuth provider that signs bearer tokens and publishes its keys."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm


class Provider:
    """A provider whose keys are in a file at `url`, with the fields `said` for each. `turn_over` rotates the key."""

    def __init__(self, directory: Path, **said: str) -> None:
        self._said = said
        self._path = directory / "jwks.json"
        self.url = self._path.as_uri()
        self._told: list[dict[str, Any]] = []
        self.turn_over()

    def turn_over(self, *, tell: bool = True) -> None:
        """Sign with a new key from now on."""
        self.key = generate_private_key(65537, 2048)
        self.key_id = f"key-{time.monotonic_ns()}"
        public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self._told.append({**public, "kid": self.key_id, "use": "sig", **self._said})
        if tell:
            self.tell()

    def tell(self, *others: Any) -> None:
        """Publish the public keys."""
        self._path.write_text(json.dumps({"keys": [*self._told, *others]}))

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
