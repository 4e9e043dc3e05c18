"""The client's side of SASL, with our server's, and with servers that violate the protocol."""

from __future__ import annotations

from base64 import b64decode

import pytest

from security.sasl.client import (
    BearerClient,
    PlainClient,
    ScramClient,
    ServerRefused,
)
from security.sasl.exchange_protocol import InvalidCredentials, Refused
from security.sasl.oauthbearer import InvalidToken, OAuthBearerExchange, Token
from security.sasl.plain import PlainExchange
from security.sasl.scram import ScramExchange
from security.sasl.scram_credential import ScramMechanism, credential_of

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NAME = "o=n,e"


def server(mechanism: ScramMechanism, password: str = "pencil") -> ScramExchange:
    credential = credential_of(mechanism, mechanism.salted_password(password, SALT, 4096), SALT, 4096)
    return ScramExchange(mechanism, {NAME: credential}.get, b"secret", "server")


def test_vectors_of_the_rfc() -> None:
    """RFC 7677, section 3."""
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    nonces = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.answer(f"r={nonces},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={nonces},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scram_with_our_server(mechanism: ScramMechanism) -> None:
    client, exchange = ScramClient(mechanism, NAME, "pencil", "client"), server(mechanism)
    final = client.answer(exchange.step(client.first()))
    assert final is not None
    assert client.answer(exchange.step(final)) is None
    assert exchange.user == NAME


def test_our_server_rejects_a_wrong_password() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    client, exchange = ScramClient(mechanism, NAME, "pen", "client"), server(mechanism)
    final = client.answer(exchange.step(client.first()))
    assert final is not None
    with pytest.raises(InvalidCredentials):
        exchange.step(final)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"e=other-error",
        b"r=client,s=c2FsdA==,i=4096",  # no nonce of the server's own
        b"r=another,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=1",
        b"r=clientserver,s=c2FsdA==,i=999999999",
        b"r=clientserver,s=?,i=4096",
        b"\xff\xfe",
    ],
)
def test_server_that_does_not_speak_scram_gets_no_proof(first: bytes) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_512, NAME, "pencil", "client")
    with pytest.raises(ServerRefused):
        client.answer(first)


@pytest.mark.parametrize("final", [b"v=AAAA", b"e=invalid-proof", b""])
def test_server_must_prove_that_it_knows_the_password(final: bytes) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, NAME, "pencil", "client")
    client.answer(b"r=clientserver,s=c2FsdA==,i=4096")
    with pytest.raises(ServerRefused, match="does not know the password"):
        client.answer(final)


def test_delegation_token_says_that_it_is_one() -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "id", "hmac", "nonce", by_token=True)
    assert client.first() == b"n,,n=id,r=nonce,tokenauth=true"


def test_plain_with_our_server() -> None:
    exchange = PlainExchange({"alice": "s\u00e4cret"})
    client = PlainClient("alice", "s\u00e4cret")
    assert client.answer(exchange.step(client.first())) is None
    assert exchange.user == "alice"
    with pytest.raises(Refused):
        PlainExchange({"alice": "secret"}).step(client.first())


def test_bearer_with_our_server() -> None:
    def validate(token: str) -> Token:
        if token != "good":
            raise InvalidToken(token)
        return Token("alice", 0)

    exchange, client = OAuthBearerExchange(validate), BearerClient("good")
    assert client.answer(exchange.step(client.first())) is None
    assert exchange.user == "alice"

    exchange, client = OAuthBearerExchange(validate), BearerClient("bad")
    last = client.answer(exchange.step(client.first()))
    assert last == b"\1"
    with pytest.raises(Refused, match="invalid_token"):
        exchange.step(last)
