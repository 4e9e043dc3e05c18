"""Our commands for a cluster, step by step against our broker and against Apache Kafka: they print the same.

Ids, addresses, times and rates may differ. Both have an authorizer, a listener for trusted clients, and one for users.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.ports import free_port
from tests.support.settled import wait_for_changes
from tests.support.shell import Done, Shell
from tools.wire.conformance import command as conformance

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "OPEN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f'{_MODULE} required user_ann="secret";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
#: `@` before a step: as a user without rights.
STEPS = [
    "topics create orders --partitions 3 --config retention.ms=86400000",
    "topics create lines --partitions 1 --json",
    "topics create orders",
    "topics create orders --if-not-exists",
    "topics create two/words",
    "topics create more --config retention.ms=soon",
    "topics create more --config no.such.key=1",
    "topics create more --replication-factor 3",
    "topics describe orders --json",
    "topics describe orders",
    "topics describe nobodys",
    "topics alter orders --partitions 2",
    "topics alter orders --partitions 4",
    "topics list --exclude-internal --json",
    "@topics describe orders",
    "@topics create another",
    "@topics delete orders",
    "produce --topic lines LINES",
    "produce --topic lines /nowhere",
    "consume lines --from-beginning --until-end --format '%t %p %o %k %v'",
    "consume lines --from-beginning --until-end --json --encoding base64",
    "consume lines --offset -2 --until-end --format %o=%S",
    "consume lines --from-beginning --until-end --filter value=^th --format '%o %v'",
    "consume lines --from @99999999999999 --until-end",
    "consume lines --partition 7 --from-beginning",
    "consume nobodys --from-beginning",
    "consume lines --format %x",
    "@consume lines --from-beginning --until-end",
    "consume lines --group shop --from-beginning --max-messages 2",
    "groups list --json",
    "groups describe shop --json",
    "groups describe shop --members",
    "groups describe nobodys",
    "groups reset-offsets shop --to earliest",
    "groups reset-offsets shop --to +1 --execute --json",
    "groups reset-offsets shop --to soon",
    "@groups describe shop",
    "groups delete shop",
    "groups delete shop",
    "configs describe --topic orders",
    "configs alter --topic orders --add-config retention.ms=7000 --add-config cleanup.policy=compact,delete",
    "configs alter --topic orders --add-config retention.ms=soon",
    "configs alter --topic nobodys --add-config retention.ms=1",
    "configs describe --topic orders --json",
    "@configs alter --topic orders --add-config retention.ms=1",
    "cluster describe --json",
    "cluster describe --include-fenced-brokers --json",
    "acls add --allow-principal User:bob --operation Read --topic orders --json",
    "acls list --json",
    "acls remove --allow-principal User:bob --json",
    "@acls list",
    "users create bob --password-file PASSWORD --json",
    "users list --json",
    "@users list",
    "@users delete bob",
    "users delete bob",
    "users delete bob",
    "quotas set --user bob producer_byte_rate=1000 request_percentage=25",
    "quotas set --user bob rate=1",
    "quotas list --user bob --json",
    "quotas delete --user bob",
    "client-metrics alter tills --metrics org.apache.kafka.producer.,org.apache.kafka.consumer. --interval 7000",
    "client-metrics alter tills --match client_id=till-.* --match client_software_name=apache-kafka-java --json",
    "client-metrics alter tills --interval 10",
    "client-metrics alter tills --metrics a. --match colour=red",
    "client-metrics list",
    "client-metrics describe",
    "client-metrics --alter --name tills --interval ''",
    "client-metrics --describe --name tills --json",
    "client-metrics describe nobodys",
    "@client-metrics list",
    "@client-metrics describe tills",
    "@client-metrics alter tills --interval 1000",
    "@client-metrics delete tills",
    "client-metrics delete tills",
    "client-metrics delete tills",
    "client-metrics list",
    "transactions describe nobodys",
    "transactions find-hanging --topic lines --json",
    "transactions abort --topic lines --partition 0 --start-offset 0",
    "perf produce --topic orders --num-records 200 --record-size 10",
    "perf produce --topic lines --num-records 200 --record-size 10",
    "perf produce --topic lines --num-records 200 --throughput 100000 --json",
    "perf produce --topic nobodys --num-records 1",
    "perf consume --topic lines --messages 400 --json",
    "perf consume --topic lines --num-records 9999 --idle 0.2 --show-detailed-stats --reporting-interval 99999",
    "perf end-to-end --topic lines --num-records 3",
    "top --once --interval 0.1 --json",
    "top --once --interval 0.1 --no-groups",
    "top --sort size",
    "mirror --source 127.0.0.1:1 --timeout 2",
    "mirror --source SELF",
    "mirror",
    "topics delete orders lines",
    "topics delete orders",
]
#: each broker has its own words
OWN_WORDS = re.compile(r"^(pybroker \w+: [^:]+): .*", re.DOTALL)
FIGURES = [
    (r"(?<![\w-])[\w-]{22}(?![\w-])(==)?", "<id>"),
    (r'"(port|broker|controller|coordinator|time|timestamp|joining_ms)": -?\d+', r'"\1": <n>'),
    (r'"(seconds|\w+_per_s|\w+_ms)": [\d.]+', r'"\1": <n>'),
    (r"\d+(\.\d+)? (records/sec|MB/sec|ms|records/s)", r"<n> \2"),
    (r"Avg latency: .*|Percentiles: .*|\d\d:\d\d:\d\d", "<n>"),
    (r"perf-consumer-\w+", "<group>"),
    (r"\d+ of 9999", "<n> of 9999"),
]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[RunningBroker, str]]]:
    """Return kind -> broker, and the address for users."""
    started: dict[str, tuple[RunningBroker, str]] = {}
    for kind in ("ours", "kafka"):
        port, users, quorum = free_port(), free_port(), free_port()
        clients = f"OPEN://{HOST}:{port},CLIENTS://{HOST}:{users}"
        properties = {**PROPERTIES, "advertised.listeners": clients, "listeners": clients}
        if kind == "kafka":
            properties["listeners"] += f",CONTROLLER://{HOST}:{quorum}"
            properties["controller.quorum.voters"] = f"1@{HOST}:{quorum}"
        started[kind] = BROKERS[kind](tmp_path_factory.mktemp(kind), properties, port=port), f"{HOST}:{users}"
    yield started
    for broker, _ in started.values():
        broker.kill()


def plain(broker: RunningBroker, users: str, done: Done) -> Done:
    """Return the part that is the same for both."""

    def text(given: str) -> str:
        given = given.replace(broker.bootstrap, "<bootstrap>").replace(users, "<bootstrap>")
        for pattern, replacement in FIGURES:
            given = re.sub(pattern, replacement, given)
        return given

    return Done(done.code, text(done.out), text(done.err))


def test_commands_print_the_same(
    brokers: dict[str, tuple[RunningBroker, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Standard output, the error in one line, exit code; each broker words rejections itself."""
    (tmp_path / "lines").write_text("one\ntwo\nthree\nthirty\n")
    (tmp_path / "password").write_text("letmein\n")
    words = ("security.protocol=sasl_plaintext", "sasl.mechanism=PLAIN", "sasl.username=ann", "sasl.password=secret")
    as_user = [option for word in words for option in ("-X", word)]
    differ = []
    for step in STEPS:
        found: list[Done] = []
        for broker, users in brokers.values():
            names = {"LINES": str(tmp_path / "lines"), "PASSWORD": str(tmp_path / "password"), "SELF": broker.bootstrap}
            command, *arguments = (names.get(word, word) for word in shlex.split(step.removeprefix("@")))
            sh = Shell(broker.bootstrap, capsys)
            done = sh(command, *arguments, *as_user, server=users) if step[0] == "@" else sh(command, *arguments)
            found.append(plain(broker, users, done))
            wait_for_changes(broker)
        ours, kafka = (
            Done(each.code, each.out, OWN_WORDS.sub(r"\1", each.err) if each.code == 1 else each.err) for each in found
        )
        assert all("Traceback" not in each.err for each in found), step
        assert step[0] != "@" or [each.code for each in found] == [1, 1], step
        assert all((each.code == 0) == (each.err == "") or command in ("produce", "perf") for each in found), found
        if ours != kafka:
            differ.append((step, *found))
    assert differ == []


def test_conformance_finds_nothing_wrong(
    brokers: dict[str, tuple[RunningBroker, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """It finds nothing wrong with either broker, and leaves nothing behind."""
    for broker, _ in brokers.values():
        code = conformance.main(["--bootstrap-server", broker.bootstrap])
        out = capsys.readouterr().out
        assert (code, [line for line in out.splitlines() if "WRONG" in line]) == (0, [])
        wait_for_changes(broker)
        topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
        assert not [name for name in topics if name.startswith("pybroker-conformance")]


Row = tuple[int, int, int, bytes | None, bytes | None, object]


def written(bootstrap: str, topic: str, partitions: int) -> list[Row]:
    """Return all committed records: partition, offset, timestamp, key, value, headers."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, -2) for number in range(partitions)])
    found, ended, deadline = [], 0, time.monotonic() + 60
    while ended < partitions:
        assert time.monotonic() < deadline
        for each in consumer.consume(1000, 0.1):
            if each.error() is not None:
                ended += 1
                continue
            place = (each.partition() or 0, each.offset() or 0, each.timestamp()[1])
            found.append((*place, each.key(), each.value(), each.headers()))
    consumer.close()
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize(("source", "target"), [("kafka", "ours"), ("ours", "kafka")])
def test_mirror_has_the_same_offsets(
    brokers: dict[str, tuple[RunningBroker, str]], capsys: pytest.CaptureFixture[str], source: str, target: str
) -> None:
    """Records, also those of transactions and after gaps; groups; and records written between two runs."""
    from_, to = brokers[source][0], brokers[target][0]
    sh, there = Shell(from_.bootstrap, capsys), Shell(to.bootstrap, capsys)
    for name, partitions in (("plain", 2), ("mixed", 1)):
        sh.good("topics", "create", f"{source}-{name}", "--partitions", str(partitions))
    plain_, mixed = f"{source}-plain", f"{source}-mixed"
    producer = Producer({"bootstrap.servers": from_.bootstrap})
    for number in range(300):
        moment = 1_700_000_000_000 + number
        producer.produce(plain_, f"v{number}", f"{number}", headers={"n": str(number)}, timestamp=moment)
        producer.produce(mixed, f"v{number}")
    assert producer.flush(60) == 0
    admin = AdminClient({"bootstrap.servers": from_.bootstrap})
    for future in admin.delete_records([TopicPartition(mixed, 0, 250)]).values():
        future.result(60)
    writer = Producer({"bootstrap.servers": from_.bootstrap, "transactional.id": source})
    writer.init_transactions(60)
    for finish in (writer.commit_transaction, writer.abort_transaction, writer.commit_transaction):
        writer.begin_transaction()
        writer.produce(mixed, "in a transaction")
        assert writer.flush(60) == 0  # or an abort would discard it
        finish(60)
    sh.good("consume", plain_, "--group", f"{source}-shop", "--from-beginning", "--max-messages", "100")

    chosen = ("--topics", f"{source}-.*", "--groups", f"{source}-.*")
    mirror = ("mirror", "--source", from_.bootstrap, *chosen, "--until-end", "--json")
    *_, first = there.good(*mirror).rows
    assert (first["records"], first["topics"]) == (352, 2)
    producer.produce(plain_, "later")
    assert producer.flush(60) == 0
    *_, second = there.good(*mirror).rows
    assert second["records"] == 1
    for topic, partitions in ((plain_, 2), (mixed, 1)):
        assert written(to.bootstrap, topic, partitions) == written(from_.bootstrap, topic, partitions)
    groups = [each.good("groups", "describe", f"{source}-shop", "--json").rows[0]["partitions"] for each in (sh, there)]
    assert groups[0] == groups[1]
