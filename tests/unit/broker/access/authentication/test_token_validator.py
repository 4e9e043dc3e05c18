"""Which bearer tokens are valid, and with which keys."""

from __future__ import annotations

import time
from base64 import b64encode
from http.client import BadStatusLine, IncompleteRead, LineTooLong
from pathlib import Path
from typing import Any

import pytest

from broker.access.authentication.jwks import (
    Jwks,
    JwksError,
    Keys,
    read_keys,
)
from broker.access.authentication.token_validator import TokenValidator
from config import load
from runtime.deferred import Deferred
from runtime.timers import Timers
from security.sasl.oauthbearer import LATEST_MS, InvalidToken
from tests.support.fake_loop import FakeLoop
from tests.support.sasl import Provider

REFRESH_MS, BACKOFF_MS = 60_000, 1_000
KEYS = "sasl.oauthbearer."


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider"))


def instant(function: Any, *args: Any) -> Deferred[Any]:
    done: Deferred[Any] = Deferred()
    try:
        done.resolve(function(*args))
    except Exception as error:
        done.fail(error)
    return done


def jwks_of(provider: Provider, loop: FakeLoop, read: Any = read_keys) -> Jwks:
    timers = Timers(loop, loop.clock)
    periods = {"refresh_ms": REFRESH_MS, "backoff_ms": BACKOFF_MS}
    jwks = Jwks(provider.url, timers, instant, **periods, read=read)  # type: ignore[arg-type]
    jwks.start()
    return jwks


def validator(provider: Provider, **keys: str) -> TokenValidator:
    config = load(overrides={KEYS + key.replace("_", "."): value for key, value in keys.items()})
    return TokenValidator(config, "IN", jwks_of(provider, FakeLoop()))


def accepts(validate: TokenValidator, token: str) -> bool:
    try:
        assert validate(token).user
    except InvalidToken:
        return False
    return True


def test_a_valid_token_has_its_lifetime(provider: Provider) -> None:
    end_s = int(time.time()) + 100
    found = validator(provider)(provider.token(exp=end_s, sub="bob "))
    assert found == ("bob", end_s * 1000)


def test_a_huge_lifetime_is_capped_at_the_protocols_limit(provider: Provider) -> None:
    assert validator(provider)(provider.token(exp=10**30)).expires_at_ms == LATEST_MS


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"exp": 1_000_000},
        {"nbf": 9_999_999_999},
        {"iat": 9_999_999_999},
    ],
)
def test_missing_invalid_and_out_of_time_claims(provider: Provider, claims: dict[str, Any]) -> None:
    assert not accepts(validator(provider), provider.token(**claims))


def test_clock_skew_is_tolerated(provider: Provider) -> None:
    token = provider.token(exp=int(time.time()) - 20)
    assert accepts(validator(provider), token)
    assert not accepts(validator(provider, clock_skew_seconds="5"), token)


def test_audience_and_issuer_are_checked(provider: Provider) -> None:
    mine = validator(provider, expected_audience="a,b", expected_issuer="us")
    assert accepts(mine, provider.token(aud="b", iss="us"))
    assert accepts(mine, provider.token(aud=["x", "a"], iss="us"))
    assert not accepts(mine, provider.token(aud="c", iss="us"))
    assert not accepts(mine, provider.token(iss="us"))
    assert not accepts(mine, provider.token(aud="a", iss="them"))
    assert accepts(validator(provider), provider.token(aud="c", iss="them"))


def test_another_claim_may_name_the_user(provider: Provider) -> None:
    validate = validator(provider, sub_claim_name="client")
    assert validate(provider.token(client="robot")).user == "robot"
    assert not accepts(validate, provider.token())


def test_forged_tokens_are_rejected(provider: Provider, tmp_path: Path) -> None:
    """Unsigned, signed with a foreign key, or signed with a public key as if it were a shared secret."""
    validate = validator(provider)
    other = Provider(tmp_path)
    good = provider.token()
    head, body, signature = good.split(".")
    for forged in (
        provider.token(key="", algorithm="none"),
        f"{head}.{body}.",
        f"{head}.{provider.token(sub='root').split('.')[1]}.{signature}",
        other.token(headers={"kid": provider.key_id}),
        other.token(),
        provider.token(key=b"k" * 64, algorithm="HS256"),
        "",
        "a.b.c",
        "é",
        b64encode(b"[" * 200_000).decode() + ".a.b",
    ):
        assert not accepts(validate, forged), forged


def test_shared_secrets_are_not_used_as_keys(tmp_path: Path) -> None:
    provider = Provider(tmp_path)
    provider.publish({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "shared"})
    assert "shared" not in read_keys(provider.url)


def test_a_new_key_is_found_soon_at_a_limited_rate(tmp_path: Path) -> None:
    provider, loop = Provider(tmp_path), FakeLoop()
    jwks = jwks_of(provider, loop)
    provider.turn_over(publish=False)
    assert jwks.key(provider.key_id) is None
    provider.publish()
    assert jwks.key(provider.key_id) is None
    loop.advance(BACKOFF_MS)
    jwks.key(provider.key_id)
    assert jwks.key(provider.key_id) is not None


def test_keys_are_refreshed_and_stay_if_that_fails(tmp_path: Path) -> None:
    provider, loop = Provider(tmp_path), FakeLoop()
    jwks, first = jwks_of(provider, loop), provider.key_id
    provider.turn_over()
    loop.advance(REFRESH_MS)
    assert jwks.key(provider.key_id) is not None
    (tmp_path / "jwks.json").write_text("{")
    loop.advance(REFRESH_MS)
    assert jwks.key(first) is not None


def test_an_unexpected_error_does_not_end_the_refresh(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider, loop = Provider(tmp_path), FakeLoop()
    surprises: list[Exception] = []

    def read(url: str) -> Keys:
        if surprises:
            raise surprises.pop()
        return read_keys(url)

    jwks, first = jwks_of(provider, loop, read), provider.key_id
    surprises.append(RuntimeError("nobody thought of that"))
    loop.advance(REFRESH_MS)
    assert jwks.key(first) is not None
    assert "nobody thought of that" in caplog.text
    provider.turn_over()
    loop.advance(REFRESH_MS)
    assert jwks.key(provider.key_id) is not None


@pytest.mark.parametrize("error", [IncompleteRead(b""), BadStatusLine("?"), LineTooLong("header"), RecursionError()])
def test_truncated_and_malformed_responses(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(url: str, timeout: float) -> Any:
        raise error

    monkeypatch.setattr("broker.access.authentication.jwks.urlopen", urlopen)
    with pytest.raises(JwksError, match=type(error).__name__ if not str(error) else None):
        read_keys("https://idp/keys")


def test_a_key_list_that_is_nested_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("[" * 200_000)
    with pytest.raises(JwksError):
        read_keys(path.as_uri())


@pytest.mark.parametrize(
    "useless",
    [
        {"kty": "RSA", "kid": "odd"},
        {"kty": "new kind", "kid": "odd"},
        {"kty": "EC", "crv": "P-257", "kid": "odd"},
        {"kty": "RSA", "alg": "RSA-OAEP", "kid": "odd"},
        {"kty": "RSA", "alg": "none", "kid": "odd"},
        {"kty": "RSA", "alg": ["RS256"], "kid": "odd"},
        {"kid": ["odd"]},
        "odd",
        None,
    ],
)
def test_an_unusable_key_does_not_affect_the_others(
    tmp_path: Path, useless: Any, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider(tmp_path)
    provider.publish(useless)
    assert list(read_keys(provider.url)) == [provider.key_id]
    assert "left out" in caplog.text


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_without_an_algorithm(provider: Provider, algorithm: str) -> None:
    """It verifies every algorithm of its key type, and no other."""
    assert accepts(validator(provider), provider.token(algorithm=algorithm))


def test_a_key_with_an_algorithm(tmp_path: Path) -> None:
    provider = Provider(tmp_path, alg="RS384")
    validate = validator(provider)
    assert accepts(validate, provider.token(algorithm="RS384"))
    for other in ("RS256", "PS384"):
        assert not accepts(validate, provider.token(algorithm=other))


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"keys": 1}', '{"keys": []}', '{"keys": [{"kty": "RSA"}]}'])
def test_a_response_that_is_not_a_key_list(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    with pytest.raises(JwksError):
        read_keys(path.as_uri())
