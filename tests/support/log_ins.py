"""Clients of four kinds that try to log in: by each mechanism, in plain text and over TLS."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.certificates import PASSWORD
from tests.support.java import JavaRunner

_SECURITY = "org.apache.kafka.common.security."
_PATIENCE_S = 60


class Attempt(NamedTuple):
    """The credentials of a client, and the authorities it trusts; stores that Go cannot read have a PEM file beside
    them.

    `jwt` is a signed bearer token; without one the token is unsigned, and claims `scope`. `by_token`: user and password
    are those of a delegation token.
    """

    bootstrap: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    scope: str = ""
    jwt: str = ""
    by_token: bool = False
    ca: str = ""
    identity: str = ""

    @property
    def token(self) -> str:
        """Return a bearer token."""
        if self.jwt:
            return self.jwt
        now_s = int(time.time())
        claims = {"sub": self.user, "scope": self.scope, "iat": now_s, "exp": now_s + 3600}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return "".join(f"{urlsafe_b64encode(part).decode().rstrip('=')}." for part in parts)

    @property
    def protocol(self) -> str:
        """Return the value of security.protocol."""
        transport = "SSL" if self.ca else "PLAINTEXT"
        return f"SASL_{transport}" if self.mechanism else transport

    def as_json(self) -> dict[str, object]:
        """Return the fields for programs in other languages."""
        token = self.token if self.mechanism == "OAUTHBEARER" else ""
        return {**self._asdict(), "store_password": PASSWORD, "token": token}


class Outcome(NamedTuple):
    """Whether the client is logged in, and its error if not."""

    is_in: bool
    error: str


def by_program(command: list[str], attempts: Sequence[Attempt]) -> list[Outcome]:
    """Try all attempts with one run of a program."""
    told = json.dumps([each.as_json() for each in attempts])
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [Outcome(each["in"], each["error"]) for each in json.loads(done.stdout)]


def by_java(java: JavaRunner, attempts: Sequence[Attempt]) -> list[Outcome]:
    """Try with Kafka's own client."""
    done = java.run("LogIn", stdin=json.dumps([_java_properties(each) for each in attempts]), timeout_s=300)
    assert done.exit_code == 0, done.stdout + done.stderr
    return [Outcome(each["in"], each["error"]) for each in json.loads(done.stdout)]


def _java_properties(attempt: Attempt) -> dict[str, str]:
    properties = {"bootstrap.servers": attempt.bootstrap, "security.protocol": attempt.protocol}
    if attempt.ca:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": attempt.ca}
    if attempt.ca.endswith(".p12"):
        properties |= {"ssl.truststore.type": "PKCS12", "ssl.truststore.password": PASSWORD}
    if attempt.identity:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": attempt.identity}
    if attempt.identity.endswith(".p12"):
        properties |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": PASSWORD}
    if not attempt.mechanism:
        return properties
    if attempt.jwt:
        return properties | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{_SECURITY}oauthbearer.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{_SECURITY}oauthbearer.OAuthBearerLoginCallbackHandler",
            "jwt": attempt.jwt,
        }
    if attempt.mechanism == "OAUTHBEARER":
        login = (
            f"oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub={attempt.user}"
            f' unsecuredLoginStringClaim_scope="{attempt.scope}";'
        )
    else:
        module = "plain.PlainLoginModule" if attempt.mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'{module} required username="{attempt.user}" password="{attempt.password}"'
        login += " tokenauth=true;" if attempt.by_token else ";"
    return {**properties, "sasl.mechanism": attempt.mechanism, "sasl.jaas.config": _SECURITY + login}


def by_librdkafka(attempts: Sequence[Attempt]) -> list[Outcome]:
    """Try with confluent-kafka."""
    return [_by_librdkafka(each) for each in attempts]


def _by_librdkafka(attempt: Attempt) -> Outcome:
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": attempt.bootstrap,
        "security.protocol": attempt.protocol,
        "error_cb": errors.append,
        "logger": logging.getLogger("librdkafka"),
    }
    if attempt.mechanism:
        settings["sasl.mechanism"] = attempt.mechanism
    if attempt.jwt:
        settings["oauth_cb"] = lambda _: (attempt.jwt, time.time() + 3600)
    elif attempt.mechanism == "OAUTHBEARER":
        settings["enable.sasl.oauthbearer.unsecure.jwt"] = True
        settings["sasl.oauthbearer.config"] = f"principal={attempt.user} scope={attempt.scope}"
    elif attempt.mechanism:
        settings |= {"sasl.username": attempt.user, "sasl.password": attempt.password}
    if attempt.ca:
        settings["ssl.ca.location"] = str(Path(attempt.ca).with_suffix(".pem"))
    if attempt.identity.endswith(".p12"):
        settings |= {"ssl.keystore.location": attempt.identity, "ssl.keystore.password": PASSWORD}
    elif attempt.identity:
        settings |= {"ssl.certificate.location": attempt.identity, "ssl.key.location": attempt.identity}
    client = AdminClient(settings)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            client.list_topics(timeout=0.2)
        except KafkaException:
            client.poll(0)
        else:
            return Outcome(True, "")
        for error in errors:
            if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "SSL alert" in error.str():
                return Outcome(False, error.str())
    return Outcome(False, f"nothing came of it: {errors}")
