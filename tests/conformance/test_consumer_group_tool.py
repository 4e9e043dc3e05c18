"""kafka-consumer-groups with all its options, step by step: it prints the same against our broker and Apache Kafka."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.brokers import RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.java import JavaRunner
from tests.support.pairs import Pair
from tests.support.recorded_answers import RecordedAnswers
from tests.support.scale import scaled
from tests.support.settled import settled
from tests.support.tools import normalised, start_tool

# records are a minute apart from here on: 2023-11-14T22:13:20Z
T0 = 1_700_000_000_000
RESET = "--group old --topic orders --reset-offsets"
# "old" and "older" have offsets and no members, "live" has two static members; plan.csv is a file.
STEPS = [
    "--list",
    "--list --state",
    "--list --state Empty",
    "--list --state Stable,Dead",
    "--list --state nonsense",
    "--list --type",
    "--list --type classic --state",
    "--list --type nonsense",
    "--describe --group old",
    "--describe --group old --offsets --verbose",
    "--describe --group old --members",
    "--describe --group old --state --verbose",
    "--describe --group live",
    "--describe --group live --offsets --verbose",
    "--describe --group live --members",
    "--describe --group live --members --verbose",
    "--describe --group live --state",
    "--describe --group old --group older --state",
    "--describe --all-groups --state",
    "--describe --all-groups --members --verbose",
    "--describe --group unheard",
    "--describe --group unheard --members",
    f"{RESET} --to-earliest",
    f"{RESET} --to-earliest --dry-run",
    f"{RESET} --to-earliest --execute",
    "--describe --group old",
    f"{RESET} --to-latest --execute",
    f"{RESET} --to-current --execute",
    f"{RESET} --to-offset 3 --execute",
    f"{RESET} --to-offset 99 --dry-run",
    f"{RESET} --to-offset -1 --dry-run",
    f"{RESET} --shift-by 2 --execute",
    f"{RESET} --shift-by -3 --execute",
    f"{RESET} --shift-by 1000 --dry-run",
    f"{RESET} --shift-by -1000 --dry-run",
    f"{RESET} --by-duration PT1M --dry-run",
    f"{RESET} --by-duration P9999D --execute",
    f"{RESET} --by-duration nonsense",
    f"{RESET} --to-datetime 2023-11-14T22:16:00.000 --execute",
    f"{RESET} --to-datetime 2023-11-14T22:16:00.000+01:00 --dry-run",
    f"{RESET} --to-datetime 2023-11-14T22:15:20.001Z --dry-run",
    f"{RESET} --to-datetime 2199-01-01T00:00:00.000 --dry-run",
    f"{RESET} --to-datetime yesterday",
    f"{RESET} --from-file plan.csv --dry-run",
    f"{RESET} --from-file plan.csv --execute",
    f"{RESET} --from-file many.csv --execute",
    f"{RESET} --to-earliest --to-latest",
    "--group old --topic orders:0 --reset-offsets --to-offset 1 --execute",
    "--group old --topic orders:0,1 --topic audit --reset-offsets --to-earliest --export",
    "--group old --topic orders:9 --reset-offsets --to-earliest",
    "--group old --topic unheard --reset-offsets --to-earliest",
    "--group old --all-topics --reset-offsets --to-current --export",
    "--group old --group older --all-topics --reset-offsets --to-earliest --export --dry-run",
    "--group new --topic orders --reset-offsets --to-latest --execute",
    "--group live --topic orders --reset-offsets --to-earliest --execute",
    "--group live --topic orders --reset-offsets --to-earliest --dry-run",
    "--describe --group old --group older --group new --offsets",
    "--delete-offsets --group live --topic orders",
    "--delete-offsets --group live --topic audit",
    "--delete-offsets --group old --topic orders:0",
    "--delete-offsets --group old --topic orders:0,7",
    "--delete-offsets --group old --topic unheard",
    "--delete-offsets --group unheard --topic orders",
    "--describe --group old",
    "--delete --group live",
    "--delete --group old --group unheard",
    "--delete --all-groups",
    "--list",
]
if scaled(1) == 1:  # each step starts a tool twice: steps that change nothing run only at the full size
    STEPS = [step for step in STEPS if not re.search("--dry-run|--list .*--type|--members|--verbose|nonsense", step)]
OFFSETS = {("orders", 0): 4, ("orders", 1): 2, ("audit", 0): 6}
FILES = {"plan.csv": "orders,0,2\norders,1,1\n", "many.csv": '"old",orders,0,1\n"older",orders,0,1\n'}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, recorded: RecordedAnswers) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("groups"), {"offsets.topic.num.partitions": "1"}, with_kafka=recorded.must_ask)
    counts = {"orders": 2, "audit": 1}
    made.create_topics(counts)
    for broker in made.brokers:
        with DataClient("127.0.0.1", broker.port) as client:
            for number in range(6):
                for name, count in counts.items():
                    for partition in range(count):
                        client.produce(name, batch(b"%d" % number, timestamp=T0 + 60_000 * number), partition)
            for group in ("old", "older"):
                settled(broker, partial(client.find_coordinator, group))
                settled(broker, partial(client.commit, group, OFFSETS))
    yield made
    made.close()


def _live_members(broker: RunningBroker) -> list[Consumer]:
    """Return two members with an assignment and commits."""
    members = []
    for number in (1, 2):
        member = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "live",
                "group.instance.id": f"member-{number}",
                "client.id": f"client-{number}",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
            }
        )
        member.subscribe(["orders"])
        members.append(member)
    deadline = time.monotonic() + 30
    while [len(each.assignment()) for each in members] != [1, 1]:
        assert time.monotonic() < deadline
        for each in members:
            each.poll(0.1)
    for each in members:
        partition = each.assignment()[0].partition
        each.commit(offsets=[TopicPartition("orders", partition, 3)], asynchronous=False)
    return members


def _lines(pair: Pair, broker: RunningBroker, text: str) -> list[str]:
    text = normalised(pair.plain(broker, text))
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>", text)
    # the order of their ids decides which member gets which
    text = re.sub(r"(?m)^(live +orders) +[01] ", r"\1 <p> ", text)
    text = re.sub(r"orders\([01]\)|orders:[01]", "orders(<p>)", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "<address>", text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def printed(
    pair: Pair, java: JavaRunner, recorded: RecordedAnswers, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[object]]:
    """Return what each step prints, by broker: both outputs and the exit code."""
    home: Path = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (home / name).write_text(content)
    members = [each for broker in pair.brokers for each in _live_members(broker)]
    found: dict[str, list[object]] = {"ours": [], "kafka": []}
    for step in STEPS:
        arguments = [str(home / each) if each in FILES else each for each in shlex.split(step)]
        programs = [
            (broker, start_tool(java, broker.bootstrap, "kafka-consumer-groups", *arguments)) for broker in pair.brokers
        ]
        for broker, program in programs:
            done = program.wait()
            outputs = [_lines(pair, broker, text) for text in (done.stdout, done.stderr)]
            found[broker.kind].append([*outputs, done.exit_code])
    for each in members:
        each.close()
    return {"ours": found["ours"], "kafka": recorded.of("printed", lambda: found["kafka"])}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: f"{number}{STEPS[number][:60]}")
def test_the_tool_prints_the_same(number: int, printed: dict[str, list[object]]) -> None:
    """Standard output, standard error and exit code; lines in any order: groups come in that of a hash table."""
    assert printed["ours"][number] == printed["kafka"][number]
