"""Each command that talks to a broker, against one that all tests share: answers, errors, exit codes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from protocol.records.builder import BatchBuilder
from pybroker.cli.client.connection import Connection
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session
from pybroker.testing import Broker
from tests.support.data_client import DataClient
from tests.support.producing import patched
from tests.support.shell import Done, Shell

SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "num.partitions": 2,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With a listener for anybody, who may do everything, and one for users."""
    with Broker(SECURED) as running:
        yield running


@pytest.fixture
def sh(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(broker.bootstrap_servers, capsys)


def write(broker: Broker, topic: str, *records: tuple[int, str, int], headers: dict[str, str] | None = None) -> None:
    """Write (partition, value, timestamp), each with the key k."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, value, timestamp in records:
        producer.produce(topic, value, "k", partition=partition, timestamp=timestamp, headers=headers or {})
    assert producer.flush(60) == 0


def test_topics_from_the_first_to_the_last_day(sh: Shell, broker: Broker) -> None:
    """Made as with kafka-topics, described, altered, deleted."""
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
    assert sh.good("topics", "delete", "life", "nobodys", "--if-exists").out == "deleted life\n"
    assert "life\n" not in sh.good("topics", "list").out


def test_consume_from_wherever_one_likes(sh: Shell, broker: Broker) -> None:
    """Beginning, offset, time; one partition; until the end, or so many."""
    broker.create_topic("read", partitions=2)
    write(broker, "read", *((0, f"a{n}", 1_700_000_000_000 + n * 1000) for n in range(5)), (1, "b", 1_700_000_002_000))
    end = ("--until-end", "--format", "%p:%o=%v ")

    def read(*options: str) -> list[str]:
        return sorted(sh.good("consume", "read", *end, *options).out.split())

    assert read("--from-beginning") == ["0:0=a0", "0:1=a1", "0:2=a2", "0:3=a3", "0:4=a4", "1:0=b"]
    assert read("--offset", "3") == ["0:3=a3", "0:4=a4"]
    assert read("--offset", "-1") == ["0:4=a4", "1:0=b"]
    assert read("--from", "@1700000002000") == ["0:2=a2", "0:3=a3", "0:4=a4", "1:0=b"]
    assert read("--from", "2023-11-14T22:13:23+00:00", "--partition", "0") == ["0:3=a3", "0:4=a4"]
    assert read("--from", "-5m") == []
    assert read() == []
    assert read("--from-beginning", "--partition", "0", "--max-messages", "2") == ["0:0=a0", "0:1=a1"]


def test_consume_header_whose_name_is_no_text(sh: Shell, broker: Broker) -> None:
    """Clients do not send such; whoever speaks the protocol may. Often enough that the interpreter is warm."""
    broker.create_topic("strange")
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, b"value", [("name", b"")])
    strange = patched(builder.build().replace(b"name", b"\xff\xfe\xfd\xfc"), 21, ">h", 0)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with DataClient(host, int(port)) as client:
        for records in (builder.build(), strange) * 20:
            client.produce("strange", records)
    read = ("consume", "strange", "--from-beginning", "--until-end")
    assert sh.good(*read, "--format", "%h %h").out == "name= name=\n\ufffd= \ufffd=\n" * 20
    headers = [row["headers"] for row in sh.good(*read, "--json").rows]
    assert headers == [[["name", ""]], [["\ufffd", None]]] * 20


def test_consume_ends_behind_a_transaction(sh: Shell, broker: Broker) -> None:
    """A marker is the last that stands in the partition, and no record; one that is aborted is left out if wanted."""
    broker.create_topic("settled")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "settled"})
    producer.init_transactions(60)
    for value, finish in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("settled", value)
        assert producer.flush(60) == 0
        finish(60)
    whole = ("consume", "settled", "--from-beginning", "--until-end")
    assert sh.good(*whole).out == "kept\ndropped\n"
    assert sh.good(*whole, "--isolation-level", "read_committed").out == "kept\n"


def test_consume_shows_all_that_a_record_has(sh: Shell, broker: Broker) -> None:
    """By letters, and as JSON."""
    broker.create_topic("shown")
    write(broker, "shown", (0, "ä", 1_700_000_000_123), headers={"trace": "7"})
    whole = ("consume", "shown", "--from-beginning", "--until-end")
    letters = sh.good(*whole, "--format", r"%t %p %o %k %v %K %S %h %T %D 100%%\n\n")
    assert letters.out == "shown 0 0 k ä 1 2 trace=7 1700000000123 2023-11-14T22:13:20.123Z 100%\n\n"
    assert sh.good(*whole, "--encoding", "hex").out == "c3a4\n"
    in_kafkas_words = ("print.timestamp=true", "print.headers=true", "print.key=true", "key.separator=|")
    properties = [word for each in in_kafkas_words for word in ("--formatter-property", each)]
    told = "Processed a total of 1 messages\n"
    assert sh(*whole, *properties) == Done(0, "CreateTime:1700000000123|trace:7|k|ä\n", told)
    (row,) = sh.good(*whole, "--json").rows
    assert row == {
        "topic": "shown",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "ä",
        "headers": [["trace", "7"]],
    }


def test_groups_read_on_and_are_moved(sh: Shell, broker: Broker) -> None:
    """What consume --group commits is what describe shows, and reset-offsets changes."""
    broker.create_topic("grouped")
    write(broker, "grouped", *((0, f"v{n}", 1_700_000_000_000 + n * 1000) for n in range(4)))
    joined = ("consume", "grouped", "--group", "shop", "--from-beginning", "--max-messages")
    assert sh.good(*joined, "3").out == "v0\nv1\nv2\n"
    assert {"group": "shop", "state": "empty", "protocol": "classic"} in sh.good("groups", "list", "--json").rows
    (described,) = sh.good("groups", "describe", "shop", "--json").rows
    place = {"topic": "grouped", "partition": 0, "offset": 3, "end_offset": 4, "lag": 1, "client": None}
    assert described["partitions"] == [place]
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
    assert sh.good("groups", "--delete", "--group", "shop").out == "deleted shop\n"
    assert sh("groups", "describe", "shop") == Done(1, "", "pybroker groups: shop: there is no such group\n")


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("classic", ["--from-beginning"]), ("consumer", ["--isolation-level", "read_committed"])],
)
def test_group_hears_of_partitions_that_gave_nothing_yet(
    sh: Shell, broker: Broker, protocol: str, options: list[str]
) -> None:
    """What is written to them until its next member comes is no secret to that."""
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


def test_group_whose_topic_is_gone(sh: Shell, broker: Broker) -> None:
    """Nobody knows its end; a member may still hold it."""
    for topic in ("going", "staying"):
        broker.create_topic(topic)
        write(broker, topic, (0, "v", 1_700_000_000_000))
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "holds", "session.timeout.ms": 60_000}
    )
    try:
        consumer.subscribe(["going", "staying"])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        sh.good("topics", "delete", "going")
        (described,) = sh.good("groups", "describe", "holds", "--json").rows
    finally:
        consumer.close()
    rows = {row["topic"]: (row["end_offset"], row["lag"]) for row in described["partitions"]}
    assert rows == {"going": (None, None), "staying": (1, None)}


def test_configs_are_altered(sh: Shell, broker: Broker) -> None:
    """Of a topic and of a broker, in either way of naming them."""
    broker.create_topic("configured")
    altered = sh.good("configs", "alter", "--topic", "configured", "--add-config", "retention.ms=7000")
    assert altered.out == "retention.ms=7000\n"
    by_kafka = sh.good("configs", "--describe", "--entity-type", "topics", "--entity-name", "configured", "--json").rows
    assert {"key": "retention.ms", "value": "7000", "source": "dynamic_topic", "read_only": False} in by_kafka
    back = sh.good("configs", "alter", "--topic", "configured", "--delete-config", "retention.ms")
    assert back.out == "retention.ms is its default again\n"
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


def test_cluster_says_who_it_is(sh: Shell, broker: Broker) -> None:
    """Its id, and its broker's address."""
    (described,) = sh.good("cluster", "describe", "--json").rows
    assert sh.good("cluster", "id").out == f"{described['cluster_id']}\n"
    address = broker.bootstrap_servers.partition(":")
    brokers = [{"broker": 1, "host": address[0], "port": int(address[2]), "rack": None, "controller": True}]
    assert described["brokers"] == brokers


def test_user_may_do_what_entries_say(sh: Shell, broker: Broker, tmp_path: Path) -> None:
    """Made with a password, refused, let in by an entry, refused again when it is gone."""
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
    told = "pybroker users: not allowed: to see users takes the operation describe on the cluster\n"
    assert denied == Done(1, "", told)
    entry = (
        "--allow-principal",
        "User:bob",
        "--operation",
        "read",
        "--operation",
        "DescribeConfigs",
        "--topic",
        "secret",
    )
    assert len(sh.good("acls", "add", *entry, "--json").rows) == 2
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
    ("line", "told"),
    [
        ("topics create orders --partitions none", "topics create: argument --partitions: 'none'"),
        ("topics delete", "topics: which topic?"),
        ("topics describe --topic=", "topics: which topic?"),
        ("groups delete --group=", "groups: which group?"),
        ("consume --topic=", "consume: one topic, please"),
        ("consume orders --group=", "consume: which group?"),
        ("configs describe --topic=", "configs: settings of what?"),
        ("topics list -X no.such.key=1", 'topics: No such configuration property: "no.such.key"'),
        ("topics list --command-config /nowhere", "topics: /nowhere: No such file or directory"),
        ("topics paint", "topics: argument ACTION: invalid choice: 'paint'"),
        ("consume", "consume: one topic, please"),
        ("consume orders --from yesterday", "consume: argument --from: 'yesterday' is no time"),
        ("consume orders --format %x", "consume: argument --format: '%x': there is no %x"),
        ("consume orders --timeout-ms 0", "consume: argument --timeout-ms: '0' is no whole number"),
        ("consume orders --formatter-property print.key", "consume: argument --formatter-property: 'print.key' is not"),
        ("consume orders --group shop --offset 3", "consume: --group goes on where the group is"),
        ("groups reset-offsets shop", "groups reset-offsets: one of the arguments --to --to-earliest "),
        ("groups reset-offsets shop --shift-by one", "groups reset-offsets: argument --shift-by: 'one' is no whole"),
        (
            "groups reset-offsets shop --to-datetime 2026",
            "groups reset-offsets: argument --to-datetime: '2026' is no time",
        ),
        (
            "groups reset-offsets shop --by-duration 5m",
            "groups reset-offsets: argument --by-duration: '5m' is no duration",
        ),
        ("groups reset-offsets shop --to-latest --to 3", "groups reset-offsets: argument --to: not allowed with"),
        ("configs alter --topic orders", "configs: nothing to change"),
        ("configs describe --broker one", "configs: 'one' is no broker's id"),
        ("acls add --topic orders", "acls: an entry has a resource, a principal and operations"),
        ("acls remove", "acls: of which resource or principal?"),
        ("users create ann", "users: no terminal to ask for the password"),
    ],
)
def test_bad_command_line(sh: Shell, line: str, told: str) -> None:
    """Exit code 2 and one line that says what is wrong."""
    command, *arguments = line.split()
    done = sh(command, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"pybroker {told}")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("topics create kept", "topics: kept: Topic 'kept' already exists."),
        ("topics delete nobodys", "topics: nobodys: Unknown topic or partition"),
        ("topics create two/words", "topics: two/words: "),
        ("topics create thrice --replication-factor 3", "topics: thrice: "),
        ("consume nobodys", "consume: nobodys: Unknown topic or partition"),
        ("consume kept --partition 7", "consume: kept: there is no partition 7"),
        ("groups delete nobodys", "groups: nobodys: "),
        (
            "perf produce --topic nobodys --num-records 1",
            "perf: there is no topic nobodys: make it first, pybroker topics create nobodys\n",
        ),
        ("groups reset-offsets nobodys --to latest", "groups: nobodys: it has no offsets"),
        ("configs alter --topic kept --add-config retention.ms=often", "configs: kept: Invalid value often"),
        ("configs describe --broker 77", "configs: there is no broker 77"),
        ("configs describe --topic nobodys", "configs: nobodys: Unknown topic or partition"),
        ("users delete nobody", "users: nobody: "),
    ],
)
def test_what_the_broker_refuses(sh: Shell, broker: Broker, line: str, told: str) -> None:
    """Exit code 1 and one line, with its reason."""
    sh.good("topics", "create", "kept", "--if-not-exists")
    command, *arguments = line.split()
    done = sh(command, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"pybroker {told}")


@pytest.mark.parametrize(
    "line",
    [
        *("topics list", "consume orders", "cluster id", "groups list", "acls list", "users list", "top --once"),
        *("perf produce --topic orders --num-records 1", "mirror --source localhost:1"),
    ],
)
def test_no_broker(sh: Shell, line: str) -> None:
    """One line that names the address, at once."""
    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command, *arguments = line.split()
        done = sh(command, *arguments, server=address)
    assert done == Done(1, "", f"pybroker {command}: {address}: Connect to ipv4#{address} failed: Connection refused\n")


def consuming(broker: Broker, *options: str, stdout: int) -> subprocess.Popen[str]:
    """The command as a process."""
    words = ["consume", *options, "--from-beginning", "--bootstrap-server", broker.bootstrap_servers]
    command = [sys.executable, "-m", "pybroker", *words]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_consume_goes_on_until_it_is_told(broker: Broker) -> None:
    """SIGTERM is as Ctrl-C, and no mistake."""
    topic = "going"
    broker.create_topic(topic)
    write(broker, topic, (0, "first", 1000))
    with consuming(broker, topic, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        write(broker, topic, (0, "second", 1000))
        assert process.stdout.readline() == "second\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_nobody_reads_on(broker: Broker) -> None:
    """As with `| head`: no traceback, and nothing is told."""
    broker.create_topic("long")
    write(broker, "long", *((0, "x" * 1000, 1000) for _ in range(300)))
    reading, writing = os.pipe()
    with consuming(broker, "long", "--until-end", stdout=writing) as process:
        os.close(writing)
        assert os.read(reading, 100)
        os.close(reading)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_ends_of_a_topic_that_is_gone(broker: Broker) -> None:
    """Are left out where they are not needed; else it is told."""
    broker.create_topic("stays")
    session = Session(Connection(broker.bootstrap_servers, 30))
    places = [("stays", 0), ("never-was", 0)]
    assert session.ends(places, if_there=True) == session.starts(places, if_there=True) == {("stays", 0): 0}
    with pytest.raises(CommandError, match="never-was-0: Unknown topic or partition"):
        session.ends(places)
