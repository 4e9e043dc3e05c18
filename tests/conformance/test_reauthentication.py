"""connections.max.reauth.ms: clients that reauthenticate in time keep their connection; others are disconnected.

Step by step at both brokers, and with Java's client, librdkafka, franz-go and kafkajs, which write through several
sessions: at full size at Apache Kafka, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterableConfig, AlterConfigsResource
from protocol.messages.metadata import METADATA
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from security.sasl.scram_credential import ScramMechanism
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.java import JavaRunner
from tests.support.ports import free_port
from tests.support.sasl import log_in_plain, log_in_scram
from tests.support.scale import COSTLY_BROKERS
from tests.support.settled import wait_for_topic
from tests.support.toolchains import go_program, node_program
from tests.support.wire import Closed, WireClient

HERE = Path(__file__).parent
SESSION_MS = 4_000
#: the time of writing: a client reauthenticates at least three times
SECONDS = 4 * SESSION_MS // 1000 + 1
_SECURITY = "org.apache.kafka.common.security."
#: a client may not reauthenticate sooner than this
_SOON_S = 1.1
_AFTER_THE_END_S = SESSION_MS / 1000 + 0.5


class Timed:
    """A broker whose sessions expire."""

    def __init__(self, kind: str, directory: Path) -> None:
        port, self.port, quorum = free_port(), free_port(), f"CONTROLLER://{HOST}:{free_port()}"
        clients = f"OPEN://{HOST}:{port},CLIENTS://{HOST}:{self.port}"
        users = " ".join(f'user_{name}="secret"' for name in ("alice", "bob", *CLIENTS))
        properties = {
            "listeners": clients if kind == "ours" else f"{clients},{quorum}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": "20",
            "listener.name.clients.plain.sasl.jaas.config": f"{_SECURITY}plain.PlainLoginModule required {users};",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{_SECURITY}scram.ScramLoginModule required;",
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{quorum.partition('//')[2]}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=port)
        with DataClient(HOST, port) as client:
            for name in CLIENTS:
                client.create_topic(name)
        for name in CLIENTS:
            wait_for_topic(self.broker, name, 1)

    def log_logins(self) -> None:
        """Let our broker log which connection logs in."""
        level = AlterableConfig(name="root", config_operation=0, value="DEBUG")
        resource = AlterConfigsResource(resource_type=8, resource_name="1", configs=[level])
        with WireClient(HOST, self.broker.port) as client:
            answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert [each.error_code for each in answer.responses] == [0]


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Timed]]:
    """Start both brokers, by kind."""
    made: dict[str, Timed] = {}
    try:
        for kind in BROKERS:
            made[kind] = Timed(kind, tmp_path_factory.mktemp(kind))
        yield made
    finally:
        for each in made.values():
            each.broker.kill()


# -- by hand ----------------------------------------------------------------------------------------------------------


def _told(ask: Callable[[], Any]) -> Any:
    """Return error code, text and lifetime of an answer, as far as it has them; or that there is none."""
    try:
        answer = ask()
    except Closed:
        return "closed"
    return [getattr(answer, name, None) for name in ("error_code", "error_message", "session_lifetime_ms")]


def _asks(client: WireClient) -> Any:
    return _told(partial(client.call, METADATA, 12, topics=[]))


def _comes_again(client: WireClient) -> Iterator[Any]:
    for _ in range(2):
        time.sleep(_SOON_S)
        yield _told(partial(log_in_plain, client, "alice", "secret"))
        yield _asks(client)


def _comes_too_soon(client: WireClient) -> Iterator[Any]:
    """The first reauthentication may come at once, the second may not."""
    for _ in range(2):
        yield _told(partial(client.call, SASL_HANDSHAKE, 1, mechanism="PLAIN"))


def _comes_as_another(client: WireClient) -> Iterator[Any]:
    time.sleep(_SOON_S)
    yield _told(partial(log_in_plain, client, "bob", "secret"))
    yield _asks(client)


def _comes_by_another_mechanism(client: WireClient) -> Iterator[Any]:
    """Our broker names the reason for closing the connection, Apache Kafka does not."""
    time.sleep(_SOON_S)
    with suppress(Closed):
        assert log_in_scram(client, ScramMechanism.SCRAM_SHA_256, "alice", "secret")[-1].error_code
    yield _asks(client)


def _comes_with_a_wrong_password(client: WireClient) -> Iterator[Any]:
    time.sleep(_SOON_S)
    yield _told(partial(log_in_plain, client, "alice", "wrong"))
    yield _asks(client)


def _asks_for_something_in_between(client: WireClient) -> Iterator[Any]:
    time.sleep(_SOON_S)
    yield _told(partial(client.call, SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    yield _asks(client)


def _stays_away(client: WireClient) -> Iterator[Any]:
    time.sleep(_AFTER_THE_END_S)
    yield _asks(client)


def _asks_for_versions_after_the_end(client: WireClient) -> Iterator[Any]:
    time.sleep(_AFTER_THE_END_S)
    yield _told(partial(client.call, API_VERSIONS, 3, client_software_name="x", client_software_version="1"))


def _comes_late(client: WireClient) -> Iterator[Any]:
    """After the session's end only a handshake is accepted."""
    time.sleep(_AFTER_THE_END_S)
    yield _told(partial(log_in_plain, client, "alice", "secret"))
    yield _asks(client)


STORIES = (
    _comes_again,
    _comes_too_soon,
    _comes_as_another,
    _comes_by_another_mechanism,
    _comes_with_a_wrong_password,
    _asks_for_something_in_between,
    _stays_away,
    _asks_for_versions_after_the_end,
    _comes_late,
)


def _story(port: int, story: Callable[[WireClient], Iterator[Any]]) -> list[Any]:
    with WireClient(HOST, port) as client:
        return [_told(partial(log_in_plain, client, "alice", "secret")), *story(client)]


def test_step_by_step(timed: dict[str, Timed]) -> None:
    with ThreadPoolExecutor(2 * len(STORIES)) as pool:
        told = {kind: [pool.submit(_story, each.port, story) for story in STORIES] for kind, each in timed.items()}
        ours, kafka = ([each.result() for each in told[kind]] for kind in ("ours", "kafka"))
    for story, mine, others in zip(STORIES, ours, kafka, strict=True):
        assert mine == others, story.__name__
    assert ours[0][0] == [0, "", SESSION_MS]
    assert ours[STORIES.index(_stays_away)][-1] == "closed"


# -- with clients -----------------------------------------------------------------------------------------------------


def _by_java(java: JavaRunner, told: dict[str, Any]) -> dict[str, Any]:
    done = java.run("KeepWriting", stdin=json.dumps(told), timeout_s=SECONDS + 120)
    assert done.exit_code == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    return {**outcome, "errors": outcome["errors"] + done.stderr.splitlines()}  # its warnings of closed connections


def _by_program(command: list[str], told: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, timeout=SECONDS + 120)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def _by_librdkafka(told: dict[str, Any]) -> dict[str, Any]:
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": told["bootstrap"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": told["user"],
            "sasl.password": told["password"],
            "error_cb": errors.append,
        }
    )
    written = 0
    end = time.monotonic() + told["seconds"]
    while time.monotonic() < end:
        producer.produce(told["topic"], b"value", on_delivery=lambda error, _: error and errors.append(error))
        if producer.flush(60) == 0:
            written += 1
        time.sleep(0.1)
    return {"written": written, "errors": [str(each) for each in errors]}


CLIENTS: dict[str, Callable[[JavaRunner, dict[str, Any]], dict[str, Any]]] = {
    "java": _by_java,
    "librdkafka": lambda _, told: _by_librdkafka(told),
    "franz-go": lambda _, told: _by_program([*go_program(HERE / "go"), "keep-writing"], told),
    "kafkajs": lambda _, told: _by_program(node_program(HERE / "node", "keep_writing.js"), told),
}


@pytest.mark.parametrize("kind", COSTLY_BROKERS)
def test_clients_continue(kind: str, timed: dict[str, Timed], java: JavaRunner) -> None:
    """All at the same time, through some sessions: nothing fails, and no client reconnects."""
    door = timed[kind]
    if kind == "ours":
        door.log_logins()
    before = len(door.broker.output)
    for command in (partial(go_program, HERE / "go"), partial(node_program, HERE / "node", "keep_writing.js")):
        command()  # built before the clock runs
    told = {"bootstrap": f"{HOST}:{door.port}", "password": "secret", "seconds": SECONDS}
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        running = {
            name: pool.submit(write, java, {**told, "user": name, "topic": name}) for name, write in CLIENTS.items()
        }
        outcomes = {name: each.result() for name, each in running.items()}
    assert {name: outcome["errors"] for name, outcome in outcomes.items()} == {name: [] for name in CLIENTS}
    assert all(outcome["written"] > SECONDS for outcome in outcomes.values()), outcomes
    if kind == "ours":
        logged = door.broker.output[before:]
        logins = Counter(re.findall(r"Connection (\S+) on CLIENTS is User:([\w-]+) by PLAIN", logged))
        for name in CLIENTS:  # at least one connection of each has lived through all sessions
            assert max((count for (_, user), count in logins.items() if user == name), default=0) >= 3, logins
        assert "its SASL session has ended" not in logged
