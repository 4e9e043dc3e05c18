"""Java's own key store format (JKS), as every JDK writes it with `-storetype JKS`, and before Java 9 by default.

A store is a list of entries, each a private key with its certificates or one trusted certificate, and a SHA-1 digest of
the entries and the password. A key is encrypted with a key stream of SHA-1 digests of its password. The documentation
is sun.security.provider's JavaKeyStore and KeyProtector. Libraries that read the format are no longer maintained.

All numbers are big-endian. A text is an int16 length and that many bytes of (modified) UTF-8.

    int32 magic, int32 version (1 or 2), int32 count
    count entries: int32 kind, text alias, int64 created (ms)
        kind 1, a key: int32 size, EncryptedPrivateKeyInfo (PKCS #8, DER); int32 count of certificates
        certificate (one in kind 2): text "X.509" (not in version 1), int32 size, DER
    20 bytes of SHA-1(password, "Mighty Aphrodite", all before)
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

MAGIC = b"\xfe\xed\xfe\xed"
"""The first bytes of a file in this format."""

_KEY, _TRUSTED = 1, 2
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
#: sun.security.util.KnownOIDs.JDKKeyProtector, 1.3.6.1.4.1.42.2.17.1.1, in DER.
_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
_SEQUENCE, _OCTET_STRING = 0x30, 0x04


class KeystoreError(ValueError):
    """The bytes are not a store in this format."""


class WrongPassword(KeystoreError):
    """The password does not open the store or the key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry: certificates in DER, a key's own one first. `protected_key` is None for a trusted certificate."""

    alias: str
    certificates: tuple[bytes, ...]
    protected_key: bytes | None = None


def entries(data: bytes, password: str | None) -> list[Entry]:
    """Return all entries of a store. As in Java, the digest is not checked without a password. Raises KeystoreError."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        raise KeystoreError("it does not begin with the magic number of JKS")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise WrongPassword("its digest does not match the password")
    reader = _Reader(body, len(MAGIC))
    version = reader.int32()
    if version not in (1, 2):
        raise KeystoreError(f"version {version} is unknown")
    found = [_entry(reader, version) for _ in range(reader.int32())]
    if reader.position != len(body):
        raise KeystoreError("there are bytes after its last entry")
    return found


def private_key(entry: Entry, password: str) -> bytes:
    """Return the key of an entry as PKCS #8, in DER. Raises WrongPassword, KeystoreError."""
    hidden = _protected(entry.protected_key or b"")
    if len(hidden) < 2 * _DIGEST_BYTES:
        raise KeystoreError("its key is truncated")
    salt, covered, check = hidden[:_DIGEST_BYTES], hidden[_DIGEST_BYTES:-_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
    secret = _utf16(password)
    stream, block = bytearray(), salt
    while len(stream) < len(covered):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(left ^ right for left, right in zip(covered, stream, strict=False))
    if not hmac.compare_digest(check, hashlib.sha1(secret + key).digest()):
        raise WrongPassword("the digest of its key does not match the password")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _entry(reader: _Reader, version: int) -> Entry:
    kind, alias = reader.int32(), reader.text()
    reader.take(8)  # the time of its creation
    if kind == _TRUSTED:
        return Entry(alias, (reader.certificate(version),))
    if kind != _KEY:
        raise KeystoreError(f"an entry has the unknown kind {kind}")
    protected = reader.sized()
    return Entry(alias, tuple(reader.certificate(version) for _ in range(reader.int32())), protected)


def _protected(data: bytes) -> bytes:
    """Return the content of an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { algorithm, NULL }, OCTET STRING }."""
    outer, _ = _der(data, 0, _SEQUENCE)
    algorithm, end = _der(outer, 0, _SEQUENCE)
    if not algorithm.startswith(_PROTECTOR):
        raise KeystoreError("its key is encrypted with an unknown algorithm")
    return _der(outer, end, _OCTET_STRING)[0]


def _der(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    """Return the content of the element at `position`, and its end position."""
    head = data[position : position + 2]
    if len(head) < 2 or head[0] != tag:
        raise KeystoreError("its key has an unexpected structure")
    start, size = position + 2, head[1]
    if size & 0x80:
        length = size & 0x7F
        size = int.from_bytes(data[start : start + length], "big")
        start += length
    if start + size > len(data):
        raise KeystoreError("its key is truncated")
    return data[start : start + size], start + size


class _Reader:
    """Reads the fields of a store in order."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise KeystoreError("it is truncated")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def int32(self) -> int:
        (value,) = struct.unpack(">i", self.take(4))
        assert isinstance(value, int)
        return value

    def sized(self) -> bytes:
        return self.take(self.int32())

    def text(self) -> str:
        size = int.from_bytes(self.take(2), "big")
        return self.take(size).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise KeystoreError(f"certificates of type {kind} are not supported")
        return self.sized()
