"""SCRAM, with the vectors of RFC 7677 and a client written for the test."""

from __future__ import annotations

from base64 import b64decode

import pytest

from security.sasl.exchange_protocol import InvalidCredentials, Refused
from security.sasl.scram import ScramExchange, new_nonce, to_base_36
from security.sasl.scram_credential import (
    BY_SASL_NAME,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from security.sasl.scram_messages import parse_client_first
from tests.support.sasl import scram_final

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def credential(mechanism: ScramMechanism, password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, mechanism.salted_password(password, SALT, iterations), SALT, iterations)


def exchange_for(mechanism: ScramMechanism, nonce: str = "server") -> ScramExchange:
    users = {"user": credential(mechanism), "o=n,e": credential(mechanism)}
    return ScramExchange(mechanism, users.get, b"secret of this broker", nonce)


def test_vectors_of_the_rfc() -> None:
    """RFC 7677, section 3."""
    exchange = exchange_for(SHA_256, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert (
        exchange.step(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert exchange.user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["user", "o=3Dn=2Ce"])
def test_right_password(mechanism: ScramMechanism, name: str) -> None:
    exchange = exchange_for(mechanism)
    bare = f"n={name},r=client"
    challenge = exchange.step(f"n,,{bare}".encode())
    assert exchange.user is None
    assert exchange.step(scram_final(mechanism, bare, challenge, "pencil")).startswith(b"v=")
    assert exchange.user == name.replace("=2C", ",").replace("=3D", "=")


def test_unknown_user_takes_the_steps_of_a_wrong_password() -> None:
    """The same salt each time, of the usual length, and the error at the same step."""
    challenges = []
    for name in ("nobody", "nobody", "somebody", "user"):
        exchange = exchange_for(SHA_256)
        bare = f"n={name},r=client"
        challenge = exchange.step(f"n,,{bare}".encode())
        with pytest.raises(InvalidCredentials):
            exchange.step(scram_final(SHA_256, bare, challenge, "guess"))
        assert exchange.user is None
        challenges.append(challenge)
    assert challenges[0] == challenges[1] != challenges[2]
    salt = b64decode(challenges[0].decode().split(",s=")[1].split(",")[0])
    assert 20 <= len(salt) <= 26
    assert salt.isalnum()


def test_another_nonce_is_rejected() -> None:
    exchange = exchange_for(SHA_256)
    challenge = exchange.step(b"n,,n=user,r=client")
    with pytest.raises(InvalidCredentials, match="nonce"):
        exchange.step(scram_final(SHA_256, "n=user,r=client", challenge.replace(b"server", b"other"), "pencil"))


@pytest.mark.parametrize("proof", ["", "AAAA", "QUJD" * 30])
def test_proofs_of_another_size_are_rejected(proof: str) -> None:
    exchange = exchange_for(SHA_256)
    exchange.step(b"n,,n=user,r=client")
    with pytest.raises(InvalidCredentials):
        exchange.step(f"c=biws,r=clientserver,p={proof}".encode())


def test_another_authorization_id_is_rejected() -> None:
    with pytest.raises(Refused, match="authorization id that is different from username"):
        exchange_for(SHA_256).step(b"n,a=admin,n=user,r=client")
    assert exchange_for(SHA_256).step(b"n,a=user,n=user,r=client")


@pytest.mark.parametrize(
    "token", [b"", b"n,,", b"y,,n=user,r=x", b"n,,n=us=er,r=x", b"n,,n=user,r=", "n,,n=ü,r=x".encode(), b"\xff"]
)
def test_malformed_first_messages(token: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        exchange_for(SHA_256).step(token)


@pytest.mark.parametrize("token", [b"", b"c=biws,r=clientserver", b"c=b,r=clientserver,p=AAAA", b"\0"])
def test_malformed_final_messages(token: bytes) -> None:
    exchange = exchange_for(SHA_256)
    exchange.step(b"n,,n=user,r=client")
    with pytest.raises(InvalidCredentials):
        exchange.step(token)


def test_extensions() -> None:
    first = parse_client_first(b"n,,n=id,r=x,tokenauth=true,foo=bar")
    assert first.extensions == {"tokenauth": "true", "foo": "bar"}


def test_names_and_nonces() -> None:
    assert sorted(BY_SASL_NAME) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert to_base_36(0) == "0"
    assert to_base_36(36**3 - 1) == "zzz"
    assert new_nonce(lambda bits: (1 << bits) - 1) == to_base_36((1 << 130) - 1)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_unknown_user_has_iterations_that_users_have(mechanism: ScramMechanism) -> None:
    """Determined by the name; an unknown token has the iterations of tokens."""
    places: list[float] = []

    def iterations_at(place: float) -> int:
        places.append(place)
        return 9_999

    def error_of(first: bytes) -> str:
        exchange = ScramExchange(mechanism, lambda _: None, b"secret", "server", iterations_at=iterations_at)
        return exchange.step(first).decode().rpartition(",i=")[2]

    assert [error_of(b"n,,n=%s,r=client" % name) for name in (b"nobody", b"nobody", b"somebody")] == ["9999"] * 3
    assert places[0] == places[1] != places[2]
    assert error_of(b"n,,n=no-token,r=client,tokenauth=true") == "4096"
    for number in range(200):
        error_of(b"n,,n=user-%d,r=client" % number)
    assert min(places) >= 0
    assert max(places) < 1
    assert 0.35 < sum(places[3:]) / len(places[3:]) < 0.65
