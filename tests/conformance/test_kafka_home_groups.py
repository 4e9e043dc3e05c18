"""Scripts of `pybroker kafka-home` that are new with Apache Kafka 4.4, beside Kafka's own tools.

Share groups are reset, a topology is described, a controller is unregistered, and records with keys are produced: each
command line runs on a broker of its own, and the exit codes, the state and some outputs are compared.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.messages.streams_group_topology_description_update import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from pybroker.kafka_home.tools import run
from tests.support.brokers import HOST
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.streams_groups import request, subtopology, topology
from tests.support.tools import normalised, start_tool
from tests.support.wire import WireClient

pytestmark = needs_4_4

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.streams.topology.description.plugin.class": "com.example.Plugin",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
    # members send no more heartbeats
    **dict.fromkeys(
        (f"group.{kind}{limit}.session.timeout.ms" for kind in ("share", "streams") for limit in ("", ".max")), "600000"
    ),
}
RESET = "--reset-offsets --group till"
LINES = [
    ("kafka-share-groups", line)
    for line in (
        f"{RESET} --topic read --to-offset 2 --execute",
        f"{RESET} --topic read --to-offset 1 --dry-run",
        f"{RESET} --topic read:0,2 --to-offset 99 --execute",
        f"{RESET} --topic read --to-earliest --topic other:1 --execute",
        f"{RESET} --all-topics --to-current --execute",
        f"{RESET} --topic other --to-current --execute",
        f"{RESET} --all-topics --to-latest --execute",
        f"{RESET} --all-topics --to-datetime 2023-11-14T22:13:22.000 --execute",
        f"{RESET} --from-file FILE --execute",
        f"{RESET} --from-file FILE --dry-run",
        f"{RESET} --from-file /nowhere.csv --execute",
        f"{RESET} --topic read --to-offset 2",
        f"{RESET} --topic read --execute",
        f"{RESET} --to-offset 2 --execute",
        f"{RESET} --topic read --to-offset 2 --to-current --execute",
        f"{RESET} --topic read --all-topics --to-current --execute",
        f"{RESET} --topic read --to-offset 2 --execute --dry-run",
        f"{RESET} --topic nothing --to-offset 2 --execute",
        f"{RESET} --topic read:9 --to-offset 2 --execute",
        "--reset-offsets --topic read --to-offset 2 --execute",
        "--reset-offsets --group busy --topic read --to-offset 2 --execute",
        "--reset-offsets --group busy --topic read --to-offset 2 --dry-run",
    )
] + [
    ("kafka-cluster", "cluster-id"),
    ("kafka-cluster", "api-versions"),
    ("kafka-cluster", "unregister-controller --id 77"),
    ("kafka-cluster", "unregister-controller --id 1"),
    ("kafka-streams-groups", "--describe --group counter --topology"),
    ("kafka-streams-groups", "--describe --group plain --topology"),
    ("kafka-streams-groups", "--describe --group nobodys --topology"),
    ("kafka-streams-groups", "--describe --topology"),
]


class Side:
    """A broker, and the words of its address."""

    def __init__(self, home: Path) -> None:
        self.broker = BROKERS_OF_4_4["ours"](home, PROPERTIES)
        self.client = WireClient(HOST, self.broker.port)

    def prepare(self, *, groups: bool = True) -> None:
        """Create topics with records, share groups with and without a member, and streams groups."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic("read", 3), NewTopic("other", 2), NewTopic("keys", 1)]).values():
            future.result(60)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number in range(4):
            for topic, partition in (("read", 0), ("read", 1), ("read", 2), ("other", 0), ("other", 1)):
                moment = 1_700_000_000_000 + number * 1_000
                producer.produce(topic, str(number), partition=partition, timestamp=moment)
        assert producer.flush(60) == 0
        if not groups:
            return
        for group in ("till", "busy"):
            self.share(group, 0)
        self.share("till", -1)
        for group in ("counter", "plain"):
            self.stream(group)

    def share(self, group: str, epoch: int) -> None:
        member = {"group_id": group, "member_id": "m", "subscribed_topic_names": ["read"]}
        eventually(lambda: not self.client.call(SHARE_GROUP_HEARTBEAT, 1, **member, member_epoch=epoch).error_code)

    def stream(self, group: str) -> None:
        sent = request("m", 0, told=topology(subtopology("0", ["read"])), group_id=group)
        eventually(lambda: not self.client.call(STREAMS_GROUP_HEARTBEAT, 1, **sent).error_code)

    def describe_topology(self) -> None:
        """Send the description of the topology of a group, as its member does."""

        def node(name: str, node_type: int, *successors: str, **fields: object) -> TopologyDescriptionNode:
            empty = {"source_topics": [], "sink_topic": None, "stores": []}
            return TopologyDescriptionNode(
                name=name, node_type=node_type, successors=list(successors), **{**empty, **fields}
            )

        source = node("in", 1, "count", "b", source_topics=["read", "other"])
        nodes = [source, node("count", 2, "out", stores=["z", "a"]), node("b", 2), node("out", 3, sink_topic="sums")]
        other = [node("in2", 1, "out2", source_topics=["sums"]), node("out2", 3)]
        store = TopologyDescriptionGlobalStore(
            source=node("g", 1, "gp", source_topics=["all"]), processor=node("gp", 2)
        )
        answer = self.client.call(
            STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            0,
            group_id="counter",
            member_id="m",
            topology_epoch=0,
            topology_description=TopologyDescription(
                subtopologies=[
                    TopologyDescriptionSubtopology(subtopology_id=name, nodes=each)
                    for name, each in (("0", nodes), ("1", other))
                ],
                global_stores=[store],
            ),
        )
        assert not answer.error_code


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Return a broker for Kafka's tools, and one for ours."""
    made: dict[str, Side] = {}
    try:
        for kind in ("kafka", "ours"):
            made[kind] = Side(tmp_path_factory.mktemp(kind))
            made[kind].prepare()
            made[kind].describe_topology()
        yield made
    finally:
        for side in made.values():
            side.client.close()
            side.broker.stop()


def offsets(side: Side, java: JavaRunner) -> list[str]:
    """Return the start offsets of the group, as Kafka's tool shows them."""
    done = start_tool(java, side.broker.bootstrap, "kafka-share-groups", "--describe", "--group", "till").wait()
    return sorted(normalised(done.stdout, side.broker.bootstrap).splitlines())


@pytest.mark.parametrize(("tool", "line"), LINES, ids=[f"{n}-{t} {line}"[:80] for n, (t, line) in enumerate(LINES)])
def test_script_does_what_kafkas_tool_does(
    sides: dict[str, Side], java: JavaRunner, tmp_path: Path, tool: str, line: str
) -> None:
    """Lines depend on earlier ones."""
    (tmp_path / "FILE").write_text("read,0,1\nread,2,99\n")
    words = [str(tmp_path / word) if word == "FILE" else word for word in shlex.split(line)]
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, tool, *words).wait()

    exit_code = run(tool, [*words, "--bootstrap-server", sides["ours"].broker.bootstrap])

    assert exit_code == theirs.exit_code, theirs.stdout + theirs.stderr
    if tool == "kafka-share-groups":
        assert offsets(sides["ours"], java) == offsets(sides["kafka"], java)


def test_topology_has_the_lines_of_kafkas_tool(
    sides: dict[str, Side], java: JavaRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--describe", "--group", "counter", "--topology"]
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-streams-groups", *words).wait()
    assert run("kafka-streams-groups", [*words, "--bootstrap-server", sides["ours"].broker.bootstrap]) == 0
    assert capsys.readouterr().out == theirs.stdout
    assert "Sub-topology: 2 for global store (will not generate tasks)" in theirs.stdout


def test_exported_share_offsets_are_those_of_kafkas_tool(
    sides: dict[str, Side], java: JavaRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """--from-file reads them."""
    words = f"{RESET} --topic read:0,1 --topic other --to-offset 3 --dry-run --export".split()
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-share-groups", *words).wait()
    assert run("kafka-share-groups", [*words, "--bootstrap-server", sides["ours"].broker.bootstrap]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(theirs.stdout.split())


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("", 0),
        ("--warmup-records 100", 0),
        ("--warmup-records 300", 1),
        ("--warmup-records few", 1),
        ("--reporting-interval 10", 0),
        ("--reporting-interval 0", 1),
        ("--payload-monotonic", 1),
        ("--key-distribution range --record-key-range 3", 0),
        ("--key-distribution random --record-key-range 2 --random-seed 5", 0),
        ("--key-distribution random", 1),
        ("--record-key-range 3", 1),
        ("--key-distribution range --record-key-range 0", 1),
        ("--key-distribution other --record-key-range 3", 1),
        ("--random-seed few", 1),
    ],
)
def test_keys_are_those_of_kafkas_tool(sides: dict[str, Side], java: JavaRunner, line: str, exit_code: int) -> None:
    """Random keys are in the same range: their order is Java's own."""
    words = f"--topic keys --num-records 300 --record-size 10 --throughput -1 {line}".split()
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-producer-perf-test", *words).wait()
    ours = run("kafka-producer-perf-test", [*words, "--bootstrap-server", sides["ours"].broker.bootstrap])
    assert (ours, theirs.exit_code) == (exit_code, exit_code), theirs.stdout + theirs.stderr
    if exit_code:
        return
    found = {kind: last_keys(side.broker.bootstrap, 300) for kind, side in sides.items()}
    if "random" in line:
        assert set(found["ours"]) == set(found["kafka"])
    else:
        assert found["ours"] == found["kafka"]


def last_records(bootstrap: str, count: int) -> list[Message]:
    """Return the last records of the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "keys", "enable.auto.commit": False})
    end = consumer.get_watermark_offsets(TopicPartition("keys", 0), timeout=60)[1]
    consumer.assign([TopicPartition("keys", 0, end - count)])
    found = consumer.consume(count, timeout=60)
    consumer.close()
    assert [message.offset() for message in found] == list(range(end - count, end))
    return found


def last_keys(bootstrap: str, count: int) -> Counter[bytes | None]:
    """Return how often each key is in the last records of the topic."""
    return Counter(message.key() for message in last_records(bootstrap, count))


def test_monotonic_values_are_those_of_kafkas_tool(sides: dict[str, Side], java: JavaRunner) -> None:
    words = ["--topic", "keys", "--num-records", "20", "--throughput", "-1", "--payload-monotonic"]
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-producer-perf-test", *words).wait()
    ours = run("kafka-producer-perf-test", [*words, "--bootstrap-server", sides["ours"].broker.bootstrap])
    assert (ours, theirs.exit_code) == (0, 0), theirs.stdout + theirs.stderr
    found = {kind: [each.value() for each in last_records(side.broker.bootstrap, 20)] for kind, side in sides.items()}
    assert found["ours"] == found["kafka"]


def test_warmup_is_reported_as_by_kafkas_tool(
    sides: dict[str, Side], java: JavaRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines are the same but for their figures."""
    line = "--topic keys --num-records 300 --record-size 9 --throughput -1 --warmup-records 120"
    words = line.split()
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, "kafka-producer-perf-test", *words).wait()
    assert run("kafka-producer-perf-test", [*words, "--bootstrap-server", sides["ours"].broker.bootstrap]) == 0
    figures = re.compile(r"[0-9.]+(?= (?:records/sec|MB/sec|ms))")
    assert figures.sub("N", capsys.readouterr().out) == figures.sub("N", theirs.stdout)
