"""The client's side of SASL, by hand."""

from __future__ import annotations

from base64 import b64decode, b64encode

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
