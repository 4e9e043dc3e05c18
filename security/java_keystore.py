"""Java's own format of key stores (JKS), as every JDK writes it with `-storetype JKS`, and before Java 9 without.

A store is a list of entries, each a private key with its certificates or one trusted certificate, and a SHA-1 digest of
all that and the password. A key is hidden under a key stream of SHA-1 digests of its password; sun.security.provider's
JavaKeyStore and KeyProtector are what documents it. Libraries that read it are no longer kept up.

All numbers are big endian; a text is an int16 of its size and so much (modified) UTF-8.

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
"""What a file in this format begins with."""

_KEY, _TRUSTED = 1, 2
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
#: sun.security.util.KnownOIDs.JDKKeyProtector, 1.3.6.1.4.1.42.2.17.1.1, in DER.
_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
_SEQUENCE, _OCTET_STRING = 0x30, 0x04


class KeystoreError(ValueError):
    """Bytes that are no store in this format."""


class WrongPassword(KeystoreError):
    """A password that opens neither the store nor the key that it was tried on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: certificates in DER, a key's own first; `protected_key` is None where one certificate is trusted."""

    alias: str
    certificates: tuple[bytes, ...]
    protected_key: bytes | None = None


def entries(data: bytes, password: str | None) -> list[Entry]:
    """All entries of a store. Without a password its digest is not looked at, as in Java. Raises KeystoreError."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        raise KeystoreError("it does not begin as such a store does")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise WrongPassword("its digest is not that of this password")
    reader = _Reader(body, len(MAGIC))
    version = reader.int32()
    if version not in (1, 2):
        raise KeystoreError(f"version {version} is not known")
    found = [_entry(reader, version) for _ in range(reader.int32())]
    if reader.position != len(body):
        raise KeystoreError("it goes on behind its last entry")
    return found


def private_key(entry: Entry, password: str) -> bytes:
    """The key of an entry as PKCS #8, in DER. Raises WrongPassword, KeystoreError."""
    hidden = _protected(entry.protected_key or b"")
    if len(hidden) < 2 * _DIGEST_BYTES:
        raise KeystoreError("its key is cut off")
    salt, covered, check = hidden[:_DIGEST_BYTES], hidden[_DIGEST_BYTES:-_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
    secret = _utf16(password)
    stream, block = bytearray(), salt
    while len(stream) < len(covered):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(left ^ right for left, right in zip(covered, stream, strict=False))
    if not hmac.compare_digest(check, hashlib.sha1(secret + key).digest()):
        raise WrongPassword("the digest of its key is not that of this password")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _entry(reader: _Reader, version: int) -> Entry:
    kind, alias = reader.int32(), reader.text()
    reader.take(8)  # when it was made
    if kind == _TRUSTED:
        return Entry(alias, (reader.certificate(version),))
    if kind != _KEY:
        raise KeystoreError(f"an entry of kind {kind} is not known")
    protected = reader.sized()
    return Entry(alias, tuple(reader.certificate(version) for _ in range(reader.int32())), protected)


def _protected(data: bytes) -> bytes:
    """What is in an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { algorithm, NULL }, OCTET STRING }."""
    outer, _ = _der(data, 0, _SEQUENCE)
    algorithm, end = _der(outer, 0, _SEQUENCE)
    if not algorithm.startswith(_PROTECTOR):
        raise KeystoreError("its key is protected in a way that is not known")
    return _der(outer, end, _OCTET_STRING)[0]


def _der(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    """The content of the element at `position`, and where it ends."""
    head = data[position : position + 2]
    if len(head) < 2 or head[0] != tag:
        raise KeystoreError("its key is not what it should be")
    start, size = position + 2, head[1]
    if size & 0x80:
        length = size & 0x7F
        size = int.from_bytes(data[start : start + length], "big")
        start += length
    if start + size > len(data):
        raise KeystoreError("its key is cut off")
    return data[start : start + size], start + size


class _Reader:
    """Takes a store's fields from the front."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise KeystoreError("it is cut off")
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
            raise KeystoreError(f"certificates of {kind} are not known")
        return self.sized()
