"""Tokens of a broker's own logins: from a file, and from a provider over HTTP."""

from __future__ import annotations

import json
import socket
import time
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import patch
from urllib.parse import parse_qs

import jwt
import pytest

from broker.network.outbound_security import inter_broker_security
from broker.network.outbound_token_endpoint import TokenEndpoint
from config import load
from config.errors import ConfigError
from tests.support.eventually import eventually

SECURED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
OWN = "listener.name.inner.oauthbearer"


class Provider:
    """Grants tokens that name how many there were before."""

    def __init__(self) -> None:
        self.lifetime_s = 3600
        self.failures = 0
        self.moved_to: str | None = None
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                user = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                provider.asked.append((user, parse_qs(form)))
                if provider.failures:
                    provider.failures -= 1
                    self.send_error(503)
                    return
                if provider.moved_to is not None:
                    self.send_response(302)
                    self.send_header("Location", provider.moved_to)
                    self.end_headers()
                    return
                claims = {"sub": "broker", "jti": len(provider.asked), "exp": time.time() + provider.lifetime_s}
                answer = json.dumps({"access_token": jwt.encode(claims, "k" * 32)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


class Logins:
    """The logins of a configuration."""

    def __init__(self, url: str, **own: str) -> None:
        keys = {
            "listeners": "INNER://localhost:9092",
            "listener.security.protocol.map": "INNER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            f"{OWN}.sasl.login.callback.handler.class": SECURED,
            f"{OWN}.sasl.oauthbearer.token.endpoint.url": url,
            **{f"{OWN}.sasl.{key.replace('__', '.')}": value for key, value in own.items()},
        }
        exchange = inter_broker_security(load(overrides=keys)).new_exchange
        assert exchange is not None
        self._exchange = exchange

    def token(self) -> str:
        return self._exchange().first().decode().removeprefix("n,,\1auth=Bearer ").rstrip("\1")


CREDENTIALS = {
    "oauthbearer__client__credentials__client__id": "broker",
    "oauthbearer__client__credentials__client__secret": "s:e",
}


def granted(logins: Logins) -> int:
    number: int = jwt.decode(logins.token(), options={"verify_signature": False})["jti"]
    return number


def test_file_is_read_at_each_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    logins = Logins(path.as_uri())
    assert logins.token() == "first"
    path.write_text("second\n")
    assert logins.token() == "second"
    path.write_text("")  # somebody is about to write the next one
    assert logins.token() == "second"
    path.unlink()
    assert logins.token() == "second"
    assert caplog.text.count("so the old one stays") == 1  # not a line for each login


def test_provider_is_asked_with_id_secret_and_scope(provider: Provider) -> None:
    logins = Logins(provider.url, **CREDENTIALS, oauthbearer__scope="kafka a&b")
    assert [granted(logins) for _ in range(3)] == [1, 1, 1]
    assert provider.asked == [("broker:s:e", {"grant_type": ["client_credentials"], "scope": ["kafka a&b"]})]


def test_start_waits_for_the_provider(provider: Provider) -> None:
    provider.failures = 2
    logins = Logins(provider.url, **CREDENTIALS, login__retry__backoff__ms="10")
    assert granted(logins) == 3


def test_credentials_do_not_follow_redirects(provider: Provider) -> None:
    other = Provider()
    provider.moved_to = other.url
    with pytest.raises(ConfigError, match="302"):
        Logins(provider.url, **CREDENTIALS, login__retry__backoff__max__ms="1")
    assert other.asked == []
    other.close()


@pytest.mark.parametrize("key", ["login__read__timeout__ms", "login__connect__timeout__ms"])
def test_silent_provider(key: str) -> None:
    """Either timeout bounds the request. By default it would last 10 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        began_s = time.monotonic()
        with pytest.raises(ConfigError, match="timed out"):
            Logins(url, **CREDENTIALS, **{key: "50", "login__retry__backoff__max__ms": "1"})
        assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("keys", "renewed_after_s"),
    [
        ({}, 800),
        ({"sasl.login.refresh.window.factor": "0.5"}, 500),
        ({"sasl.login.refresh.window.jitter": "0.25"}, 900),
        ({"sasl.login.refresh.buffer.seconds": "600"}, 400),
        ({"sasl.login.refresh.min.period.seconds": "650", "sasl.login.refresh.window.factor": "0.5"}, 650),
    ],
)
def test_time_of_renewals(keys: dict[str, str], renewed_after_s: float) -> None:
    """As Apache Kafka's ExpiringCredentialRefreshingLogin: of a token that lives for 1000 s."""
    config = load(
        overrides={"sasl.login.refresh.window.jitter": "0", "sasl.login.refresh.buffer.seconds": "50", **keys}
    )
    endpoint = TokenEndpoint("http://provider", "id", "secret", "", config.get)
    with patch("random.random", return_value=0.4):
        assert endpoint._renewal(50_000, 51_000) == 50_000 + renewed_after_s


def test_token_is_renewed_before_it_ends(provider: Provider) -> None:
    """A thread does that, also while no login asks for the token."""
    logins = Logins(
        provider.url, **CREDENTIALS, login__refresh__window__factor="0.5", login__refresh__window__jitter="0"
    )
    assert granted(logins) == 1
    provider.lifetime_s = 2
    short = Logins(provider.url, **CREDENTIALS)
    assert granted(short) == 2
    eventually(lambda: len(provider.asked) > 3)
    assert granted(short) > 2
    assert granted(logins) == 1


def test_failed_renewal_is_repeated(
    provider: Provider, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.network.outbound_token_endpoint._RETRY_S", 0.01)
    provider.lifetime_s = 1
    logins = Logins(provider.url, **CREDENTIALS, login__retry__backoff__max__ms="1")
    provider.failures = 2
    eventually(lambda: granted(logins) > 1)
    assert caplog.text.count("so the old one stays") == 2


@pytest.mark.parametrize(
    ("url", "own", "reason"),
    [
        ("file:///no/such/token", {}, "no token can be read"),
        ("ftp://provider/token", CREDENTIALS, "come from there"),
        ("http://127.0.0.1:9/token", {}, "client.id"),
        ("http://127.0.0.1:9/token", {**CREDENTIALS, "login__retry__backoff__max__ms": "1"}, "refused"),
        ("file:///no", {"login__callback__handler__class": "com.example.Handler"}, "Java classes are not supported"),
    ],
)
def test_configuration_without_a_token(url: str, own: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Logins(url, **own)
    assert "s:e" not in str(caught.value)
