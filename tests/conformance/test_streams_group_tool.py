"""kafka-streams-groups with all its options, step by step: it prints the same against our broker and Apache Kafka."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from protocol.messages.metadata import METADATA
from tests.support.brokers import RunningBroker
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.data_client import DataClient, batch
from tests.support.java import JavaRunner
from tests.support.pairs import Pair
from tests.support.recorded_answers import RecordedAnswers
from tests.support.scale import scaled
from tests.support.settled import wait_for_topic
from tests.support.streams_groups import internal, subtopology, topology
from tests.support.streams_session import PROPERTIES, StreamsSession, has_topics
from tests.support.tools import normalised, start_tool

# records are a minute apart from here on: 2023-11-14T22:13:20Z
T0 = 1_700_000_000_000
pytestmark = needs_4_4

RESET = "--group old --reset-offsets --input-topic orders"
# "old" had a member, which committed; "live" has one.
STEPS = [
    "--list",
    "--list --state",
    "--list --state Empty",
    "--list --state Stable,NotReady",
    "--list --state nonsense",
    "--describe --group old",
    "--describe --group old --verbose",
    "--describe --group old --members",
    "--describe --group old --state",
    "--describe --group live",
    "--describe --group live --offsets --verbose",
    "--describe --group live --members",
    "--describe --group live --members --verbose",
    "--describe --group live --state --verbose",
    "--describe --all-groups --state",
    "--describe --group unheard",
    f"{RESET} --to-earliest",
    f"{RESET} --to-earliest --dry-run",
    f"{RESET} --to-earliest --execute",
    "--describe --group old",
    f"{RESET} --to-latest --execute",
    f"{RESET} --to-current --execute",
    f"{RESET} --to-offset 3 --execute",
    f"{RESET} --to-offset 99 --dry-run",
    f"{RESET} --shift-by 2 --execute",
    f"{RESET} --shift-by -1000 --dry-run",
    f"{RESET} --by-duration P9999D --execute",
    f"{RESET} --to-datetime 2023-11-14T22:16:00.000 --execute",
    "--group old --reset-offsets --input-topic orders:0 --to-offset 1 --execute",
    "--group old --reset-offsets --input-topic unheard --to-earliest --execute",
    "--group old --reset-offsets --all-input-topics --to-latest --execute",
    "--group live --reset-offsets --input-topic orders --to-earliest --execute",
    "--describe --group old",
    "--delete-offsets --group live --input-topic orders",
    "--delete-offsets --group old --input-topic orders:0",
    "--delete-offsets --group old --input-topic unheard",
    "--delete-offsets --group unheard --input-topic orders",
    "--delete-offsets --group old --all-input-topics",
    "--describe --group old --offsets",
    "--delete --group live",
    "--delete --group old --delete-all-internal-topics",
    "--delete --group unheard",
    "--list",
]
if scaled(1) == 1:  # each step starts a tool twice: steps that change nothing run only at the full size
    STEPS = [step for step in STEPS if not re.search("--dry-run|--members|nonsense|--to-offset 3|--to-current", step)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, recorded: RecordedAnswers) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("streams"), PROPERTIES, with_kafka=recorded.must_ask)
    StreamsSession(made, "old", {"orders": 2})
    for broker in made.brokers:
        with DataClient("127.0.0.1", broker.port) as client:
            for number in range(6):
                for partition in range(2):
                    client.produce("orders", batch(b"%d" % number, timestamp=T0 + 60_000 * number), partition)
    for group in ("old", "live"):
        session = StreamsSession(made, group, {})
        told = topology(
            subtopology("0", ["orders"], sinks=[f"{group}-count-repartition"]),
            subtopology(
                "1",
                repartition=[internal(f"{group}-count-repartition")],
                changelogs=[internal(f"{group}-count-changelog", cleanup_policy="compact")],
            ),
        )
        session.beat("member", 0, told=told)
        for broker in made.brokers:
            for kind in ("repartition", "changelog"):
                wait_for_topic(broker, f"{group}-count-{kind}", 2)
        session.beat("member", 2, active={}, until=has_topics)
        for partition in range(2):
            assert session.commit("member", 3, "orders", partition) == "NONE"
        if group == "old":
            session.beat("member", -1)
    yield made
    made.close()


def _lines(pair: Pair, broker: RunningBroker, text: str) -> list[str]:
    text = normalised(pair.plain(broker, text))
    text = re.sub(r"127\.0\.0\.1:\d+", "<address>", text)
    return sorted(re.sub(" +", " ", line).strip() for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def printed(pair: Pair, java: JavaRunner, recorded: RecordedAnswers) -> dict[str, list[object]]:
    """Return what each step prints, by broker: both outputs and the exit code."""
    found: dict[str, list[object]] = {"ours": [], "kafka": []}
    for step in STEPS:
        programs = [
            (broker, start_tool(java, broker.bootstrap, "kafka-streams-groups", *shlex.split(step)))
            for broker in pair.brokers
        ]
        for broker, program in programs:
            done = program.wait()
            outputs = [_lines(pair, broker, text) for text in (done.stdout, done.stderr)]
            found[broker.kind].append([*outputs, done.exit_code])
    return {"ours": found["ours"], "kafka": recorded.of("printed", lambda: found["kafka"])}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: f"{number}{STEPS[number][:60]}")
def test_the_tool_prints_the_same(number: int, printed: dict[str, list[object]]) -> None:
    """Standard output, standard error and exit code; lines in any order: groups come in that of a hash table."""
    assert printed["ours"][number] == printed["kafka"][number]


def test_internal_topics_have_gone_with_their_group(
    pair: Pair, printed: dict[str, list[object]], recorded: RecordedAnswers
) -> None:
    """The tool deletes them on request."""
    assert printed
    answers = pair.ask(METADATA, 12, topics=None)
    ours, kafka = (sorted(topic.name for topic in answer.topics) for answer in answers)
    assert ours == recorded.of("topics", lambda: kafka)
    assert "old-count-changelog" not in ours
