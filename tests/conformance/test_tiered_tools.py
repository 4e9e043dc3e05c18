"""Apache Kafka's console tools print the same about a topic with tiered storage at pybroker and at Apache Kafka.

Offsets 0-29 are remote alone, 30-49 are in both tiers, and 50-59 are local alone. All tools run in one JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.java import JavaRunner
from tests.support.tiered_brokers import TIERED
from tests.support.tiered_side import SECOND_MS, TIME_MS, Side
from tests.support.tools import normalised, start_tool

pytestmark = pytest.mark.full_size

TOPIC = "orders"
#: By the first offset that it reads from, with the offsets that it shall print.
READS = {0: range(60), 17: range(17, 60), 29: range(29, 60), 30: range(30, 60), 55: range(55, 60)}
_DATETIME = "2023-11-14T22:13:38.000"  # that of offset 18


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Start both brokers with the same topic."""
    made: dict[str, Side] = {}
    try:
        for kind, broker_class in TIERED.items():
            side = made[kind] = Side(broker_class(tmp_path_factory.mktemp(kind)))
            side.create(TOPIC, local_retention_bytes="5000")
            side.write(TOPIC, 0, 60)
            side.await_tiers(TOPIC, 30, 49)
        yield made
    finally:
        for side in made.values():
            side.client.close()
            side.broker.kill()


class Tools:
    """Runs a tool at both brokers."""

    def __init__(self, java: JavaRunner, sides: dict[str, Side]) -> None:
        self._java = java
        self._sides = sides

    def same(self, tool: str, *arguments: str) -> str:
        """Run a tool at both brokers; return what both printed."""
        found = {}
        for kind, side in self._sides.items():
            bootstrap = side.broker.bootstrap
            done = start_tool(self._java, bootstrap, tool, *arguments).wait()
            printed = normalised(done.stdout, bootstrap, side.broker.log_dir)
            found[kind] = (printed, done.exit_code)
        assert found["ours"] == found["kafka"]
        assert found["ours"][1] == 0
        return found["ours"][0]

    def each(self, tool: str, *arguments: str) -> dict[str, str]:
        """Run a tool whose output has sizes or speeds; return what each printed."""
        found = {}
        for kind, side in self._sides.items():
            done = start_tool(self._java, side.broker.bootstrap, tool, *arguments).wait()
            assert done.exit_code == 0, done.stderr
            found[kind] = done.stdout
        return found


@pytest.fixture
def tools(java: JavaRunner, sides: dict[str, Side]) -> Tools:
    return Tools(java, sides)


@pytest.mark.parametrize(
    ("special", "offset"),
    [("-1", 60), ("-2", 0), ("-3", 59), ("-4", 30), ("-5", 49), ("-6", 50), (str(TIME_MS + 18 * SECOND_MS), 18)],
)
def test_offsets_by_time(tools: Tools, special: str, offset: int) -> None:
    assert tools.same("kafka-get-offsets", "--topic", TOPIC, "--time", special) == f"{TOPIC}:0:{offset}"


@pytest.mark.parametrize("first", READS)
def test_consumer_begins_in_either_tier(tools: Tools, first: int) -> None:
    shown = ["--formatter-property", "print.offset=true", "--formatter-property", "print.value=false"]
    limit = ["--max-messages", str(len(READS[first])), "--timeout-ms", "60000"]
    place = ["--topic", TOPIC, "--partition", "0", "--offset", str(first)]
    printed = tools.same("kafka-console-consumer", *place, *limit, *shown)
    assert [int(each) for each in re.findall(r"Offset:(\d+)", printed)] == list(READS[first])


def test_consumer_from_the_beginning(tools: Tools) -> None:
    arguments = ["--topic", TOPIC, "--from-beginning", "--max-messages", "60", "--timeout-ms", "60000"]
    printed = tools.same("kafka-console-consumer", *arguments)
    assert [line[:5] for line in printed.splitlines()] == [f"{offset:05}" for offset in range(60)]


def test_topic_and_its_configuration(tools: Tools) -> None:
    assert "remote.storage.enable=true" in tools.same("kafka-topics", "--describe", "--topic", TOPIC)
    described = tools.same("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", TOPIC)
    assert "local.retention.bytes=5000" in described


def test_local_sizes(tools: Tools) -> None:
    """The sizes are those of the local log alone."""
    found = tools.each("kafka-log-dirs", "--describe", "--topic-list", TOPIC)
    sizes = {}
    for kind, printed in found.items():
        [described] = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        [directory] = described["brokers"][0]["logDirs"]
        sizes[kind] = [(each["partition"], each["size"], each["offsetLag"]) for each in directory["partitions"]]
    assert sizes["ours"] == sizes["kafka"]


@pytest.mark.parametrize(
    ("to", "offset"), [("--to-earliest", 0), ("--to-latest", 60), ("--to-datetime", 18), ("--to-offset", 29)]
)
def test_groups_are_reset_to_either_tier(tools: Tools, to: str, offset: int) -> None:
    value = {"--to-datetime": [_DATETIME], "--to-offset": ["29"]}.get(to, [])
    group = ["--group", f"group{to}", "--topic", TOPIC, "--reset-offsets", to, *value, "--execute"]
    printed = tools.same("kafka-consumer-groups", *group)
    assert re.search(rf"{TOPIC} 0 {offset}\b", printed), printed


def test_consumer_performance_reads_all(tools: Tools) -> None:
    arguments = ["--topic", TOPIC, "--num-records", "60", "--timeout", "60000"]
    counts = {
        kind: [line.split(", ")[4] for line in printed.splitlines() if line.startswith("20")]
        for kind, printed in tools.each("kafka-consumer-perf-test", *arguments).items()
    }
    assert counts == {"ours": ["60"], "kafka": ["60"]}


def test_records_are_deleted_in_the_remote_tier(tools: Tools, sides: dict[str, Side], tmp_path: Path) -> None:
    for side in sides.values():
        side.create("shortened", local_retention_bytes="5000")
        side.write("shortened", 0, 60)
        side.await_tiers("shortened", 30, 49)
    wanted = tmp_path / "wanted.json"
    partition = {"topic": "shortened", "partition": 0, "offset": 15}
    wanted.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    assert "low_watermark: 15" in tools.same("kafka-delete-records", "--offset-json-file", str(wanted))
    assert tools.same("kafka-get-offsets", "--topic", "shortened", "--time", "-2") == "shortened:0:15"
