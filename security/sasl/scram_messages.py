"""The messages of SCRAM as text (RFC 5802, section 7), parsed as strictly as in Apache Kafka."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

import msgspec

from security.sasl.exchange_protocol import InvalidCredentials

_NAME = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-+\--\x7f]+"
_PRINTABLE = r"[!-+\--~]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME}))?,"
    rf"(?P<bare>{_RESERVED}n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ClientFirst(msgspec.Struct, frozen=True):
    """The client's first message, with its user. `bare` is the part that the proof covers."""

    user: str
    authorization_id: str
    nonce: str
    bare: str
    extensions: dict[str, str]


class ClientFinal(msgspec.Struct, frozen=True):
    """The client's proof."""

    nonce: str
    proof: bytes
    without_proof: str


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse a client's first message. Raises InvalidCredentials."""
    match = _CLIENT_FIRST.fullmatch(token.decode(errors="replace"))
    if match is None:
        raise InvalidCredentials("not the first message of a SCRAM client")
    extensions = dict(each.split("=", 1) for each in match["extensions"].split(",")[1:])
    authorization_id = _unescaped(match["authorization_id"] or "")
    return ClientFirst(_unescaped(match["name"]), authorization_id, match["nonce"], match["bare"], extensions)


def parse_client_final(token: bytes) -> ClientFinal:
    """Parse a client's final message. Raises InvalidCredentials."""
    match = _CLIENT_FINAL.fullmatch(token.decode(errors="replace"))
    if match is None:
        raise InvalidCredentials("not the final message of a SCRAM client")
    return ClientFinal(match["nonce"], b64decode(match["proof"]), match["without_proof"])


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the server's first message: both nonces, the salt and the iterations."""
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def server_final(signature: bytes) -> str:
    """Return the server's final message, which proves that the server knows the password, too."""
    return f"v={b64encode(signature).decode()}"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
