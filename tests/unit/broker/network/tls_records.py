"""TLS 1.3 records by hand, which Python's `ssl` cannot send."""

from __future__ import annotations

import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_APPLICATION_DATA, _HANDSHAKE = 23, 22
_KEY_UPDATE = 24


class Records:
    """The records of a client that sent nothing since its handshake, with TLS_AES_256_GCM_SHA384.

    Args:
        key_log: the file of `ssl.SSLContext.keylog_filename`.
    """

    def __init__(self, key_log: Path) -> None:
        secrets = dict(line.split()[::2] for line in key_log.read_text().splitlines() if not line.startswith("#"))
        self._use(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"]))

    def data(self, data: bytes) -> bytes:
        """Return a record with these bytes."""
        return self._record(data, _APPLICATION_DATA)

    def key_update(self, *, requested: bool = False) -> bytes:
        """Return a key update for all later records; `requested`: the server must update its key, too."""
        record = self._record(struct.pack(">IB", _KEY_UPDATE << 24 | 1, requested), _HANDSHAKE)
        self._use(self._expand(b"traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = AESGCM(self._expand(b"key", 32))
        self._mask = int.from_bytes(self._expand(b"iv", 12))
        self._sent = 0

    def _expand(self, label: bytes, size: int) -> bytes:
        info = struct.pack(">HB6s", size, 6 + len(label), b"tls13 ") + label + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)

    def _record(self, content: bytes, kind: int) -> bytes:
        nonce = (self._mask ^ self._sent).to_bytes(12)
        self._sent += 1
        head = struct.pack(">BHH", _APPLICATION_DATA, 0x0303, len(content) + 17)
        return head + self._cipher.encrypt(nonce, content + bytes((kind,)), head)
