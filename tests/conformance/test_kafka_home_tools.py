"""Compare the scripts of `pybroker kafka-home` with Apache Kafka's tools: the same command lines, one broker for each.

The tests compare exit codes and the state of the brokers afterwards, as Kafka's tools show it, but not the output.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.kafka_home.tools import run
from tests.support.brokers import OurBroker
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.tools import normalised, start_tool

pytestmark = pytest.mark.skipif(KAFKA_LINE < (4, 4), reason="options and exit codes are those of the newest release")

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "2",
    "log.retention.ms": "-1",  # the records are of 2023
}
ADD = "--add --allow-principal User:a"
REMOVE = "--remove --force"
ACLS = [
    f"{ADD} --topic tab",
    f"{ADD} --topic tab --operation Read --operation write",
    f"{ADD} --topic tab --operation Read --allow-host 10.0.0.1 --allow-host 10.0.0.2",
    f"{ADD} --topic ta --operation Read --resource-pattern-type prefixed",
    f"{ADD} --topic * --operation Describe",
    f"{ADD} --allow-principal User:b --deny-principal User:c --deny-host 10.0.0.3 --group g --group h --topic x",
    f"{ADD} --producer --topic events --transactional-id tx --idempotent",
    f"{ADD} --consumer --topic events --group readers",
    f"{ADD} --operation DescribeTokens --operation CreateTokens --user-principal User:bob",
    f"{ADD} --operation Describe --delegation-token id",
    f"{ADD} --operation ClusterAction --cluster",
    f"{ADD} --operation TwoPhaseCommit --transactional-id tx",
    "--list",
    "--list --topic tab",
    "--list --topic tab --resource-pattern-type match",
    "--list --principal User:a --principal User:b",
    "--list --allow-principal User:a",
    "--add --topic tab --operation Read",
    f"{ADD} --operation Read",
    f"{ADD} --operation Bogus --topic tab",
    f"{ADD} --operation Create --group g",
    f"{ADD} --topic tab --resource-pattern-type match",
    f"{ADD} --topic tab --no-such-option",
    f"{ADD} --consumer --topic tab",
    f"{ADD} --idempotent --topic tab",
    "--add --allow-principal ann --topic tab",
    "--topic tab",
    "--remove --topic tab",
    f"{REMOVE} --allow-principal User:a",
    f"{REMOVE} --topic ta",
    f"{REMOVE} --topic tab --allow-principal User:a",
    f"{REMOVE} --topic tab --allow-principal User:a --operation Read",
    f"{REMOVE} --topic tab --allow-principal User:a --operation Read --allow-host 10.0.0.1",
    f"{REMOVE} --topic tab --operation Describe",
    f"{ADD} --topic tab --operation Read",
    f"{REMOVE} --group g --deny-principal User:c --deny-host 10.0.0.3",
    f"{REMOVE} --allow-principal User:a --consumer --topic events --group readers",
    f"{REMOVE} --user-principal User:bob --delegation-token id",
    f"{REMOVE} --cluster",
    f"{REMOVE} --topic tab --resource-pattern-type match",
    f"{REMOVE} --topic nothing",
    f"{REMOVE} --topic events --resource-pattern-type any",
]
TOPICS = [
    "--create --topic a.one --partitions 2",
    "--create --topic a-two",
    "--create --topic a-three --config retention.ms=5000 --replication-factor 1",
    "--create --topic a.one",
    "--create --topic a.one --if-not-exists",
    "--create --topic two/words",
    "--create --topic many --replication-factor 3",
    "--create --topic assigned --replica-assignment 1,1,1",
    "--create --topic assigned2 --replica-assignment 1 --partitions 2",
    "--create",
    "--list",
    "--list --topic a-.*",
    "--list --topic nothing",
    "--list --exclude-internal",
    "--describe",
    "--describe --topic a-.*",
    "--describe --topic nothing",
    "--describe --topic nothing --if-exists",
    "--describe --at-min-isr-partitions",
    "--describe --under-min-isr-partitions",
    "--describe --topics-with-overrides",
    "--alter --topic a-t.* --partitions 4",
    "--alter --topic a-two --partitions 3",
    "--alter --topic nothing --partitions 3",
    "--alter --topic nothing --partitions 3 --if-exists",
    "--alter --partitions 3",
    "--list --create --topic t",
    "--list --no-such-option",
    "--delete",
    "--delete --topic nothing",
    "--delete --topic nothing --if-exists",
    "--create --topic a-one --partitions 1",
    "--delete --topic a.t.*",
    "--create --topic b1",
    "--create --topic b2",
    "--delete --topic b1,b2",
]
RESET = "--reset-offsets --group shop"
GROUPS = [
    "--list",
    "--describe --group shop",
    "--describe --group nobodys",
    "--describe --all-groups",
    "--describe",
    "--describe --group shop --members --verbose",
    "--describe --group shop --state",
    "--list --state Empty",
    "--list --state Purple",
    f"{RESET} --topic read --to-earliest",
    f"{RESET} --topic read --to-earliest --dry-run",
    f"{RESET} --topic read:0,2 --to-offset 2 --execute",
    f"{RESET} --topic read:0 --topic other:1 --to-latest --execute",
    f"{RESET} --topic read --shift-by -1 --execute",
    f"{RESET} --topic other --shift-by -1 --execute",
    f"{RESET} --all-topics --to-offset 99 --execute",
    f"{RESET} --topic other --to-current --execute",
    f"{RESET} --topic read --to-datetime 2023-11-14T22:13:21.000 --execute",
    f"{RESET} --topic read --by-duration P9000D --execute",
    f"{RESET} --to-earliest --execute",
    f"{RESET} --topic read --execute",
    f"{RESET} --topic nothing --to-earliest --execute",
    f"{RESET} --topic read:9 --to-earliest --execute",
    "--reset-offsets --topic read --to-earliest --execute",
    f"{RESET} --from-file ONE --execute",
    "--reset-offsets --group shop --group tills --from-file SEVERAL --execute",
    f"{RESET} --from-file /nowhere.csv --execute",
    "--reset-offsets --all-groups --topic read:1 --to-offset 1 --execute",
    "--delete-offsets --group shop --topic read:0",
    "--delete-offsets --group shop --topic other",
    "--delete-offsets --group shop --topic nothing",
    "--delete-offsets --group shop",
    "--delete --group nobodys",
    "--delete",
    "--delete --group shop",
    "--delete --all-groups",
    "--list --no-such-option",
]
CONFIGS = [
    "--alter --topic read --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
    "--alter --topic read --delete-config cleanup.policy",
    "--alter --topic read --delete-config retention.ms,flush.messages",
    "--alter --entity-type topics --entity-name read --add-config retention.ms=soon",
    "--alter --entity-type topics --entity-name nothing --add-config retention.ms=1",
    "--alter --entity-type topics --add-config retention.ms=1",
    "--alter --topic read --add-config-file FILE",
    "--alter --broker 1 --add-config background.threads=5",
    "--alter --broker-defaults --add-config log.retention.ms=9000",
    "--alter --broker 1 --add-config num.partitions=3",
    "--alter --group shop --add-config consumer.session.timeout.ms=50000",
    "--alter --client-metrics till --add-config interval.ms=5000",
    "--alter --user ann --add-config producer_byte_rate=1000,consumer_byte_rate=2000",
    "--alter --entity-type users --add-config producer_byte_rate=1",
    "--alter --user-defaults --add-config request_percentage=50",
    "--alter --user ann --client c --add-config request_percentage=25",
    "--alter --client-defaults --add-config producer_byte_rate=77",
    "--alter --ip 127.0.0.9 --add-config connection_creation_rate=5",
    "--alter --user ann --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
    "--alter --user ann --delete-config consumer_byte_rate",
    "--alter --user ann --delete-config consumer_byte_rate",
    "--alter --broker 1 --delete-config log.retention.ms",
    "--alter --broker-defaults --delete-config log.retention.ms",
    "--alter --group shop --delete-config consumer.session.timeout.ms",
    "--alter --client-metrics till --delete-config match",
    "--alter --client-metrics till --delete-config interval.ms",
    "--alter --broker-logger 1 --add-config root=DEBUG",
    "--alter --user ann --delete-config SCRAM-SHA-256",
    "--alter --user-defaults --add-config SCRAM-SHA-256=[password=secret]",
    "--alter --client-defaults --delete-config producer_byte_rate",
    "--describe --topic read",
    "--describe --entity-type topics",
    "--describe --entity-type brokers",
    "--describe --broker 1 --all",
    "--describe --broker-logger 1",
    "--describe --entity-type groups",
    "--describe --entity-type client-metrics",
    "--describe --user ann",
    "--describe",
    "--topic read",
    "--describe --topic read --alter",
    "--describe --entity-type purple",
]
LINES = {"kafka-acls": ACLS, "kafka-topics": TOPICS, "kafka-consumer-groups": GROUPS, "kafka-configs": CONFIGS}
#: The command lines of Kafka's tools that show the state after a line.
SHOWN = {
    "kafka-acls": ["kafka-acls --list"],
    "kafka-topics": ["kafka-topics --describe"],
    "kafka-consumer-groups": ["kafka-consumer-groups --describe --all-groups"],
    "kafka-configs": [
        *("kafka-configs --describe --entity-type topics", "kafka-configs --describe --entity-type brokers"),
        *("kafka-configs --describe --entity-type groups", "kafka-configs --describe --entity-type client-metrics"),
        *("kafka-configs --describe --entity-type users", "kafka-configs --describe --entity-type clients"),
        *("kafka-configs --describe --entity-type users --entity-type clients",),
        *("kafka-configs --describe --entity-type ips",),
    ],
}
STEPS = [(tool, line) for tool, lines in LINES.items() for line in lines]


@dataclass
class Side:
    """A broker of ours, and the way to run a line of a tool against it: it returns the exit code."""

    broker: OurBroker
    run: Callable[[str, Sequence[str]], int | None]
    java: JavaRunner

    def prepare(self) -> None:
        """Create topics with records, and groups with offsets in one of them."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic("read", 3), NewTopic("other", 2)]).values():
            future.result(60)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number in range(4):
            for topic, partitions in (("read", 3), ("other", 2)):
                for partition in range(partitions):
                    moment = 1_700_000_000_000 + number * 1_000
                    producer.produce(topic, str(number), partition=partition, timestamp=moment)
        assert producer.flush(60) == 0
        for group in ("shop", "tills"):
            consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": group})
            consumer.commit(offsets=[TopicPartition("read", each, 3) for each in range(3)], asynchronous=False)
            consumer.close()

    def state(self, tool: str) -> list[list[str]]:
        """Return what Kafka's tools show, each sorted: their sets have no order."""
        shown = []
        for line in SHOWN[tool]:
            reader, *words = line.split()
            done = start_tool(self.java, self.broker.bootstrap, reader, *words).wait()
            shown.append(sorted(normalised(done.stdout, self.broker.bootstrap).splitlines()))
        return shown


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, java: JavaRunner) -> Iterator[dict[str, Side]]:
    """Return a broker for Kafka's tools, and one for ours."""

    def of_kafka(tool: str, words: Sequence[str]) -> int | None:
        return start_tool(java, sides["kafka"].broker.bootstrap, tool, *words).wait().exit_code

    def ours(tool: str, words: Sequence[str]) -> int | None:
        return run(tool, [*words, "--bootstrap-server", sides["ours"].broker.bootstrap])

    runs = {"kafka": of_kafka, "ours": ours}
    sides = {kind: Side(OurBroker(tmp_path_factory.mktemp(kind), PROPERTIES), runs[kind], java) for kind in runs}
    try:
        for side in sides.values():
            side.prepare()
        yield sides
    finally:
        for side in sides.values():
            side.broker.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the paths of the files that lines name."""
    texts = {
        "ONE": "read,0,1\nread,2,99\n",
        "SEVERAL": "shop,read,1,2\ntills,read,1,3\n",
        "FILE": "segment.bytes=2000000\nflush.ms=7\n",
    }
    directory = tmp_path_factory.mktemp("files")
    for name, text in texts.items():
        (directory / name).write_text(text)
    return {name: str(directory / name) for name in texts}


@pytest.fixture
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close standard input, as it is for Kafka's tools here."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))


@pytest.mark.parametrize(
    ("tool", "line"), STEPS, ids=[f"{number}-{tool} {line}"[:80] for number, (tool, line) in enumerate(STEPS)]
)
@pytest.mark.usefixtures("nobody_answers")
def test_script_does_what_kafkas_tool_does(sides: dict[str, Side], files: dict[str, str], tool: str, line: str) -> None:
    """Lines depend on earlier ones."""
    words = [files.get(word, word) for word in shlex.split(line)]

    codes = {kind: side.run(tool, words) for kind, side in sides.items()}

    assert codes["ours"] == codes["kafka"]
    if not {"--list", "--describe"}.intersection(words):
        states = {kind: side.state(tool) for kind, side in sides.items()}
        assert states["ours"] == states["kafka"]


def test_export_has_the_lines_of_kafkas_tool(
    sides: dict[str, Side], java: JavaRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """--from-file reads them. Several groups have a column more."""
    for side in sides.values():
        admin, producer = (make({"bootstrap.servers": side.broker.bootstrap}) for make in (AdminClient, Producer))
        for future in admin.create_topics([NewTopic("exported", 3)]).values():
            future.result(60)
        for partition in (*range(3), *range(3)):
            producer.produce("exported", "value", partition=partition)
        assert producer.flush(60) == 0
    for groups in ("--group exported", "--group exported --group another"):
        words = f"--reset-offsets {groups} --topic exported --to-offset 1 --export".split()
        theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-consumer-groups", *words).wait()
        capsys.readouterr()
        assert sides["ours"].run("kafka-consumer-groups", words) == theirs.exit_code
        printed = capsys.readouterr().out

        assert sorted(printed.splitlines()) == sorted(theirs.stdout.split())
        assert "exported,2,1" in printed
