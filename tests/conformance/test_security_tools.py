"""kafka-acls, kafka-configs for users, clients and addresses, and kafka-delegation-tokens, step by step.

They print the same against our broker and against Apache Kafka, except ids and times.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.java import JavaRunner
from tests.support.ports import free_port
from tests.support.recorded_answers import RecordedAnswers
from tests.support.scale import scaled
from tests.support.settled import wait_for_changes
from tests.support.tools import normalised, start_tool

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("alice", "dave")

# <hmac> is that of the last created token; "... as alice" runs as that user, other steps as a super user. Text
# after " < " is standard input. Steps that begin with "+" run only at the full size.
ACLS = [
    "--list",
    "--add --allow-principal User:alice --operation Read --operation Describe --topic orders",
    "+--add --allow-principal User:alice --operation Read --operation Describe --topic orders",
    "--add --allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.1 --allow-host 10.0.0.2 "
    "--operation Read --group shop --group 'shop 2'",
    "--add --deny-principal User:carol --deny-host 10.0.0.3 --operation Write --topic ord "
    "--resource-pattern-type prefixed",
    "--add --allow-principal User:* --producer --topic events --transactional-id tx --idempotent",
    "--add --allow-principal User:dave --consumer --topic events --group readers",
    "+--add --allow-principal User:frank --producer --consumer --topic events --group *",
    "--add --allow-principal User:eve --deny-principal User:eve --operation All --cluster",
    "--add --allow-principal User:eve --operation DescribeTokens --operation CreateTokens --user-principal User:bob",
    "--add --allow-principal User:eve --operation Describe --delegation-token some-id",
    "+--add --allow-principal User:eve --operation TwoPhaseCommit --transactional-id tx",
    "--list",
    "--list --topic orders",
    "--list --topic orders --resource-pattern-type match",
    "+--list --topic orders --resource-pattern-type any",
    "+--list --topic * --resource-pattern-type prefixed",
    "--list --principal User:alice --principal User:dave",
    "--list --principal User:alice --topic events --group shop",
    "+--list --cluster --delegation-token some-id --user-principal User:bob --transactional-id tx",
    "--add --allow-principal alice --operation Read --topic t",
    "--add --allow-principal User:a --operation Bogus --topic t",
    "+--add --operation Read --topic t",
    "--add --allow-principal User:a --operation Create --group g",
    "+--add --allow-principal User:a --operation Read --cluster",
    "+--add --allow-principal User:a --consumer --topic t",
    "--add --allow-principal User:a --operation Read --topic t --resource-pattern-type any",
    "+--add --allow-principal User:a --operation Read",
    "+--add --allow-principal User:a --operation Read --topic 'no name!'",
    "+--add --allow-principal User:a --allow-host nowhere --operation Read --topic t",
    "+--add --allow-principal Group:a --operation Read --topic t",
    "--remove --topic nothing --force",
    "--remove --allow-principal User:alice --operation Read --topic orders < n",
    "--remove --allow-principal User:alice --operation Read --topic orders < y",
    "--remove --allow-principal User:dave --consumer --topic events --group readers --force",
    "--remove --topic ord --resource-pattern-type prefixed --force",
    "+--remove --topic events --resource-pattern-type match --force",
    "--list",
    "--list as alice",
    "--add --allow-principal User:alice --operation Read --topic t as alice",
    "--remove --topic orders --force as alice",
]
_USER, _CLIENT, _IP = (f"--entity-type {kind}" for kind in ("users", "clients", "ips"))
_SCRAM = "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]"
CONFIGS = [
    f"--alter {_USER} --entity-name alice --add-config producer_byte_rate=1024,consumer_byte_rate=2048.5",
    f"--alter {_USER} --entity-name alice {_CLIENT} --entity-name 'c 1' --add-config request_percentage=12.5",
    f"--alter {_USER} --entity-default --add-config controller_mutation_rate=3",
    f"+--alter {_USER} --entity-default {_CLIENT} --entity-default --add-config consumer_byte_rate=9",
    f"--alter {_CLIENT} --entity-default --add-config producer_byte_rate=77",
    f"--alter {_IP} --entity-name 127.0.0.9 --add-config connection_creation_rate=5",
    f"--alter {_IP} --entity-default --add-config connection_creation_rate=50",
    f"--alter {_IP} --entity-name 127.0.0.9 --add-config producer_byte_rate=5",
    f"+--alter {_IP} --entity-name no.such.host.invalid --add-config connection_creation_rate=5",
    f"--alter {_USER} --entity-name alice --add-config producer_byte_rate=-1",
    f"--alter {_USER} --entity-name alice --add-config no_quota=1",
    f"+--alter {_USER} --entity-name alice --add-config producer_byte_rate=many",
    f"+--alter {_USER} --entity-name alice {_IP} --entity-name 127.0.0.1 --add-config producer_byte_rate=1",
    f"--alter {_USER} --entity-name alice --add-config {_SCRAM}",
    f"+--alter {_USER} --entity-name bob --add-config SCRAM-SHA-256=[password=secret],producer_byte_rate=7",
    f"--alter {_USER} --entity-name alice --add-config SCRAM-SHA-256=[iterations=4095,password=secret]",
    f"+--alter {_USER} --entity-name alice --add-config SCRAM-SHA-256=[iterations=16385,password=secret]",
    f"+--alter {_USER} --entity-name alice --add-config SCRAM-SHA-1=[password=secret]",
    f"+--alter {_USER} --entity-name alice --add-config SCRAM-SHA-256=[iterations=8192]",
    f"--alter {_USER} --entity-default --add-config SCRAM-SHA-256=[password=secret]",
    f"+--alter {_USER} --entity-name alice {_CLIENT} --entity-name c --add-config SCRAM-SHA-256=[password=secret]",
    f"--describe {_USER}",
    f"--describe {_USER} --entity-name alice",
    f"+--describe {_USER} --entity-name nobody",
    f"--describe {_USER} --entity-default",
    f"--describe {_USER} {_CLIENT}",
    f"--describe {_USER} --entity-name alice {_CLIENT}",
    f"--describe {_CLIENT}",
    f"--describe {_IP}",
    f"+--describe {_IP} --entity-default",
    "--describe --user alice",
    "+--describe --user-defaults",
    "+--describe --client-defaults",
    "+--describe --ip 127.0.0.9",
    "+--describe --ip-defaults",
    "+--alter --user alice --client 'c 1' --delete-config request_percentage",
    f"--alter {_USER} --entity-name alice --delete-config SCRAM-SHA-256,producer_byte_rate",
    f"--alter {_USER} --entity-name alice --delete-config SCRAM-SHA-256",
    f"+--alter {_USER} --entity-name nobody --delete-config SCRAM-SHA-512",
    f"--alter {_USER} --entity-name alice --delete-config producer_byte_rate",
    f"--alter {_IP} --entity-default --delete-config connection_creation_rate",
    f"--describe {_USER}",
    f"--describe {_USER} as alice",
    f"--alter {_USER} --entity-name alice --add-config {_SCRAM} as alice",
    f"+--alter {_IP} --entity-default --add-config connection_creation_rate=50 as alice",
]
_FOR_EVER = "--max-life-time-period -1"
TOKENS = [
    f"--create {_FOR_EVER} --renewer-principal User:carol --renewer-principal User:alice as dave",
    "--describe as dave",
    "+--describe --owner-principal User:dave --owner-principal User:alice as alice",
    "+--describe --owner-principal User:alice as dave",
    "--renew --renew-time-period -1 --hmac <hmac> as dave",
    "+--renew --renew-time-period 60000 --hmac <hmac> as alice",
    f"--renew --renew-time-period -1 --hmac {b64encode(b'of none').decode()} as dave",
    "+--renew --renew-time-period -1 --hmac no-base-64! as dave",
    f"--create {_FOR_EVER} --owner-principal User:alice as dave",
    f"+--create {_FOR_EVER} --renewer-principal Group:g as dave",
    f"+--create {_FOR_EVER} --renewer-principal carol as dave",
    "+--create --max-life-time-period 0 as dave",
    f"--create {_FOR_EVER}",
    "--expire --expiry-time-period -1 --hmac <hmac> as dave",
    "+--expire --expiry-time-period -1 --hmac <hmac> as dave",
    "--describe as dave",
    "+--expire --hmac <hmac> as dave",
]
STEPS = [
    (tool, step.removeprefix("+"))
    for tool, steps in (("kafka-acls", ACLS), ("kafka-configs", CONFIGS), ("kafka-delegation-tokens", TOKENS))
    for step in steps
    if not step.startswith("+") or scaled(1) > 1
]
_HMAC = re.compile(r"[A-Za-z0-9+/]{86}==")
_VARYING = (
    (_HMAC, "<hmac>"),
    (re.compile(r"(?<=tokenId : )[\w-]{22}|[\w-]{22}(?=\s+<hmac>)"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), "<time>"),
    # Kafka's controller prints its internal object of a request
    (re.compile(r"Request Request\(.*? needs [A-Z_]+ permission\.", re.DOTALL), "Cluster authorization failed."),
    (re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \S+ \d{4}"), "<time>"),
)


class SecuredBroker:
    """A broker of a kind with an authorizer; clients of its first listener are super users, those of the second are
    users.
    """

    def __init__(self, kind: str, directory: Path) -> None:
        port, self._port, quorum = free_port(), free_port(), free_port()
        clients = f"OPEN://{HOST}:{port},CLIENTS://{HOST}:{self._port}"
        properties = {
            "listeners": clients if kind == "ours" else f"{clients},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": (
                f"{MODULE} required {' '.join(f'user_{user}=secret' for user in USERS)};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "of this cluster",
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{HOST}:{quorum}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=port)
        self._hmac = ""

    def run(self, java: JavaRunner, tool: str, step: str, logins: Path) -> list[object]:
        """Return exit code, output and errors, without what differs in each run, sorted: Java's sets have no order."""
        words, _, user = step.partition(" as ")
        words, _, stdin = words.partition(" < ")
        arguments = [self._hmac if word == "<hmac>" else word for word in shlex.split(words)]
        at = f"{HOST}:{self._port}" if user else self.broker.bootstrap
        if user:
            arguments += ["--command-config", str(logins / f"{user}.properties")]
        program = start_tool(java, at, tool, *arguments, "--bootstrap-server", at, stdin=stdin).wait()
        if made := _HMAC.search(program.stdout):
            self._hmac = made[0]
        if "--list" not in words and "--describe" not in words:
            wait_for_changes(self.broker)
        printed = (text.replace(str(logins), "<logins>") for text in (program.stdout, program.stderr))
        texts = [normalised(text, at) for text in printed]
        for pattern, replacement in _VARYING:
            texts = [pattern.sub(replacement, text) for text in texts]
        out, err = map(_in_order, texts)
        return [program.exit_code, out, err]


def _in_order(text: str) -> list[str]:
    """Return the lines sorted, and the words of a list of options as one line.

    The list breaks its lines at a width, and names enums in the order of a hash table: breaks differ between JVMs.
    """
    text, *options = re.split(r"^Option\s+Description", text, maxsplit=1, flags=re.MULTILINE)
    usage = [_words_sorted(each) for each in options]
    return sorted(_words_sorted(line.strip()) for line in text.splitlines()) + usage


def _words_sorted(line: str) -> str:
    """Sort a line that lists quotas or ACLs: they have the order of a hash table, which differs between JVMs."""
    return " ".join(sorted(re.split(r"[\[\],\s]+", line)))


@pytest.fixture(scope="module")
def printed(
    tmp_path_factory: pytest.TempPathFactory, java: JavaRunner, recorded: RecordedAnswers
) -> dict[str, list[list[object]]]:
    """Return the output of each step against both brokers; steps depend on earlier ones."""
    logins = tmp_path_factory.mktemp("logins")
    for user in USERS:
        (logins / f"{user}.properties").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} required username="{user}" password="secret";\n'
        )

    def run(kind: str) -> list[list[object]]:
        secured = SecuredBroker(kind, tmp_path_factory.mktemp(kind))
        try:
            return [secured.run(java, tool, step, logins) for tool, step in STEPS]
        finally:
            secured.broker.kill()

    return {"ours": run("ours"), "kafka": recorded.of("printed", lambda: run("kafka"))}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: f"{number}-{STEPS[number][1][:60]}")
def test_tools_print_the_same(number: int, printed: dict[str, list[list[object]]]) -> None:
    """Standard output, standard error and exit code."""
    assert printed["ours"][number] == printed["kafka"][number]
