"""Apache Kafka's tools print the same, whichever broker of a cluster of both kinds they ask.

A tool asks any broker of the cluster for what each of them knows, and not only the one that it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, THIRD, MixedCluster
from tests.integration.membership.kafka_nodes import QUIET
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.support.tools import start_tool

# <full>: in sync at all brokers; <lacking>: its third broker is stopped; <few>: fewer replicas than min.insync.replicas
TOPICS = "kafka-topics --describe"
STEPS = [
    f"{TOPICS} --topic <full>",
    f"{TOPICS} --topic <lacking>",
    f"{TOPICS} --under-replicated-partitions",
    f"{TOPICS} --under-min-isr-partitions",
    f"{TOPICS} --at-min-isr-partitions",
    f"{TOPICS} --unavailable-partitions",
    f"{TOPICS} --topics-with-overrides",
    "kafka-topics --list",
    "kafka-consumer-groups --list",
    "kafka-get-offsets --topic <full>",
    "kafka-get-offsets --topic <full> --time earliest",
    "kafka-get-offsets --topic <full> --time max-timestamp",
    "kafka-log-dirs --describe --topic-list <full>",
    "kafka-configs --describe --topic <few>",
    "kafka-configs --describe --topic <few> --all",
    "kafka-configs --describe --broker 1",
    "kafka-configs --describe --broker 1 --all",
    "kafka-configs --describe --broker 2 --all",
    "kafka-configs --describe --broker-defaults",
    "kafka-configs --describe --entity-type users",
    "kafka-configs --describe --entity-type groups",
    "kafka-reassign-partitions --list",
    "kafka-reassign-partitions --verify --preserve-throttles --reassignment-json-file <plan>",
    "kafka-leader-election --election-type preferred --topic <full> --partition 0",
    "kafka-metadata-quorum describe --status",
    "kafka-metadata-quorum describe --replication",
    "kafka-features describe",
    "kafka-cluster cluster-id",
    "kafka-cluster list-endpoints",
    "kafka-cluster list-endpoints --include-fenced-brokers",
    "kafka-acls --list",
    "kafka-broker-api-versions",
    "kafka-client-metrics --list",
    "kafka-consumer-groups --list --state",
    "kafka-consumer-groups --describe --group readers",
    "kafka-consumer-groups --describe --group readers --members --verbose",
    "kafka-consumer-groups --describe --group readers --state",
    "kafka-consumer-groups --describe --group missing",
    "kafka-share-groups --list",
    "kafka-share-groups --describe --group readers",
    "kafka-streams-groups --list",
    "kafka-transactions list",
    "kafka-transactions describe --transactional-id writer",
    "kafka-transactions describe-producers --topic <full> --partition 0",
    "kafka-transactions find-hanging --broker-id 1",
    "kafka-topics --delete --topic missing",
    "kafka-topics --create --topic <full>",
    "kafka-topics --create --topic new --replication-factor 9",
    "kafka-topics --alter --topic <full> --partitions 1",
]
if scaled(1) == 1:  # each step runs a tool several times
    STEPS = [
        step for step in STEPS if re.search("under-rep|at-min|lacking|<full>$|verify|--status|--state|--verb", step)
    ]

# tools that take the address before their command
BEFORE = ("kafka-features", "kafka-metadata-quorum", "kafka-transactions")
#: Times, and what grows by itself.
VARYING = [
    (r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]", "<time>"),
    (r"(LogEndOffset|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs|LastFetch\w+|LastCaughtUp\w+): +-?\d+", r"\1"),
    (r"(?m)^(\d+\s+[\w-]{22}\s+)\d.*(Leader|Follower|Observer)\s*$", r"\1\2"),
    (r"(CompleteCommit\s+\d+\s+\d+\s+)\d+", r"\1"),
    (r"\badminclient-\d+", "adminclient"),
    (r"\s+$", ""),
]
#: The order of these lines has no meaning.
UNORDERED = (
    "kafka-features",
    "kafka-log-dirs",
    "kafka-broker",
    "kafka-topics --list",
    "kafka-consumer-groups --list",
    "kafka-reassign",
    "kafka-configs",
)


@pytest.fixture(scope="module")
def names(cluster: MixedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Make topics, a group and a transactional id, and stop a member."""
    full, few = cluster.create(OURS, THEIRS), cluster.create(OURS, config={"min.insync.replicas": "2"})
    lacking = cluster.create(THEIRS, OURS, THIRD, config={"min.insync.replicas": "2", "retention.ms": "9000000"})
    cluster.produce(full, 0, 10)
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(full, "last")
    producer.commit_transaction(60)
    settings = {"group.id": "readers", "auto.offset.reset": "earliest", "client.id": "reader"}
    consumer = Consumer({**QUIET, **settings, "bootstrap.servers": cluster.bootstrap})
    consumer.subscribe([full])
    eventually(lambda: consumer.poll(1) is not None, timeout_s=60)
    consumer.commit(asynchronous=False)
    cluster[THIRD].stop()
    for node_id in (OURS, THEIRS):
        eventually(lambda at=node_id: cluster.state(lacking, at)[2], equal_to=[OURS, THEIRS])  # type: ignore[misc]
    home = tmp_path_factory.mktemp("files")
    moved = [{"topic": full, "partition": 0, "replicas": [OURS, THEIRS]}]
    (home / "plan").write_text(json.dumps({"version": 1, "partitions": moved}))
    yield {"full": full, "few": few, "lacking": lacking, "plan": str(home / "plan")}
    consumer.close()
    cluster.start_all()


def printed(cluster: MixedCluster, java: JavaRunner, at: int, step: str) -> tuple[list[str], list[str], int]:
    tool, *arguments = step.split()
    address = cluster[at].bootstrap
    if tool in BEFORE:
        arguments = ["--bootstrap-server", address, *arguments]
    program = start_tool(java, address, tool, *arguments).wait()
    texts = []
    for text in (program.stdout, program.stderr):
        for pattern, replacement in VARYING:
            text = re.sub(pattern, replacement, text)
        lines = [line.rstrip() for line in text.splitlines()]  # the tool does not pad the last one
        texts.append(sorted(lines) if step.startswith(UNORDERED) else lines)
    return texts[0], texts[1], program.exit_code


@pytest.mark.parametrize("step", STEPS)
def test_same_text(cluster: MixedCluster, names: dict[str, str], java: JavaRunner, step: str) -> None:
    for name, value in names.items():
        step = step.replace(f"<{name}>", value)
    first = printed(cluster, java, THEIRS, step)
    for at in (OURS, THEIRS) * min(scaled(1), 3):
        assert printed(cluster, java, at, step) == first
