"""Each command that talks to a broker: output, errors and exit codes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from pybroker.cli.client.connection import Connection
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session
from pybroker.testing import Broker
from tests.support.shell import Done, Shell, write

SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "num.partitions": 2,
}


# A broker with a listener for the anonymous super user, and one for SCRAM users.
pytestmark = pytest.mark.broker(Broker, SECURED)


def test_topic_is_created_described_altered_and_deleted(sh: Shell, broker: Broker) -> None:
    """With the options of `pybroker topics`, and with those of kafka-topics."""
    assert sh.good("topics", "--create", "--topic", "life", "--config", "retention.ms=-1").out == "created life\n"
    assert sh.good("topics", "create", "life", "--if-not-exists").out == ""
    assert sh.good("topics", "alter", "life", "--partitions", "3").out == "altered life\n"
    write(broker, "life", (2, "a", 1000))
    (described,) = sh.good("topics", "describe", "life", "--json").rows
    assert described["configs"] == {"retention.ms": "-1"}
    partitions = described["partitions"]
    assert isinstance(partitions, list)
    assert [each["end_offset"] for each in partitions] == [0, 0, 1]
    first, *table = sh.good("topics", "describe", "life").out.splitlines()
    assert first.startswith("life  ")
    assert first.endswith("  retention.ms=-1")
    assert [line.split() for line in table][-1] == ["2", "1", "1", "1", "0", "1"]
    assert {"topic": "life", "partitions": 3, "internal": False} in sh.good("topics", "list", "--json").rows
    assert "life\n" in sh.good("topics", "list", "--exclude-internal").out
    for option in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert sh.good("topics", "describe", option).out == ""
    sh.good("topics", "create", "plain")
    sh.good("consume", "plain", "--group", "makes-__consumer_offsets", "--idle", "0.1")
    described_by_option = {}
    for option in ("--timeout=30", "--exclude-internal", "--topics-with-overrides"):
        rows = sh.good("topics", "describe", option, "--json").rows
        described_by_option[option] = {str(row["topic"]) for row in rows} & {"life", "plain", "__consumer_offsets"}
    assert list(described_by_option.values()) == [
        {"life", "plain", "__consumer_offsets"},
        {"life", "plain"},
        {"life", "__consumer_offsets"},
    ]
    assert sh.good("topics", "delete", "life", "nobodys", "--if-exists").out == "deleted life\n"
    assert "life\n" not in sh.good("topics", "list").out


def test_group_offsets_are_committed_described_and_reset(sh: Shell, broker: Broker) -> None:
    """`consume --group` commits the offsets that `groups describe` shows."""
    broker.create_topic("grouped")
    write(broker, "grouped", *((0, f"v{n}", 1_700_000_000_000 + n * 1000) for n in range(4)))
    joined = ("consume", "grouped", "--group", "shop", "--from-beginning", "--max-messages")
    assert sh.good(*joined, "3").out == "v0\nv1\nv2\n"
    assert {"group": "shop", "state": "empty", "protocol": "classic"} in sh.good("groups", "list", "--json").rows
    chosen = {
        options: "shop" in {row["group"] for row in sh.good("groups", "--list", "--json", *options.split()).rows}
        for options in (
            "--state",
            "--state Stable,Empty",
            "--state PreparingRebalance",
            "--type Classic",
            "--type spark",
        )
    }
    assert list(chosen.values()) == [True, True, False, True, False]
    (described,) = sh.good("groups", "--describe", "--group", "shop", "--state", "--json").rows
    head = {"group": "shop", "state": "empty", "protocol": "classic", "assignor": "", "coordinator": 1, "members": 0}
    assert described == head
    (described,) = sh.good("groups", "describe", "shop", "--json").rows
    partition = {"topic": "grouped", "partition": 0, "offset": 3, "end_offset": 4, "lag": 1, "client": None}
    assert described["partitions"] == [partition]
    assert sh.good("groups", "describe", "shop", "--members").out == "shop: empty, 0 members\n"

    def moved(*options: str) -> list[object]:
        return [row["new_offset"] for row in sh.good("groups", "reset-offsets", "shop", "--json", *options).rows]

    assert moved("--to", "earliest") == [0]
    assert moved("--to", "-1") == [2]
    assert moved("--to", "+9") == [4]
    assert moved("--to", "@1700000002000") == [2]
    assert moved("--to-datetime", "2023-11-14T22:13:21.500") == [2]
    assert moved("--by-duration", "PT1S") == [4]
    assert moved("--by-duration", "P9000D") == [0]
    words = ("--to-earliest", "--to-latest", "--to-offset=2", "--to-current", "--shift-by=-2", "--shift-by=1")
    assert [moved("--all-topics", "--dry-run", word) for word in words] == [[0], [4], [2], [3], [1], [4]]
    assert "shop" in {row["group"] for row in sh.good("groups", "--describe", "--all-groups", "--json").rows}
    assert moved("--topic", "grouped", "--to", "1", "--execute") == [1]
    assert sh.good(*joined, "1").out == "v1\n"
    message = "pybroker groups: shop: it has no offsets of nothing\n"
    assert sh("groups", "delete-offsets", "shop", "--topic", "nothing") == Done(1, "", message)
    (row,) = sh.good("groups", "--delete-offsets", "--group", "shop", "--topic", "grouped", "--json").rows
    assert row == {"group": "shop", "topic": "grouped", "partition": 0, "deleted": True}
    message = "pybroker groups: shop: it has no offsets of grouped\n"
    assert sh("groups", "delete-offsets", "shop", "--topic", "grouped") == Done(1, "", message)
    assert moved("--topic", "grouped", "--to", "1", "--execute") == [1]
    assert sh.good("groups", "--delete", "--group", "shop").out == "deleted shop\n"
    assert sh("groups", "describe", "shop") == Done(1, "", "pybroker groups: shop: there is no such group\n")


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("classic", ["--from-beginning"]), ("consumer", ["--isolation-level", "read_committed"])],
)
def test_group_commits_offsets_of_empty_partitions(
    sh: Shell, broker: Broker, protocol: str, options: list[str]
) -> None:
    """Without the commit, the next member would skip the records that arrive before it joins."""
    name = f"quiet-{protocol}"
    broker.create_topic(name, partitions=2)
    joined = ("consume", name, "--group", name, "-X", f"group.protocol={protocol}")
    if options[0] == "--from-beginning":
        write(broker, name, (0, "first", 1_700_000_000_000))
        assert sh.good(*joined, "--max-messages", "1", *options).out == "first\n"
    else:
        sh.good(*joined, "--idle", "1", *options)
    write(broker, name, (1, "second", 1_700_000_000_000))
    assert sh.good(*joined, "--max-messages", "1", "--idle", "15").out == "second\n"


def test_group_of_a_deleted_topic_is_described(sh: Shell, broker: Broker) -> None:
    """The partition has no end offset, but a member still has it."""
    for topic in ("deleted", "stays"):
        broker.create_topic(topic)
        write(broker, topic, (0, "v", 1_700_000_000_000))
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "holds", "session.timeout.ms": 60_000}
    )
    try:
        consumer.subscribe(["deleted", "stays"])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        sh.good("topics", "delete", "deleted")
        (described,) = sh.good("groups", "describe", "holds", "--json").rows
    finally:
        consumer.close()
    rows = {row["topic"]: (row["end_offset"], row["lag"]) for row in described["partitions"]}
    assert rows == {"deleted": (None, None), "stays": (1, None)}


def test_configs_are_altered_and_described(sh: Shell, broker: Broker) -> None:
    """Configs of a topic and of brokers, with pybroker's options and Kafka's."""
    broker.create_topic("configured")
    altered = sh.good("configs", "alter", "--topic", "configured", "--add-config", "retention.ms=7000")
    assert altered.out == "retention.ms=7000\n"
    by_kafka = sh.good("configs", "--describe", "--entity-type", "topics", "--entity-name", "configured", "--json").rows
    assert {"key": "retention.ms", "value": "7000", "source": "dynamic_topic", "read_only": False} in by_kafka
    back = sh.good("configs", "alter", "--topic", "configured", "--delete-config", "retention.ms")
    assert back.out == "retention.ms was reset to its default\n"
    assert "retention.ms" not in sh.good("configs", "describe", "--topic", "configured").out
    assert "retention.ms" in sh.good("configs", "describe", "--topic", "configured", "--all").out
    sh.good(
        "configs", "alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "background.threads=9"
    )
    assert "background.threads" in sh.good("configs", "describe", "--broker", "1").out
    of_all = ("--entity-type", "brokers", "--entity-default")
    assert (
        sh.good("configs", "--alter", *of_all, "--add-config", "log.retention.ms=9000").out == "log.retention.ms=9000\n"
    )
    row = {"key": "log.retention.ms", "value": "9000", "source": "dynamic_default_broker", "read_only": False}
    assert row in sh.good("configs", "describe", *of_all, "--json").rows
    sh.good("configs", "alter", "--entity-default", "--delete-config", "log.retention.ms")
    assert row not in sh.good("configs", "describe", "--entity-default", "--json").rows
    misused = sh("configs", "describe", "--topic", "configured", "--entity-default")
    assert (misused.code, misused.err.count("\n")) == (2, 1)


def test_cluster_describe_shows_id_and_brokers(sh: Shell, broker: Broker) -> None:
    (described,) = sh.good("cluster", "describe", "--json").rows
    assert sh.good("cluster", "id").out == f"{described['cluster_id']}\n"
    address = broker.bootstrap_servers.partition(":")
    brokers = [{"broker": 1, "host": address[0], "port": int(address[2]), "rack": None, "controller": True}]
    assert described["brokers"] == brokers


def test_user_has_the_rights_of_acl_entries(sh: Shell, broker: Broker, tmp_path: Path) -> None:
    """A user is created with a password and denied, and ACL entries grant rights until they are removed."""
    broker.create_topic("secret")
    (tmp_path / "password").write_text("letmein\n")
    (tmp_path / "client.properties").write_text(
        "# as for a Java client\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        'sasl.jaas.config=org.apache.kafka...ScramLoginModule required username="bob" password="letmein";\n'
    )
    made = sh.good("users", "create", "bob", "--password-file", str(tmp_path / "password"), "--json")
    assert made.rows == [{"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    assert made.rows == sh.good("users", "list", "--json").rows
    as_bob = ("--command-config", str(tmp_path / "client.properties"))
    secured = broker.listeners["SASL_PLAINTEXT"]

    denied = sh("topics", "describe", "secret", *as_bob, server=secured)
    assert denied == Done(1, "", "pybroker topics: secret: Topic authorization failed\n")
    denied = sh("users", "delete", "bob", *as_bob, server=secured)
    message = "pybroker users: not allowed: listing users needs the operation describe on the cluster\n"
    assert denied == Done(1, "", message)
    acl = (
        "--allow-principal",
        "User:bob",
        "--operation",
        "read",
        "--operation",
        "DescribeConfigs",
        "--topic",
        "secret",
    )
    assert len(sh.good("acls", "add", *acl[:4], *acl[-2:], "--json").rows) == 1
    (row,) = sh("topics", "describe", "secret", "--json", *as_bob, server=secured).rows
    assert (row["configs"], row["partitions"][0]["end_offset"]) == (None, 0)  # type: ignore[index]
    assert len(sh.good("acls", "add", *acl, "--json").rows) == 2
    assert len(sh.good("acls", "list", "--topic", "secret", "--json").rows) == 2
    assert sh("topics", "describe", "secret", *as_bob, server=secured).code == 0
    changed = sh("configs", "alter", "--topic", "secret", "--add-config", "flush.ms=1", *as_bob, server=secured)
    assert (changed.code, changed.err.count("\n")) == (1, 1)
    assert "uthorization failed" in changed.err
    assert len(sh.good("acls", "remove", "--allow-principal", "User:bob", "--json").rows) == 2
    assert sh.good("acls", "list", "--json").rows == []

    wrong = sh("topics", "list", *as_bob, "-X", "sasl.password=guess", server=secured)
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert "uthentication failed" in wrong.err
    assert sh.good("users", "delete", "bob").out == "deleted bob (SCRAM-SHA-512)\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topics create orders --partitions none", "topics create: argument --partitions: 'none'"),
        ("topics delete", "topics: which topic?"),
        ("topics describe --topic=", "topics: which topic?"),
        ("groups delete --group=", "groups: which group?"),
        ("consume --topic=", "consume: which topics? TOPIC... or --include REGEX"),
        ("consume orders --group=", "consume: which group?"),
        ("configs describe --topic=", "configs: settings of what?"),
        ("topics list -X no.such.key=1", 'topics: No such configuration property: "no.such.key"'),
        ("topics list --command-config /nowhere", "topics: /nowhere: No such file or directory"),
        ("topics paint", "topics: argument ACTION: invalid choice: 'paint'"),
        ("consume", "consume: which topics? TOPIC... or --include REGEX"),
        ("consume orders --include .*", "consume: which topics? TOPIC... or --include REGEX"),
        ("consume --include (", "consume: argument --include: '(' is not a regular expression: missing )"),
        ("consume orders sales --partition 0", "consume: --partition needs exactly one topic"),
        ("consume --include .* --partition 0", "consume: --partition needs exactly one topic"),
        ("consume orders --from yesterday", "consume: argument --from: 'yesterday' is not a time"),
        ("consume orders --format %x", "consume: argument --format: '%x': there is no %x"),
        ("consume orders --timeout-ms 0", "consume: argument --timeout-ms: '0' is not an integer"),
        ("consume orders --formatter-property print.key", "consume: argument --formatter-property: 'print.key' is not"),
        ("consume orders --group shop --offset 3", "consume: --group continues at the group's offsets"),
        ("groups reset-offsets shop", "groups reset-offsets: one of the arguments --to --to-earliest "),
        ("groups list --state idle", "groups list: argument --state: 'idle' names no states: they are stable, empty, "),
        (
            "groups reset-offsets shop --shift-by one",
            "groups reset-offsets: argument --shift-by: 'one' is not an integer",
        ),
        (
            "groups reset-offsets shop --to-datetime 2026",
            "groups reset-offsets: argument --to-datetime: '2026' is not a time",
        ),
        (
            "groups reset-offsets shop --by-duration 5m",
            "groups reset-offsets: argument --by-duration: '5m' is not a duration",
        ),
        ("groups reset-offsets shop --to-latest --to 3", "groups reset-offsets: argument --to: not allowed with"),
        ("configs alter --topic orders", "configs: nothing to change"),
        ("configs describe --broker one", "configs: 'one' is not a broker id"),
        ("acls add --topic orders", "acls: an entry has a resource, a principal and operations"),
        ("acls remove", "acls: of which resource or principal?"),
        ("users create ann", "users: no terminal to ask for the password"),
    ],
)
def test_bad_command_line(sh: Shell, line: str, message: str) -> None:
    """The command prints one line and exits with code 2."""
    command, *arguments = line.split()
    done = sh(command, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"pybroker {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topics create kept", "topics: kept: Topic 'kept' already exists."),
        ("topics delete nobodys", "topics: nobodys: Unknown topic or partition"),
        ("topics create two/words", "topics: two/words: "),
        ("topics create thrice --replication-factor 3", "topics: thrice: "),
        ("consume nobodys", "consume: nobodys: Unknown topic or partition"),
        ("consume kept --partition 7", "consume: kept: unknown partition 7"),
        ("groups delete nobodys", "groups: nobodys: "),
        (
            "perf produce --topic nobodys --num-records 1",
            "perf: there is no topic nobodys: create it by pybroker topics create nobodys\n",
        ),
        ("groups reset-offsets nobodys --to latest", "groups: nobodys: it has no offsets"),
        ("configs alter --topic kept --add-config retention.ms=often", "configs: kept: Invalid value often"),
        ("configs describe --broker 77", "configs: there is no broker 77"),
        ("configs describe --topic nobodys", "configs: nobodys: Unknown topic or partition"),
        ("users delete nobody", "users: nobody: "),
    ],
)
def test_errors_of_the_broker_are_one_line(sh: Shell, broker: Broker, line: str, message: str) -> None:
    """The line has the broker's reason, and the exit code is 1."""
    sh.good("topics", "create", "kept", "--if-not-exists")
    command, *arguments = line.split()
    done = sh(command, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"pybroker {message}")


@pytest.mark.parametrize(
    "line",
    [
        *("topics list", "consume orders", "cluster id", "groups list", "acls list", "users list", "top --once"),
        *("perf produce --topic orders --num-records 1", "mirror --source localhost:1"),
    ],
)
def test_unreachable_broker_is_named_at_once(sh: Shell, line: str) -> None:
    with socket.socket() as taken:  # bound but not listening, so connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command, *arguments = line.split()
        done = sh(command, *arguments, server=address)
    assert done == Done(1, "", f"pybroker {command}: {address}: Connect to ipv4#{address} failed: Connection refused\n")


def test_end_offsets_of_a_missing_topic(broker: Broker) -> None:
    """With `if_there` it is left out, else it is an error."""
    broker.create_topic("existing")
    session = Session(Connection(broker.bootstrap_servers, 30))
    partitions = [("existing", 0), ("never-was", 0)]
    assert session.ends(partitions, if_there=True) == session.starts(partitions, if_there=True) == {("existing", 0): 0}
    with pytest.raises(CommandError, match="never-was-0: Unknown topic or partition"):
        session.ends(partitions)
