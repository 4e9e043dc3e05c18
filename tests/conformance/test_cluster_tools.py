"""Apache Kafka's tools for features, the quorum, log directories, reassignments, elections and client metrics.

They run step by step against our broker and against Apache Kafka, and must print the same, except ids, times and
offsets.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.pairs import Pair
from tests.support.recorded_answers import RecordedAnswers
from tests.support.scale import scaled
from tests.support.tools import normalised, start_tool

# <1> and <2> are the broker's log directories; names of files below stand for files.
STEPS = [
    "kafka-features describe",
    "kafka-features upgrade --feature group.version=0",
    "kafka-features upgrade --feature group.version=2",
    "kafka-features upgrade --feature group.version=1",
    "kafka-features downgrade --feature group.version=0 --dry-run",
    "kafka-features downgrade --feature group.version=0",
    "kafka-features describe",
    "kafka-features upgrade --feature group.version=1",
    "kafka-features disable --feature share.version",
    "kafka-features disable --feature metadata.version",
    "kafka-features downgrade --metadata 4.0-IV3",
    "kafka-features downgrade --unsafe --metadata 4.2",
    "kafka-features upgrade --metadata 3.0",
    "kafka-features upgrade --release-version 4.3",
    "kafka-features downgrade --release-version 4.1 --dry-run",
    "kafka-features describe",
    "kafka-metadata-quorum describe --status",
    "kafka-metadata-quorum describe --replication",
    "kafka-metadata-quorum remove-controller --controller-id 7 --controller-directory-id AQEBAQEBAQEBAQEBAQEBAQ",
    "kafka-cluster cluster-id",
    "kafka-cluster unregister --id 99",
    "kafka-cluster list-endpoints",
    "kafka-cluster list-endpoints --include-fenced-brokers",
    "kafka-reassign-partitions --list",
    "kafka-reassign-partitions --execute --reassignment-json-file here.json",
    "kafka-reassign-partitions --verify --reassignment-json-file here.json",
    "kafka-log-dirs --describe --topic-list orders,audit",
    "kafka-log-dirs --describe --broker-list 1,2",
    "kafka-reassign-partitions --execute --reassignment-json-file there.json --replica-alter-log-dirs-throttle 9000000",
    "kafka-reassign-partitions --verify --reassignment-json-file there.json",
    "kafka-log-dirs --describe --topic-list orders,audit",
    "kafka-reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1",
    "kafka-reassign-partitions --execute --reassignment-json-file there.json --throttle 1000000 --additional",
    "kafka-reassign-partitions --verify --reassignment-json-file there.json",
    "kafka-reassign-partitions --cancel --reassignment-json-file there.json",
    "kafka-reassign-partitions --execute --reassignment-json-file elsewhere.json",
    "kafka-reassign-partitions --execute --reassignment-json-file nowhere.json",
    "kafka-reassign-partitions --execute --reassignment-json-file unheard.json",
    "kafka-reassign-partitions --verify --reassignment-json-file unheard.json",
    "kafka-leader-election --election-type preferred --topic orders --partition 0",
    "kafka-leader-election --election-type preferred --all-topic-partitions",
    "kafka-leader-election --election-type unclean --all-topic-partitions",
    "kafka-leader-election --election-type preferred --topic unheard --partition 0",
    "kafka-leader-election --election-type preferred --path-to-json-file elect.json",
    "kafka-client-metrics --list",
    "kafka-client-metrics --alter --name basic --metrics org.apache.kafka.producer.,org.apache.kafka.consumer. "
    "--interval 60000 --match client_id=.*",
    "kafka-client-metrics --alter --name bad --interval 10",
    "kafka-client-metrics --alter --name bad --metrics a. --match colour=red",
    "kafka-client-metrics --list",
    "kafka-client-metrics --describe",
    "kafka-client-metrics --describe --name basic",
    "kafka-client-metrics --describe --name unheard",
    "kafka-configs --describe --entity-type client-metrics --entity-name basic",
    "kafka-client-metrics --delete --name basic",
    "kafka-client-metrics --delete --name unheard",
    "kafka-client-metrics --list",
]

if scaled(1) == 1:  # each step starts a tool twice: steps that change nothing run only at the full size
    STEPS = [
        step for step in STEPS if not re.search("--dry-run|=2|--unsafe|list-endpoints$|--name unheard|unclean", step)
    ]


def _placed(*moves: tuple[str, int, str]) -> str:
    partitions = [{"topic": t, "partition": p, "replicas": [1], "log_dirs": [path]} for t, p, path in moves]
    return json.dumps({"version": 1, "partitions": partitions})


FILES = {
    "here.json": _placed(("orders", 0, "<1>"), ("orders", 1, "<1>"), ("orders", 2, "<1>"), ("audit", 0, "<2>")),
    "there.json": _placed(("orders", 0, "<2>"), ("orders", 1, "<2>"), ("orders", 2, "any"), ("audit", 0, "<1>")),
    "elsewhere.json": '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2]}]}',
    "nowhere.json": _placed(("orders", 0, "/nowhere")),
    "unheard.json": _placed(("unheard", 0, "any")),
    "topics.json": '{"version":1,"topics":[{"topic":"orders"}]}',
    "elect.json": '{"partitions":[{"topic":"orders","partition":1},{"topic":"audit","partition":9}]}',
}

# Figures or ids that differ in each run, and addresses of controllers, of which our broker has none
FIGURES = [
    (r"(Epoch|LeaderEpoch|HighWatermark|LogEndOffset):\s*\d+", r"\1: <n>"),
    (r"(?m)^(\d+\s+)[\w-]{22}(\s+)\d+(\s+0\s+)\S.*?(\s+Leader)", r"\1<id>\2<n>\3<times>\4"),
    (r'"endpoints": \["CONTROLLER://[^"]*"\]', '"endpoints": ["<address>"]'),
    (r'"directoryId": "[\w-]{22}"', '"directoryId": "<id>"'),
    (r"directoryId=[\w-]{22}", "directoryId=<id>"),
    (r"(?m)^(1 127\.0\.0\.1) \d+", r"\1 <port>"),
]
#: Feature levels that Apache Kafka has from 4.4 on
OF_4_4 = [
    (r"(Feature: (?:metadata|share)\.version.*)SupportedMaxVersion: .*(?= Finalized)", r"\1"),
    (r"(supports versions \d+)-\d+", r"\1"),
]
# tools that take the address before their command
BEFORE = ("kafka-features", "kafka-metadata-quorum")
# lines in the order of a hash table
UNORDERED = ("kafka-features", "kafka-log-dirs", "kafka-reassign-partitions", "kafka-leader-election")
_PARTITIONS = r'\{"partition":"[^}]*\}'


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, recorded: RecordedAnswers) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("tools"), {"log.segment.delete.delay.ms": "0"}, with_kafka=recorded.must_ask)
    made.create_topics({"orders": 3, "audit": 1})
    yield made
    made.close()


def _files(pair: Pair, broker: RunningBroker, home: Path) -> Path:
    made = home / broker.kind
    made.mkdir()
    first, second = map(str, pair.directories(broker))
    for name, content in FILES.items():
        (made / name).write_text(content.replace("<1>", first).replace("<2>", second))
    return made


def _lines(pair: Pair, broker: RunningBroker, step: str, text: str) -> list[str]:
    text = normalised(pair.plain(broker, text))
    for pattern, replacement in (*FIGURES, *(OF_4_4 if KAFKA_LINE < (4, 4) else [])):
        text = re.sub(pattern, replacement, text)
    if step.startswith(UNORDERED):  # also within lines
        text = re.sub(r"[,\[\]]", "\n", text)
        return sorted(line.strip() for line in text.splitlines() if line.strip())
    return text.splitlines()


@pytest.fixture(scope="module")
def printed(
    pair: Pair, java: JavaRunner, recorded: RecordedAnswers, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[object]]:
    """Return what each step prints, by broker: both outputs and the exit code."""
    home = tmp_path_factory.mktemp("files")
    files = {broker.kind: _files(pair, broker, home) for broker in pair.brokers}
    found: dict[str, list[object]] = {"ours": [], "kafka": []}
    for step in STEPS:
        programs = []
        for broker in pair.brokers:
            tool, *arguments = shlex.split(step)
            arguments = [str(files[broker.kind] / each) if each in FILES else each for each in arguments]
            if tool in BEFORE:
                arguments = ["--bootstrap-server", broker.bootstrap, *arguments]
            programs.append((broker, start_tool(java, broker.bootstrap, tool, *arguments)))
        for broker, program in programs:
            done = program.wait()
            outputs = [_lines(pair, broker, step, text) for text in (done.stdout, done.stderr)]
            found[broker.kind].append([*outputs, done.exit_code])
        if re.search(r"upgrade|downgrade|disable|--execute|--alter|--delete|--verify", step):
            # moves take a moment, and Kafka's broker learns of changes from its controller a little later
            time.sleep(3 if "--execute" in step else 0.5)
    return {"ours": found["ours"], "kafka": recorded.of("printed", lambda: found["kafka"])}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: f"{number}-{STEPS[number][:60]}")
def test_tools_print_the_same(number: int, printed: dict[str, list[object]]) -> None:
    """Standard output, standard error and exit code."""
    assert printed["ours"][number] == printed["kafka"][number]
