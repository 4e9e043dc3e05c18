"""Apache Kafka's console tools: their main classes, and the output of recorded runs (tests/data/tools).

A recorded run is `$ tool arguments`, then sections stdin, stdout, stderr, and the exit code. `normalised` removes what
differs from run to run: ids, times, paths, ports and speeds.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.support.java import KAFKA_LINE, JavaRunner, Program

RECORDED = Path(__file__).resolve().parent.parent / "data" / "tools"
_RECORDED_BOOTSTRAP = "127.0.0.1:29192"

MAIN_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand" if KAFKA_LINE >= (4, 4) else "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


def tool_options() -> list[list[str]]:
    """Return all options of the tools that pybroker replaces: tool, option, a line with it, the answer."""
    return [line.split("\t") for line in (RECORDED / "options.tsv").read_text(encoding="utf-8").splitlines()[1:]]


_VARYING = [
    (re.compile(r"^\s+at \S+\(.*\n|^\t\.\.\. \d+ more\n", re.MULTILINE), ""),
    (re.compile(r"^The consumer rebalance protocol \(KIP-848\) is production-ready!.*\n", re.MULTILINE), ""),
    (re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"), "[<time>]"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"), "<time>"),
    (re.compile(r"(CreateTime|LogAppendTime):\d{13}"), r"\1:<time>"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: <id>"),
    (re.compile(r"Cluster ID: [\w-]{22}"), "Cluster ID: <id>"),
    (re.compile(r"console-consumer-([0-9a-f-]{36}|\d+)"), "console-consumer-<id>"),
    (re.compile(r"adminclient-\d+"), "adminclient-<n>"),
    (re.compile(r"(TimeoutException): null"), r"\1"),
    (re.compile(r" +"), " "),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    (re.compile(r"\n{2,}"), "\n"),
]


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of a console tool."""

    tool: str
    arguments: tuple[str, ...]
    stdin: str
    stdout: str
    stderr: str
    exit_code: int


def recorded(name: str) -> ToolRun:
    """Read the recorded run `name`, for example "01-topics-create"."""
    text = (RECORDED / f"{name}.txt").read_text(encoding="utf-8")
    command, _, rest = text.removeprefix("$ ").partition("\n")
    sections = {"stdin": "", "stdout": "", "stderr": ""}
    parts = re.split(r"^--- (stdin|stdout|stderr|exit \d+)\n", rest + "\n", flags=re.MULTILINE)[1:]
    exit_code = 0
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        if title in sections:
            sections[title] = body
        else:
            exit_code = int(title.removeprefix("exit "))
    tool, *arguments = shlex.split(command)
    return ToolRun(tool, tuple(arguments), **sections, exit_code=exit_code)


def start_tool(runner: JavaRunner, bootstrap: str, tool: str, *arguments: str, stdin: str = "") -> Program:
    """Start a console tool; `bootstrap` replaces the recorded broker's address in `arguments`."""
    own = [argument.replace(_RECORDED_BOOTSTRAP, bootstrap) for argument in arguments]
    if own == list(arguments) and "--bootstrap-server" not in own:
        own += ["--bootstrap-server", bootstrap]
    return runner.start(MAIN_CLASSES[tool], *own, stdin=stdin)


def normalised(text: str, bootstrap: str = _RECORDED_BOOTSTRAP, log_dir: Path | str = "<log.dir>") -> str:
    """Return `text` without the parts that differ in each run."""
    host, port = bootstrap.split(":")
    text = text.replace(bootstrap, "<broker>").replace(f"{host} {port}", "<broker>").replace(str(log_dir), "<log.dir>")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()
