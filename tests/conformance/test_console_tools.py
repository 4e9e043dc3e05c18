"""Apache Kafka's console tools print the same against our broker as they did against a real one.

The recorded steps run once, in their order, against a fresh broker; each test then compares one of them. Run against
Apache Kafka, the file shows that the steps, and not only the comparison, are right.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from broker.requests.served_api import discover
from protocol.registry import API_BY_KEY
from tests.conformance.conftest import StartBroker
from tests.support.brokers import RunningBroker
from tests.support.java import JavaRunner, Program
from tests.support.schema_facts import config_facts
from tests.support.settled import wait_for_changes
from tests.support.tools import normalised, recorded, start_tool

# Properties of the recorded broker that its answers show
PROPERTIES = {
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.cleaner.threads": "1",
    "log.initial.task.delay.ms": "2000",
    "log.retention.check.interval.ms": "3000",
    "num.partitions": "1",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.num.partitions": "1",
}

# Keys with the recorded broker's paths and authorizer, which differ at another broker
OWN_KEYS = (
    r"(advertised\.listeners|allow\.everyone.*|authorizer\.class\.name|broker\.id|controller\.\S+|inter\.broker\.\S+|"
    r"listener\.security\.protocol\.map|listeners|log\.dirs?|metadata\.log\.dir|node\.id|process\.roles|pybroker\.\S+|super\.users)="
)

STEPS = [
    *("01-topics-create", "02-topics-create-exists", "03-topics-create-if-not-exists", "04-topics-create-dot"),
    *("05-topics-create-bad-name", "06-topics-create-bad-config", "07-topics-create-small-segment"),
    *("08-topics-create-rf2", "09-topics-create-compact", "10-topics-list", "11-topics-describe"),
    *("12-topics-describe-one", "13-topics-describe-missing", "14-topics-describe-under-replicated"),
    *("15-topics-describe-overrides", "16-topics-alter", "17-topics-alter-fewer"),
    *("18-console-producer", "19-console-producer-demo", "20-console-producer-headers", "21-console-producer-keys"),
    *("22-console-producer-autocreate", "23-console-consumer", "24-console-consumer-all-props"),
    *("25-console-consumer-partition-offset", "26-console-consumer-timeout", "27-console-consumer-group"),
    *(
        "28-console-consumer-group-848",
        "29-console-consumer-read-committed",
        "32-consumer-groups-list",
        "33-consumer-groups-list-state",
    ),
    *("34-consumer-groups-list-type", "35-consumer-groups-describe"),
    *("36-consumer-groups-describe-848", "37-consumer-groups-describe-state"),
    *("38-consumer-groups-describe-missing", "39-consumer-groups-describe-all", "40-consumer-groups-describe-live"),
    *("41-consumer-groups-describe-live-members", "42-consumer-groups-describe-live-state"),
    *("43-consumer-groups-reset-live", "44-consumer-groups-delete-live", "45-consumer-groups-reset-dry"),
    *("46-consumer-groups-reset-execute", "47-consumer-groups-reset-shift", "48-consumer-groups-reset-datetime"),
    *("49-consumer-groups-export", "50-consumer-groups-delete-offsets", "51-consumer-groups-delete"),
    *("52-consumer-groups-delete-missing", "53-configs-describe-topic", "54-configs-describe-topic-all"),
    *("55-configs-alter-topic", "56-configs-alter-list", "57-configs-alter-bad", "58-configs-alter-delete"),
    *("59-configs-describe-after", "60-configs-describe-broker-all", "61-configs-alter-broker"),
    *("62-configs-alter-broker-default", "63-configs-alter-broker-readonly", "64-configs-describe-broker"),
    *(
        "65-configs-describe-broker-defaults",
        "68-configs-alter-group",
        "69-configs-describe-group",
        "73-get-offsets",
        "74-get-offsets-earliest",
    ),
    *("75-get-offsets-max-timestamp", "76-get-offsets-timestamp", "77-get-offsets-earliest-local", "78-log-dirs"),
    *(
        "79-delete-records",
        "80-transactions-list",
        "83-transactions-describe-producers",
        "84-transactions-find-hanging",
        "85-transactions-abort",
    ),
    *("92-leader-election", "93-leader-election-all", "94-reassign-generate"),
    *("97-reassign-list", "98-producer-perf-test", "100-consumer-perf-test", "101-consumer-perf-test-detailed"),
    *("103-broker-api-versions", "104-cluster-id", "105-cluster-endpoints", "106-features", "113-topics-delete"),
    *("114-topics-delete-missing", "115-topics-list-internal", "116-topics-list-exclude-internal"),
]

# Independent steps: they wait for messages that do not come, all at the same time
TOGETHER = {step for step in STEPS if re.match(r"2[3-9]-", step)}

# The steps between which a member of the group "live" is present
LIVE = ("40-consumer-groups-describe-live", "45-consumer-groups-reset-dry")

# Arguments that differ from the recorded ones, or had another effect on the day of the recording
ARGUMENTS: Mapping[str, Callable[[list[str]], list[str]]] = {
    "05-topics-create-bad-name": lambda given: [*given[:-2], "bad name!"],
    "19-console-producer-demo": lambda given: [
        *given,
        *_producer("partitioner.class=PinnedPartitioner", "pinned.partition=1"),
    ],
    "24-console-consumer-all-props": lambda given: ["4" if value == "6" else value for value in given],
}
STDIN = {"20-console-producer-headers": "h1:v1,h2:v2\tk1\tval1\n"}

# Left behind by other steps at the recorded broker: transactions, a second run of a step
ELSEWHERE: Mapping[str, list[tuple[str, str]]] = {
    "24-console-consumer-all-props": [
        (r".*Partition:0.*\n|.*Offset:4.*\n", ""),
        ("total of 6 messages", "total of 4 messages"),
    ],
    "60-configs-describe-broker-all": [(rf" {OWN_KEYS}.*\n", "")],
    "115-topics-list-internal": [(r"__(share_group|transaction)_state\n", "")],
}

# Figures that differ in each run
FIGURES: Mapping[str, list[tuple[str, str]]] = {
    "60-configs-describe-broker-all": [(rf" {OWN_KEYS}.*\n", "")],
    "22-console-producer-autocreate": [(r"correlation id \d+", "correlation id <n>")],
    "78-log-dirs": [(r'"size":[1-9]\d*', '"size":<bytes>')],
    "83-transactions-describe-producers": [(r"^\d.*\n", "")],
    "98-producer-perf-test": [(r"[\d.]+", "<n>")],
    "100-consumer-perf-test": [(r"[\d.]+(?!\w)", "<n>")],
    "101-consumer-perf-test-detailed": [(r"[\d.]+(?!\w)", "<n>"), (r"(<time>.*\n?)+$", "")],
    "104-cluster-id": [(r"Cluster ID: \S+", "Cluster ID: <id>")],
    "106-features": [(r"Epoch: \d+", "Epoch: <n>")],
}

# API keys that Kafka serves and pybroker does not yet
NOT_SERVED = sorted(API_BY_KEY.keys() - discover().keys())
OURS: Mapping[str, list[tuple[str, str]]] = {
    "106-features": [(r"(kraft\.version .*FinalizedVersionLevel:) 0", r"\1 1")],  # the voters are in the log
    "103-broker-api-versions": [(rf"\(({'|'.join(map(str, NOT_SERVED))})\): [^],]*\]", r"(\1): UNSUPPORTED")],
}

# Steps whose lines are in the order of a hash table
UNORDERED = {
    *("32-consumer-groups-list", "33-consumer-groups-list-state", "34-consumer-groups-list-type"),
    *("39-consumer-groups-describe-all", "79-delete-records"),
}

FILES = {
    "del.json": {
        "partitions": [
            {"topic": "demo", "partition": 1, "offset": 2},
            {"topic": "comp", "partition": 0, "offset": 1},
        ],
        "version": 1,
    },
    "mv.json": {"topics": [{"topic": "demo"}], "version": 1},
}


def _producer(*properties: str) -> list[str]:
    return [argument for value in properties for argument in ("--command-property", value)]


@pytest.fixture(scope="module", params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """A fresh broker of each kind."""
    return start_broker(request.param, PROPERTIES)


@pytest.fixture(scope="module")
def transcript(
    broker: RunningBroker, java: JavaRunner, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Program]:
    """Run every step, in order."""
    files = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (files / name).write_text(json.dumps(content))
    ran: dict[str, Program] = {}
    for step in STEPS:
        if step not in TOGETHER:
            for program in ran.values():
                program.wait()
        if step == LIVE[0]:
            live = _live_member(java, broker)
        if step == LIVE[1]:
            live.stop()
        ran[step] = _start(step, java, broker, files)
        if broker.kind == "kafka" and re.search(r"create|alter|delete|autocreate", step):
            ran[step].wait()
            wait_for_changes(broker)
    ran[STEPS[-1]].wait()
    return ran


def _start(step: str, java: JavaRunner, broker: RunningBroker, files: Path) -> Program:
    run = recorded(step)
    arguments = ARGUMENTS.get(step, list)(list(run.arguments))
    arguments = [str(files / value) if value in FILES else value for value in arguments]
    if "--timeout-ms" in arguments:
        arguments[arguments.index("--timeout-ms") + 1] = "6000"
    return start_tool(java, broker.bootstrap, run.tool, *arguments, stdin=STDIN.get(step, run.stdin))


def _live_member(java: JavaRunner, broker: RunningBroker) -> Program:
    """Start a consumer of the group "live" and wait until it has committed."""
    arguments = ["--topic", "demo", "--group", "live", "--from-beginning"]
    commits = ["--command-property", "auto.commit.interval.ms=100"]
    member = start_tool(java, broker.bootstrap, "kafka-console-consumer", *arguments, *commits)
    member.wait_for_output("val1")
    deadline = time.monotonic() + 60
    while not re.search(r"live demo 1 4 4", described := _described(java, broker)):
        assert time.monotonic() < deadline, described
    return member


# What 4.4 prints otherwise than the recorded 4.3: removed from both sides
_ADDED_KEYS = "|".join(map(re.escape, config_facts("changed-configs-4.3.1-to-4.4.0")))
_NEWER_APIS = (
    "ApiVersions|TxnOffsetCommit|DeleteGroups|StreamsGroupHeartbeat|StreamsGroupDescribe|"
    "StreamsGroupTopologyDescriptionUpdate|UnregisterController"
)
_RESETTER = [(r"\.? \(org\.apache\.kafka\.tools\.(OffsetsUtils|GroupOffsetsResetter)\)$", "")]
NEWER = {
    "46-consumer-groups-reset-execute": _RESETTER,
    "47-consumer-groups-reset-shift": _RESETTER,
    "54-configs-describe-topic-all": [(rf"^ *({_ADDED_KEYS})=.*\n", "")],
    "60-configs-describe-broker-all": [(rf"^ *({_ADDED_KEYS})=.*\n", "")],
    # the tool of 4.3 knows no names of newer APIs and releases
    "103-broker-api-versions": [(rf"^\t({_NEWER_APIS}|UNKNOWN)\(.*\n", ""), (r",$", "")],
    "106-features": [(r"^(Feature: (?:metadata|share)\.version.*)SupportedMaxVersion: .*(?= Finalized)", r"\1")],
}


def _described(java: JavaRunner, broker: RunningBroker) -> str:
    described = start_tool(java, broker.bootstrap, "kafka-consumer-groups", "--describe", "--group", "live").wait()
    return normalised(described.stdout)


def _edited(text: str, edits: list[tuple[str, str]], *, unordered: bool) -> list[str]:
    text += "\n"
    for pattern, replacement in edits:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if line]
    return sorted(lines) if unordered else lines


@pytest.mark.parametrize("step", STEPS)
def test_console_tool_prints_what_was_recorded(
    step: str, broker: RunningBroker, transcript: Mapping[str, Program]
) -> None:
    """The tool's output and exit code equal those against a real Kafka, except ids, times, paths and figures.

    This includes the consoles with --from-beginning (S11.7).
    """
    run, now = recorded(step), transcript[step]
    edits = {"unordered": step in UNORDERED}
    known = ELSEWHERE.get(step, []) + (OURS.get(step, []) if broker.kind == "ours" else [])
    both = FIGURES.get(step, []) + NEWER.get(step, [])
    for then, got in ((run.stdout, now.stdout), (run.stderr, now.stderr)):
        expected = _edited(normalised(then), known + both, **edits)
        assert expected == _edited(normalised(got, broker.bootstrap, broker.log_dir), both, **edits)
    assert run.exit_code == now.exit_code


def test_configs_describe_and_alter_broker_loggers(broker: RunningBroker, java: JavaRunner) -> None:
    """kafka-configs shows the broker's loggers in Kafka's form, and sets the level of one (KIP-412)."""
    logger = ["--entity-type", "broker-loggers", "--entity-name", "1"]

    described = start_tool(java, broker.bootstrap, "kafka-configs", "--describe", *logger).wait()
    head, *lines = described.stdout.splitlines()
    name = lines[-1].strip().partition("=")[0]
    altered = start_tool(
        java, broker.bootstrap, "kafka-configs", "--alter", *logger, "--add-config", f"{name}=DEBUG"
    ).wait()
    again = start_tool(java, broker.bootstrap, "kafka-configs", "--describe", *logger).wait()

    assert head == "Dynamic configs for broker-logger 1 are:"
    assert all(re.fullmatch(r"  \S+=[A-Z]+ sensitive=false synonyms=\{\}", line) for line in lines)
    assert altered.stdout == "Completed updating config for broker-logger 1.\n"
    assert f"  {name}=DEBUG sensitive=false synonyms={{}}" in again.stdout.splitlines()
