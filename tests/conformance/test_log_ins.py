"""Each mechanism and way of TLS, by Java's client, librdkafka, franz-go and kafkajs: who comes in, what others hear.

The same attempts at our broker and, at full size, at Apache Kafka. Whoever is not there hears what a wrong password
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, ScramCredentialUpsertion
from security.scram_credential import MIN_ITERATIONS, ScramMechanism
from tests.support.brokers import BROKERS, HOST, RunningBroker, free_port
from tests.support.certificates import Authority
from tests.support.java import JavaRunner
from tests.support.log_ins import Attempt, Outcome, by_java, by_librdkafka, by_program
from tests.support.scale import COSTLY_BROKERS, SCALE
from tests.support.settled import settled, wait_for_changes
from tests.support.toolchains import go_program, node_program
from tests.support.wire import WireClient

HERE = Path(__file__).parent
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL = {"CLEAR": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
LISTENERS = {"OPEN": "PLAINTEXT", **SASL, "TLS": "SSL", "MUTUAL": "SSL"}
SCOPE = "may-enter"
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


class Door:
    """A broker of a kind with a listener for each way in; `attempts` are the same ones for both kinds."""

    def __init__(self, kind: str, directory: Path, authority: Authority, stranger: Authority) -> None:
        self.ports = {name: free_port() for name in LISTENERS}
        self._authority, self._stranger = authority, stranger
        clients = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        quorum = f"CONTROLLER://{HOST}:{free_port()}"
        properties = {
            "listeners": clients if kind == "ours" else f"{clients},{quorum}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**LISTENERS, "CONTROLLER": "PLAINTEXT"}.items()
            ),
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": "20",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("server")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.path),
            "listener.name.mutual.ssl.client.auth": "required",
            **{
                f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": module
                for name in SASL
                for mechanism, module in _MODULES.items()
            },
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{quorum.partition('//')[2]}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=self.ports["OPEN"])
        settled(self.broker, self._add_users)
        wait_for_changes(self.broker)

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

    def attempts(self) -> Iterator[tuple[str, Attempt]]:
        """What each is about, and the attempt. The small size has only some in the clear, and all of them by TLS."""
        for listener in SASL:
            trusted = str(self._authority.path) if listener == "SECURE" else ""
            at = partial(Attempt, f"{HOST}:{self.ports[listener]}", ca=trusted)
            for mechanism in MECHANISMS if SCALE > 1 or trusted else ("PLAIN",):
                way = f"{mechanism} by {listener}"
                if mechanism == "OAUTHBEARER":
                    yield f"{way}, right", at(mechanism, "alice", scope=SCOPE)
                    yield f"{way}, wrong", at(mechanism, "alice", scope="other")
                    continue
                yield f"{way}, right", at(mechanism, "alice", "secret")
                yield f"{way}, wrong", at(mechanism, "alice", "wrong")
                yield f"{way}, nobody", at(mechanism, "nobody", "secret")
        ca, own = str(self._authority.path), str(self._authority.issue("client"))
        yield "TLS, right", Attempt(f"{HOST}:{self.ports['TLS']}", ca=ca)
        yield "TLS, another authority", Attempt(f"{HOST}:{self.ports['TLS']}", ca=str(self._stranger.path))
        yield "mutual, right", Attempt(f"{HOST}:{self.ports['MUTUAL']}", ca=ca, identity=own)
        yield "mutual, nobody", Attempt(f"{HOST}:{self.ports['MUTUAL']}", ca=ca)
        foreign = str(self._stranger.issue("foreign"))
        yield "mutual, wrong", Attempt(f"{HOST}:{self.ports['MUTUAL']}", ca=ca, identity=foreign)

    def outcomes(self, log_ins: LogIns) -> dict[str, Outcome]:
        """What becomes of each. What is told of failed handshakes is the library's, not the broker's."""
        titles, attempts = zip(*self.attempts(), strict=True)
        return {
            title: Outcome(outcome.is_in, self._plain(outcome.error) if attempt.mechanism else "")
            for title, attempt, outcome in zip(titles, attempts, log_ins(attempts), strict=True)
        }

    def _plain(self, error: str) -> str:
        for name, port in self.ports.items():
            error = error.replace(f"{HOST}:{port}", f"<{name}>")
        return error.partition(" (after ")[0]  # milliseconds, in librdkafka's words


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Door]]:
    """Ours, and Apache Kafka's."""
    authority, stranger = (Authority(tmp_path_factory.mktemp(name), name) for name in ("authority", "stranger"))
    opened = [Door(kind, tmp_path_factory.mktemp(kind), authority, stranger) for kind in COSTLY_BROKERS]
    yield opened
    for door in opened:
        door.broker.kill()


def clients() -> dict[str, Callable[[JavaRunner], LogIns]]:
    """How each kind of client logs in."""
    return {
        "java": lambda java: partial(by_java, java),
        "librdkafka": lambda _: by_librdkafka,
        "franz-go": lambda _: partial(by_program, go_program(HERE / "go")),
        "kafkajs": lambda _: partial(by_program, node_program(HERE / "node", "log_in.js")),
    }


@pytest.mark.parametrize("client", clients())
def test_who_comes_in(client: str, doors: list[Door], java: JavaRunner) -> None:
    """The right ones do; others hear the same from both brokers, and from ours the same whether they are there."""
    ours, *others = (door.outcomes(clients()[client](java)) for door in doors)
    assert {title: outcome.is_in for title, outcome in ours.items()} == {title: "right" in title for title in ours}
    for kafka in others:
        assert {title: (ours[title], kafka[title]) for title in kafka if ours[title] != kafka[title]} == {}
    for title, outcome in ours.items():
        if "wrong" in title and (nobody := ours.get(title.replace("wrong", "nobody"))):
            assert nobody == outcome
    assert not any("secret" in outcome.error for outcome in ours.values())
