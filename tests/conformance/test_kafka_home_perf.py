"""The performance tools and kafka-cluster of `pybroker kafka-home`, beside Apache Kafka's tools on the same broker.

Exit codes are compared, and the lines of output without their numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.kafka_home.tools import run
from tests.support.brokers import OurBroker
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.java import JavaRunner
from tests.support.tools import start_tool

pytestmark = needs_4_4

_PRODUCE = "--topic load --num-records 30 --throughput -1 --record-size 9"
_CONSUME = "--topic load --num-records 20"
LINES = {
    "kafka-producer-perf-test": [
        _PRODUCE,
        f"{_PRODUCE} --transactional-id till --transaction-duration-ms 20",
        f"{_PRODUCE} --transaction-duration-ms 20",
        f"{_PRODUCE} --command-property transactional.id=other",
        f"{_PRODUCE} --transaction-duration-ms 0",
        f"{_PRODUCE} --transactional-id till --command-property acks=1",
        f"{_PRODUCE} --warmup-records 10",
        "--topic load --num-records 0 --throughput -1 --record-size 9",
        "--topic load --num-records 30 --throughput -1",
    ],
    "kafka-consumer-perf-test": [
        _CONSUME,
        f"{_CONSUME} --hide-header",
        f"{_CONSUME} --date-format HH:mm",
        f"{_CONSUME} --date-format QQQ",
        f"{_CONSUME} --show-detailed-stats --reporting-interval 1",
        f"{_CONSUME} --show-detailed-stats --reporting-interval 0",
        f"{_CONSUME} --include lo.d",
        "--include lo.d --num-records 20",
        "--include lo( --num-records 20",
        "--num-records 20",
        "--topic load --messages 20",
        f"{_CONSUME} --messages 20",
        "--topic load --num-records 9999 --timeout 1500",
    ],
}
_PROCEEDS = ("list-endpoints", "list-endpoints --include-fenced-brokers", "cluster-id", "api-versions")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = OurBroker(tmp_path_factory.mktemp("perf"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("load", 1)]).values():
        future.result(60)
    yield broker.bootstrap
    broker.stop()


def _shape(output: str) -> list[str]:
    """Return the lines without numbers, each once: how many windows a run has depends on its speed."""
    lines = [re.sub(r"\d[\d.:-]*( [\d:]+)?", "<n>", line) for line in output.splitlines()]
    return list(dict.fromkeys(line for line in lines if line and not line.upper().startswith("WARNING: ")))


STEPS = [(tool, line) for tool, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("tool", "line"), STEPS, ids=[f"{n}-{t} {line}"[:80] for n, (t, line) in enumerate(STEPS)])
def test_tool_ends_as_kafkas_does(
    bootstrap: str, java: JavaRunner, capsys: pytest.CaptureFixture[str], tool: str, line: str
) -> None:
    words = shlex.split(line)
    theirs = start_tool(java, bootstrap, tool, *words).wait()

    exit_code = run(tool, [*words, "--bootstrap-server", bootstrap])

    assert exit_code == theirs.exit_code, theirs.stdout + theirs.stderr
    if not exit_code:
        assert _shape(capsys.readouterr().out) == _shape(theirs.stdout)


@pytest.mark.parametrize("line", _PROCEEDS)
def test_cluster_answers(bootstrap: str, java: JavaRunner, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """The output is pybroker's, with the facts of Kafka's."""
    theirs = start_tool(java, bootstrap, "kafka-cluster", *line.split()).wait()

    assert run("kafka-cluster", [*line.split(), "--bootstrap-server", bootstrap]) == theirs.exit_code == 0
    shown = capsys.readouterr().out
    if line.startswith("list-endpoints"):
        host, port = bootstrap.split(":")
        assert re.search(rf"\b1\s+{host}\s+{port}\b", theirs.stdout)
        assert re.search(rf"\b1\s+{host}\s+{port}\b", shown)
        assert (" unfenced" in shown) == ("fenced" in line)
    if line == "cluster-id":
        assert theirs.stdout.split()[-1] == shown.strip()
