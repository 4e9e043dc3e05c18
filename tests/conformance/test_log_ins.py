"""Each mechanism and kind of TLS, with Java's client, librdkafka, franz-go and kafkajs: who may log in, and which error
others get.

Our broker and, at full size, Apache Kafka get the same attempts: passwords, signed and unsigned bearer tokens,
delegation tokens, certificates. An unknown user gets the same error as a wrong password.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, ScramCredentialUpsertion
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.certificates import PASSWORD, Authority
from tests.support.http_server import http_server
from tests.support.java import JavaRunner
from tests.support.log_ins import Attempt, Outcome, by_java, by_librdkafka, by_program
from tests.support.ports import free_port
from tests.support.sasl import Provider, log_in_plain
from tests.support.scale import COSTLY_BROKERS, SCALE
from tests.support.settled import settled, wait_for_changes
from tests.support.toolchains import go_program, node_program
from tests.support.wire import WireClient

HERE = Path(__file__).parent
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL = {"CLEAR": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
#: Listeners with token keys from HTTP, and from a file; with requested certificates, required ones, PKCS12 stores, a
#: trust store with a key entry, which trusts only its own certificate, and a required certificate beside a password.
LISTENERS = {
    "OPEN": "PLAINTEXT",
    **SASL,
    **dict.fromkeys(("SIGNED", "FILED"), "SASL_PLAINTEXT"),
    **dict.fromkeys(("TLS", "REQUESTED", "MUTUAL", "STORES", "OWN"), "SSL"),
    "BOTH": "SASL_SSL",
}
SCOPE = "may-enter"
CLAIMS = {"iss": "https://provider", "aud": "brokers"}
_SECURITY = "org.apache.kafka.common.security."
_MODULES = {
    "PLAIN": f'{_SECURITY}plain.PlainLoginModule required user_alice="secret";',
    **dict.fromkeys(MECHANISMS[1:3], f"{_SECURITY}scram.ScramLoginModule required;"),
    "OAUTHBEARER": (
        f"{_SECURITY}oauthbearer.OAuthBearerLoginModule required"
        f' unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="{SCOPE}";'
    ),
}

LogIns = Callable[[Sequence[Attempt]], list[Outcome]]


class Papers:
    """The credentials: certificates and tokens of trusted clients, of strangers, and of one with the same name."""

    def __init__(self, new_directory: Callable[[str], Path]) -> None:
        self.authority, self.stranger = (Authority(new_directory(name), name) for name in ("authority", "stranger"))
        self.namesake = Authority(new_directory("namesake"), "authority")
        self.provider = Provider(new_directory("provider"))
        self._other = Provider(new_directory("other"))

    def jwts(self) -> dict[str, str]:
        """Return signed bearer tokens, named by what is right or wrong with them."""
        now_s = int(time.time())
        issue = partial(self.provider.token, **CLAIMS)
        return {
            "right": issue(),
            "wrong for its time": issue(iat=now_s - 7200, exp=now_s - 3600),
            "wrong for its issuer": issue(iss="https://another"),
            "wrong for its audience": issue(aud="others"),
            "wrong for its key": self._other.token(headers={"kid": self.provider.key_id}, **CLAIMS),
        }


class OneUserBroker:
    """A broker of a kind with a listener for each way to log in; `attempts` are the same for both kinds."""

    def __init__(self, kind: str, directory: Path, papers: Papers, keys_url: str) -> None:
        self.ports = {name: free_port() for name in LISTENERS}
        self._papers = papers
        clients = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        quorum = f"CONTROLLER://{HOST}:{free_port()}"
        server, trusted = papers.authority.issue("server"), papers.authority.path
        properties = {
            "listeners": clients if kind == "ours" else f"{clients},{quorum}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**LISTENERS, "CONTROLLER": "PLAINTEXT"}.items()
            ),
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": "20",
            "delegation.token.secret.key": "of this cluster",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "listener.name.requested.ssl.client.auth": "requested",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.stores.ssl.client.auth": "required",
            "listener.name.both.ssl.client.auth": "required",
            "listener.name.own.ssl.client.auth": "required",
            **_trusting("stores", trusted),
            **_trusting("own", server),
            "listener.name.stores.ssl.keystore.type": "PKCS12",
            "listener.name.stores.ssl.keystore.location": str(server.with_suffix(".p12")),
            "listener.name.stores.ssl.keystore.password": PASSWORD,
            "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.both.plain.sasl.jaas.config": _MODULES["PLAIN"],
            **{
                f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": module
                for name in SASL
                for mechanism, module in _MODULES.items()
            },
            **_signed("signed", keys_url),
            **_signed("filed", papers.provider.url),
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{quorum.partition('//')[2]}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=self.ports["OPEN"])
        settled(self.broker, self._add_users)
        wait_for_changes(self.broker)
        self._token_id, self._token_password = self._new_token()

    def _add_users(self) -> None:
        salt = b"0123456789abcdef"
        users = [
            ScramCredentialUpsertion(
                name="alice",
                mechanism=mechanism,
                iterations=MIN_ITERATIONS,
                salt=salt,
                salted_password=mechanism.salted_password("secret", salt, MIN_ITERATIONS),
            )
            for mechanism in ScramMechanism
        ]
        with WireClient(HOST, self.ports["OPEN"]) as client:
            for user in users:
                answer = client.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[user])
                assert [each.error_code for each in answer.results] == [0]

    def _new_token(self) -> tuple[str, str]:
        """Return id and password of a delegation token of alice."""
        with WireClient(HOST, self.ports["CLEAR"]) as client:
            log_in_plain(client, "alice", "secret")
            made = client.call(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=-1)
            assert made.error_code == 0

            def told() -> None:
                assert client.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens

            settled(self.broker, told)
        return made.token_id, b64encode(bytes(made.hmac)).decode()

    def attempts(self) -> Iterator[tuple[str, Attempt]]:
        """Yield a title and an attempt. The small size has only some in plain text, and all of them over TLS."""
        yield from self._by_password()
        yield from self._by_delegation_token()
        yield from self._by_signed_token()
        yield from self._by_certificate()

    def _by_password(self) -> Iterator[tuple[str, Attempt]]:
        for listener in SASL:
            trusted = str(self._papers.authority.path) if listener == "SECURE" else ""
            at = partial(self._at, listener, ca=trusted)
            for mechanism in MECHANISMS if SCALE > 1 or trusted else ("PLAIN",):
                way = f"{mechanism} by {listener}"
                if mechanism == "OAUTHBEARER":
                    yield f"{way}, right", at(mechanism, "alice", scope=SCOPE)
                    yield f"{way}, wrong", at(mechanism, "alice", scope="other")
                    continue
                yield f"{way}, right", at(mechanism, "alice", "secret")
                yield f"{way}, wrong", at(mechanism, "alice", "wrong")
                yield f"{way}, nobody", at(mechanism, "nobody", "secret")

    def _by_delegation_token(self) -> Iterator[tuple[str, Attempt]]:
        for mechanism in MECHANISMS[1 : 3 if SCALE > 1 else 2]:
            at = partial(self._at, "CLEAR", mechanism, by_token=True)
            way = f"delegation token by {mechanism}"
            yield f"{way}, right", at(self._token_id, self._token_password)
            yield f"{way}, wrong", at(self._token_id, b64encode(bytes(64)).decode())
            yield f"{way}, nobody", at("no-such-token-is-there", self._token_password)

    def _by_signed_token(self) -> Iterator[tuple[str, Attempt]]:
        for listener in ("SIGNED", "FILED"):
            for title, jwt in self._papers.jwts().items():
                if SCALE > 1 or listener == "SIGNED" or title == "right":
                    yield f"{listener} token, {title}", self._at(listener, "OAUTHBEARER", jwt=jwt)

    def _by_certificate(self) -> Iterator[tuple[str, Attempt]]:
        papers = self._papers
        ca, own = str(papers.authority.path), str(papers.authority.issue("client"))
        foreign, namesake = str(papers.stranger.issue("foreign")), str(papers.namesake.issue("namesake"))
        yield "TLS, right", self._at("TLS", ca=ca)
        yield "TLS, another authority", self._at("TLS", ca=str(papers.stranger.path))
        yield "mutual, right", self._at("MUTUAL", ca=ca, identity=own)
        yield "mutual, nobody", self._at("MUTUAL", ca=ca)
        yield "mutual, wrong", self._at("MUTUAL", ca=ca, identity=foreign)
        for title, days in (("expired", (-3, -1)), ("not yet valid", (1, 3))):
            identity = str(papers.authority.issue(title.replace(" ", "-"), days=days))
            yield f"mutual, {title}: wrong", self._at("MUTUAL", ca=ca, identity=identity)
        yield "requested, right", self._at("REQUESTED", ca=ca, identity=own)
        yield "requested, right without", self._at("REQUESTED", ca=ca)
        yield "requested, wrong", self._at("REQUESTED", ca=ca, identity=namesake)
        ca, own, namesake = (str(Path(each).with_suffix(".p12")) for each in (ca, own, namesake))
        yield "PKCS12, right", self._at("STORES", ca=ca, identity=own)
        yield "PKCS12, wrong", self._at("STORES", ca=ca, identity=namesake)
        yield "store with a key for trust, wrong", self._at("OWN", ca=ca, identity=own)
        at = partial(self._at, "BOTH", "PLAIN", "alice", ca=ca)
        yield "certificate and password, right", at("secret", identity=own)
        yield "certificate and password, wrong", at("wrong", identity=own)
        yield "password without certificate", at("secret")
        yield "password with another certificate", at("secret", identity=namesake)

    def _at(self, listener: str, *what: str, **more: str | bool) -> Attempt:
        return Attempt(f"{HOST}:{self.ports[listener]}", *what, **more)  # type: ignore[arg-type]

    def outcomes(self, client: str, log_ins: LogIns) -> dict[str, Outcome]:
        """Return the outcomes. Messages of failed handshakes are the library's, not the broker's."""
        tried = [each for each in self.attempts() if client in BY_TOKEN or not each[1].by_token]
        titles, attempts = zip(*tried, strict=True)
        return {
            title: Outcome(outcome.is_in, self._plain(outcome.error) if _has_broker_error(title, attempt) else "")
            for title, attempt, outcome in zip(titles, attempts, log_ins(attempts), strict=True)
        }

    def _plain(self, error: str) -> str:
        for name, port in self.ports.items():
            error = error.replace(f"{HOST}:{port}", f"<{name}>")
        return error.partition(" (after ")[0]  # milliseconds, in librdkafka's words


def _signed(listener: str, keys_url: str) -> dict[str, str]:
    """Return a listener that accepts only tokens of the provider."""
    prefix = f"listener.name.{listener}"
    own = f"{prefix}.oauthbearer.sasl"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{own}.jaas.config": f"{_SECURITY}oauthbearer.OAuthBearerLoginModule required;",
        f"{own}.server.callback.handler.class": f"{_SECURITY}oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{own}.oauthbearer.jwks.endpoint.url": keys_url,
        f"{own}.oauthbearer.expected.issuer": CLAIMS["iss"],
        f"{own}.oauthbearer.expected.audience": CLAIMS["aud"],
    }


def _trusting(listener: str, path: Path) -> dict[str, str]:
    """Return a listener that trusts a PKCS12 store."""
    store = {"type": "PKCS12", "location": str(path.with_suffix(".p12")), "password": PASSWORD}
    return {f"listener.name.{listener}.ssl.truststore.{key}": value for key, value in store.items()}


def _has_broker_error(title: str, attempt: Attempt) -> bool:
    """Return whether the error message is the broker's."""
    return bool(attempt.mechanism) and not title.startswith("password with")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OneUserBroker]]:
    """Start our broker, and Apache Kafka."""
    papers = Papers(tmp_path_factory.mktemp)

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys = Path(papers.provider.url.removeprefix("file://")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(keys)))
            self.end_headers()
            self.wfile.write(keys)

    with ExitStack() as stack:
        keys_url = f"{stack.enter_context(http_server(Keys))}/keys"
        opened = []
        for kind in COSTLY_BROKERS:
            broker = OneUserBroker(kind, tmp_path_factory.mktemp(kind), papers, keys_url)
            stack.callback(broker.broker.kill)
            opened.append(broker)
        yield opened


#: Clients that support delegation tokens: librdkafka and kafkajs have no extensions of SCRAM.
BY_TOKEN = ("java", "franz-go")


def clients() -> dict[str, Callable[[JavaRunner], LogIns]]:
    """Return a login function for each kind of client."""
    return {
        "java": lambda java: partial(by_java, java),
        "librdkafka": lambda _: by_librdkafka,
        "franz-go": lambda _: partial(by_program, go_program(HERE / "go")),
        "kafkajs": lambda _: partial(by_program, node_program(HERE / "node", "log_in.js")),
    }


@pytest.mark.parametrize("client", clients())
def test_only_valid_credentials_log_in(client: str, brokers: list[OneUserBroker], java: JavaRunner) -> None:
    """Valid credentials work; others get the same error from both brokers, and ours does not reveal whether a user
    exists.
    """
    ours, *others = (broker.outcomes(client, clients()[client](java)) for broker in brokers)
    assert {title: outcome.is_in for title, outcome in ours.items()} == {title: ", right" in title for title in ours}
    for kafka in others:
        assert {title: (ours[title], kafka[title]) for title in kafka if ours[title] != kafka[title]} == {}
    for title, outcome in ours.items():
        if "wrong" in title and (nobody := ours.get(title.replace("wrong", "nobody"))):
            assert nobody == outcome
    assert not any("secret" in outcome.error for outcome in ours.values())
