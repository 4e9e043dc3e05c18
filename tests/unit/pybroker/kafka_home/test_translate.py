"""Command lines of Kafka's tools, translated to pybroker's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.kafka_release import KAFKA_VERSION
from pybroker.kafka_home.common_options import BadCommandLine, CannotTranslate, Command
from pybroker.kafka_home.configs import settings
from pybroker.kafka_home.topics import include_list
from pybroker.kafka_home.translate import TRANSLATIONS

AT = ["--bootstrap-server", "localhost:9092"]
SCRAM = "SCRAM-SHA-256=[iterations=8192,password=a,secret],SCRAM-SHA-512=[password=other]"


@pytest.mark.parametrize(
    ("tool", "given", "commands"),
    [
        (
            "kafka-topics",
            "--create --topic a --partitions 3 --replication-factor 1 --if-not-exists",
            [
                Command(
                    "topics",
                    ["create", "--topic", "a", "--partitions", "3", "--replication-factor", "1", "--if-not-exists"],
                )
            ],
        ),
        (
            "kafka-topics",
            "--bootstrap-server PLAINTEXT://h:1,SASL_SSL://i:2 --list --command-config c.properties",
            [Command("topics", ["list", "--bootstrap-server", "h:1,i:2", "--command-config", "c.properties"])],
        ),
        (
            "kafka-configs",
            "--alter --entity-type topics --entity-name a --add-config k=v,l=[1,2] --delete-config m,n",
            [
                Command(
                    "configs",
                    [
                        "alter",
                        "--entity-type",
                        "topics",
                        "--entity-name",
                        "a",
                        "--add-config",
                        "k=v",
                        "--add-config",
                        "l=1,2",
                        "--delete-config",
                        "m",
                        "--delete-config",
                        "n",
                    ],
                )
            ],
        ),
        ("kafka-configs", "--describe --entity-type users", [Command("quotas", ["list"]), Command("users", ["list"])]),
        (
            "kafka-configs",
            "--alter --add-config consumer_byte_rate=1024,request_percentage=5 --entity-type clients --entity-name c",
            [Command("quotas", ["set", "--client", "c", "consumer_byte_rate=1024", "request_percentage=5"])],
        ),
        (
            "kafka-configs",
            "--alter --delete-config producer_byte_rate,SCRAM-SHA-256 --user u --client-defaults",
            [
                Command("users", ["delete", "u", "--mechanism", "SCRAM-SHA-256"]),
                Command("quotas", ["delete", "--user", "u", "--client-defaults", "producer_byte_rate", "--strict"]),
            ],
        ),
        (
            "kafka-configs",
            "--describe --broker 1 --all",
            [Command("configs", ["describe", "--entity-type", "brokers", "--entity-name", "1", "--all"])],
        ),
        (
            "kafka-configs",
            "--alter --broker-defaults --add-config k=v",
            [Command("configs", ["alter", "--entity-type", "brokers", "--entity-default", "--add-config", "k=v"])],
        ),
        (
            "kafka-acls",
            "--force --authorizer-properties zookeeper.connect=h:1 --add --allow-principal User:a --allow-host *"
            " --operation Read --topic t",
            [
                Command(
                    "acls",
                    [
                        *("add", "--topic", "t", "--allow-principal", "User:a"),
                        *("--allow-host", "*", "--operation", "Read"),
                    ],
                )
            ],
        ),
        (
            "kafka-console-producer",
            "--broker-list h:1 --topic t --reader-property parse.key=true",
            [Command("produce", ["--topic", "t", "--reader-property", "parse.key=true"])],
        ),
        (
            "kafka-producer-perf-test",
            "--topic t --num-records 9 --record-size 5 --throughput -1 --producer-props acks=1 linger.ms=7"
            " bootstrap.servers=h:1",
            [
                Command(
                    "perf",
                    [
                        *("produce", "--topic", "t", "--num-records", "9", "--record-size", "5", "--throughput", "-1"),
                        *("--producer-props", "linger.ms=7", "-X", "batch.size=16384", "-X", "acks=1"),
                    ],
                )
            ],
        ),
        (
            "kafka-consumer-perf-test",
            "--broker-list h:1 --topic t --messages 9 --timeout 1500 --fetch-size 7 --command-property client.id=c",
            [
                Command(
                    "perf",
                    [
                        *("consume", "--topic", "t", "--messages", "9", "--allow-fewer", "--idle", "1.5"),
                        *("-X", "fetch.message.max.bytes=7", "-X", "client.id=c"),
                    ],
                )
            ],
        ),
        ("kafka-cluster", "cluster-id --bootstrap-server h:1", [Command("cluster", ["id"])]),
        ("kafka-client-metrics", "--describe --name n", [Command("client-metrics", ["--describe", "--name", "n"])]),
        ("kafka-broker-api-versions", "", [Command("cluster", ["api-versions"])]),
        (
            "kafka-reassign-partitions",
            "--generate --topics-to-move-json-file t.json --broker-list 1,2",
            [Command("reassign", ["generate", "--topics-to-move-json-file", "t.json", "--broker-list", "1,2"])],
        ),
        (
            "kafka-reassign-partitions",
            "--reassignment-json-file p.json --execute --throttle -1 --timeout 5",
            [Command("reassign", ["execute", "--move-timeout", "0.005", "--reassignment-json-file", "p.json"])],
        ),
        (
            "kafka-reassign-partitions",
            "--execute --reassignment-json-file p.json --disallow-replication-factor-change",
            [
                Command(
                    "reassign",
                    ["execute", "--disallow-replication-factor-change", "--reassignment-json-file", "p.json"],
                )
            ],
        ),
        (
            "kafka-leader-election",
            "--topic t --partition 3 --election-type UNCLEAN --admin.config c.properties",
            [
                Command(
                    "elect-leaders",
                    [
                        *("--election-type", "UNCLEAN", "--topic", "t", "--partition", "3"),
                        *("--command-config", "c.properties"),
                    ],
                )
            ],
        ),
        (
            "kafka-replica-verification",
            "--broker-list h:1 --fetch-size 9",
            [Command("verify-replicas", ["--watch", "--from-end", "--fetch-size", "9"])],
        ),
        ("kafka-replica-verification", "--broker-list h:1 --time -2", [Command("verify-replicas", ["--watch"])]),
        ("kafka-metadata-quorum", "describe --status", [Command("cluster", ["quorum"])]),
        (
            "kafka-metadata-quorum",
            "describe --replication --human-readable",
            [Command("cluster", ["quorum", "--replication", "--human-readable"])],
        ),
        ("kafka-cluster", "api-versions", [Command("cluster", ["api-versions"])]),
        ("kafka-cluster", "unregister-controller -i 7", [Command("cluster", ["unregister-controller", "--id", "7"])]),
        (
            "kafka-share-groups",
            "--reset-offsets --group g --topic t:0 --to-offset 5 --dry-run --timeout 9000",
            [
                Command(
                    "groups",
                    [
                        *(
                            "reset-offsets",
                            "--share",
                            "--group",
                            "g",
                            "--topic",
                            "t:0",
                            "--to-offset",
                            "5",
                            "--dry-run",
                        ),
                        *("--timeout", "9.0"),
                    ],
                    failure=0,
                )
            ],
        ),
        ("kafka-share-groups", "--list", [Command("groups", ["list", "--type", "share"], failure=0)]),
        (
            "kafka-share-groups",
            "--delete --group g",
            [Command("groups", ["delete", "--share", "--group", "g"], failure=0)],
        ),
        (
            "kafka-streams-groups",
            "--delete-offsets --group delete --all-input-topics",
            [Command("groups", ["delete-offsets", "--streams", "--group", "delete", "--all-topics"], failure=0)],
        ),
        ("kafka-cluster", "unregister -i 7", [Command("cluster", ["unregister", "--id", "7"])]),
        (
            "kafka-streams-groups",
            "--describe --group g --topology",
            [Command("groups", ["describe", "--streams", "--group", "g", "--topology"])],
        ),
        ("kafka-consumer-groups", "--list", [Command("groups", ["--list"], failure=0)]),
        (
            "kafka-consumer-groups",
            "--describe --all-groups --timeout 5000",
            [Command("groups", ["--describe", "--all-groups", "--timeout", "5.0"], failure=0)],
        ),
        (
            "kafka-topics",
            "--delete --topic orders-.*,old",
            [Command("topics", ["delete", "--include", "orders-.*|old"])],
        ),
        (
            "kafka-acls",
            "--remove --topic t --operation Read --force",
            [Command("acls", ["remove", "--topic", "t"])],
        ),
        (
            "kafka-configs",
            "--describe --entity-type groups --entity-name g",
            [Command("configs", ["describe", "--entity-type", "groups", "--entity-name", "g"])],
        ),
        (
            "kafka-configs",
            "--describe --entity-type topics",
            [Command("configs", ["describe", "--entity-type", "topics"])],
        ),
        (
            "kafka-configs",
            "--describe --user ann",
            [Command("quotas", ["list", "--user", "ann"]), Command("users", ["list", "ann"])],
        ),
        ("kafka-configs", "--describe --user-defaults", [Command("quotas", ["list", "--user-defaults"])]),
    ],
)
def test_options_are_translated(tool: str, given: str, commands: list[Command]) -> None:
    """Where they differ. The broker's address comes last."""
    translated = TRANSLATIONS[tool](given.split())

    for one in translated:
        if "h:1" in one.arguments:
            del one.arguments[-2:]
    assert translated == commands


def test_passwords_are_not_passed_as_arguments() -> None:
    """All users of a machine can see arguments. Each mechanism is a command."""
    words = ["--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", SCRAM, *AT]
    first, second = TRANSLATIONS["kafka-configs"](words)

    create = ["create", "ann", "--password-file", "-", "--mechanism"]
    assert first.arguments == [*create, "SCRAM-SHA-256", "--iterations", "8192", *AT]
    assert (first.stdin, second.stdin) == ("a,secret\n", "other\n")
    assert second.arguments == [*create, "SCRAM-SHA-512", *AT]
    assert second.stdin == "other\n"


def test_password_is_deleted_by_mechanism() -> None:
    words = ["--alter", "--entity-type", "users", "--entity-name", "ann", "--delete-config", "SCRAM-SHA-512"]
    assert TRANSLATIONS["kafka-configs"](words) == [Command("users", ["delete", "ann", "--mechanism", "SCRAM-SHA-512"])]


def test_requests_without_login_use_plaintext_listeners() -> None:
    """trivup passes a list of all advertised listeners."""
    given = "SASL_PLAINTEXT://h:1,PLAINTEXT://h:2,DOCKER://h:3"
    (command,) = TRANSLATIONS["kafka-topics"](["--list", "--bootstrap-server", given])
    assert command.arguments == ["list", "--bootstrap-server", "h:2"]


def test_zookeeper_option_is_replaced_by_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """With a warning."""
    assert TRANSLATIONS["kafka-topics"](["--list", "--zookeeper", "h:2181/x"]) == [Command("topics", ["list"])]
    assert "ZooKeeper is not supported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("kafka-configs", "--alter --entity-type topics --entity-name a --entity-type users --add-config k=v"),
        ("kafka-configs", "--alter --entity-type users --entity-name ann --add-config SCRAM-SHA-256=[iterations=8192]"),
        ("kafka-cluster", "cluster-id --bootstrap-controller h:1"),
    ],
)
def test_unsupported_options_are_rejected(tool: str, given: str) -> None:
    """They are not ignored."""
    with pytest.raises(CannotTranslate):
        TRANSLATIONS[tool](given.split())


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("kafka-acls", "--topic t"),
        ("kafka-acls", "--list --add --topic t"),
        ("kafka-acls", "--list --allow-principal User:a"),
        ("kafka-acls", "--remove --allow-principal User:a"),
        ("kafka-acls", "--add --principal User:a --topic t"),
        ("kafka-topics", "--topic t"),
        ("kafka-topics", "--delete"),
        ("kafka-topics", "--list --create --topic t"),
        ("kafka-consumer-groups", "--reset-offsets --group g --to-earliest"),
        ("kafka-consumer-groups", "--describe"),
        ("kafka-cluster", "unregister-controller"),
        ("kafka-cluster", "unregister"),
        ("kafka-share-groups", "--list --describe --group g"),
        ("kafka-share-groups", "--group g"),
        ("kafka-share-groups", "--delete"),
        ("kafka-share-groups", "--delete-offsets --group g"),
        ("kafka-share-groups", "--reset-offsets --all-groups --topic t --to-current --dry-run"),
        ("kafka-streams-groups", "--reset-offsets --group g --to-current --dry-run"),
        ("kafka-streams-groups", "--reset-offsets --group g --input-topic t --to-current"),
        (
            "kafka-streams-groups",
            "--reset-offsets --group g --all-input-topics --to-current --dry-run --delete-all-internal-topics",
        ),
        ("kafka-cluster", "api-versions --id 1"),
        ("kafka-cluster", "cluster-id --include-fenced-brokers"),
        ("kafka-consumer-perf-test", "--topic t --messages 9 --num-records 9"),
        ("kafka-share-groups", "--reset-offsets --topic t --to-current --dry-run"),
        ("kafka-share-groups", "--reset-offsets --group g --topic t --dry-run"),
        ("kafka-share-groups", "--reset-offsets --group g --to-current --dry-run"),
        ("kafka-share-groups", "--reset-offsets --group g --topic t --to-current"),
        ("kafka-share-groups", "--reset-offsets --group g --topic t --to-current --dry-run --execute"),
        ("kafka-streams-groups", "--describe --topology"),
        ("kafka-producer-perf-test", "--topic t --num-records 9 --record-size 5"),
        ("kafka-producer-perf-test", "--topic t --num-records 9 --throughput -1"),
        ("kafka-consumer-groups", "--delete"),
        ("kafka-configs", "--describe"),
        ("kafka-configs", "--entity-type topics --entity-name t"),
        ("kafka-configs", "--alter --entity-type users --add-config producer_byte_rate=1"),
        ("kafka-configs", "--alter --entity-type topics --add-config retention.ms=1"),
        ("kafka-reassign-partitions", ""),
        ("kafka-reassign-partitions", "--verify --reassignment-json-file p.json --timeout 5"),
        ("kafka-reassign-partitions", "--list --cancel --reassignment-json-file p.json"),
        ("kafka-leader-election", "--all-topic-partitions"),
        ("kafka-leader-election", "--election-type preferred --topic t"),
        ("kafka-leader-election", "--election-type preferred --all-topic-partitions --partition 0"),
        ("kafka-replica-verification", ""),
        ("kafka-metadata-quorum", "describe"),
        ("kafka-metadata-quorum", "describe --status --replication"),
        ("kafka-metadata-quorum", "describe --status --human-readable"),
        ("kafka-metadata-quorum", "describe --status --dry-run"),
    ],
)
def test_lines_that_kafka_refuses_are_rejected(tool: str, given: str) -> None:
    """Some of them would be valid for pybroker's commands, with a wider effect."""
    with pytest.raises(BadCommandLine):
        TRANSLATIONS[tool](given.split())


def test_perf_tool_has_the_defaults_of_kafkas_producer(tmp_path: Path) -> None:
    """The file of properties wins over them, and the command's own linger.ms does not win over the file."""
    words = ["--topic", "t", "--num-records", "9", "--record-size", "5", "--throughput", "-1", "--command-config"]
    file = tmp_path / "p"
    for text, expected in (
        ("", ["--producer-props", "linger.ms=5", "-X", "batch.size=16384"]),
        ("linger.ms=50\nbatch.size=9\nacks=1", ["--producer-props", "linger.ms=50"]),
    ):
        file.write_text(text)
        (command,) = TRANSLATIONS["kafka-producer-perf-test"]([*words, str(file)])
        assert command.arguments[9:-2] == expected


def test_version_is_that_of_the_kafka_that_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read it to learn which options the tools have."""
    with pytest.raises(SystemExit) as ended:
        TRANSLATIONS["kafka-topics"](["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.split()[0] == KAFKA_VERSION


def test_removal_of_acls_asks_without_force() -> None:
    (command,) = TRANSLATIONS["kafka-acls"](["--remove", "--topic", "t"])
    assert command.question
    (command,) = TRANSLATIONS["kafka-acls"](["--remove", "--topic", "t", "--force"])
    assert not command.question


def test_topic_option_is_kafkas_include_list() -> None:
    """A comma means or; blanks and outer quotes are dropped."""
    assert include_list("orders") == "orders"
    assert include_list("'a, b.*'") == "a|b.*"


def test_commas_in_brackets_belong_to_the_value() -> None:
    assert settings("a=1, b=[2,3],c=") == ["a=1", "b=[2,3]", "c="]
    assert settings("") == []
