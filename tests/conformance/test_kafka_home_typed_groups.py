"""`pybroker kafka-home`'s kafka-share-groups and kafka-streams-groups, beside Kafka's own tools.

Each command line runs on a broker of its own; exit codes, and afterwards groups, offsets and topics are compared. The
steps of reset-offsets of share groups are in test_kafka_home_groups.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from pybroker.kafka_home.tools import run
from tests.conformance.test_kafka_home_groups import Side
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.support.streams_groups import internal, request, subtopology, topology
from tests.support.tools import normalised, start_tool

pytestmark = needs_4_4

#: "till" is empty, "busy" has a member; "shop" is a consumer group.
SHARE = [
    "--list",
    "--list --state Empty",
    "--list --state Purple",
    "--list --group till",
    "--list --no-such-option",
    "--describe --group till",
    "--describe --group busy --members --verbose",
    "--describe --group busy --state --verbose",
    "--describe --all-groups --offsets",
    "--describe --group nobodys",
    "--describe --group shop",
    "--describe",
    "--describe --group till --members --state",
    "--describe --group till --group busy",
    "--reset-offsets --group till --topic read --topic other --to-offset 2 --execute",
    "--reset-offsets --all-groups --topic read --to-offset 2 --execute",
    "--delete-offsets --group till --topic read:0",
    "--delete-offsets --group till --topic read",
    "--delete-offsets --group till --topic read",
    "--delete-offsets --group till --topic nothing",
    "--delete-offsets --group till --topic read --topic other",
    "--delete-offsets --group till",
    "--delete-offsets --topic read",
    "--delete-offsets --group busy --topic read",
    "--delete-offsets --group nobodys --topic read",
    "--delete --group busy",
    "--delete --group shop",
    "--delete --group nobodys",
    "--delete",
    "--delete --group till --topic read",
    "--delete --group till --all-groups",
    "--delete --group till",
    "--delete --all-groups",
]
RESET = "--reset-offsets --group plain"
#: "counter" has a member; "plain" and "made" are empty, have offsets of the partitions of "read", and internal topics.
STREAMS = [
    "--list",
    "--list --state Empty,Reconciling",
    "--list --state Purple",
    "--list --no-such-option",
    "--describe --group counter",
    "--describe --group counter --members --verbose",
    "--describe --group counter --state --verbose",
    "--describe --all-groups",
    "--describe --group nobodys",
    "--describe --group shop",
    "--describe",
    f"{RESET} --input-topic read --to-offset 2",
    f"{RESET} --input-topic read --to-offset 2 --dry-run",
    f"{RESET} --input-topic read --to-offset 2 --execute",
    f"{RESET} --all-input-topics --to-offset 1 --execute",
    f"{RESET} --input-topic read:0 --shift-by 1 --execute",
    f"{RESET} --input-topic read:1,2 --to-latest --execute",
    f"{RESET} --to-offset 1 --execute",
    f"{RESET} --input-topic other --to-offset 1 --execute",
    f"{RESET} --input-topic nothing --to-offset 1 --execute",
    f"{RESET} --input-topic read:9 --to-offset 1 --execute",
    f"{RESET} --input-topic read --execute",
    f"{RESET} --input-topic read --to-earliest --execute --dry-run",
    f"{RESET} --input-topic read --to-earliest --dry-run --delete-internal-topic plain-a-changelog",
    f"{RESET} --input-topic read --to-earliest --execute --delete-internal-topic plain-a-changelog",
    f"{RESET} --input-topic read --to-earliest --execute --delete-all-internal-topics",
    "--reset-offsets --group counter --input-topic read --to-offset 1 --execute",
    "--reset-offsets --group nobodys --input-topic read --to-offset 1 --execute",
    "--reset-offsets --group shop --input-topic read --to-offset 1 --execute",
    "--reset-offsets --input-topic read --to-offset 1 --execute",
    "--delete-offsets --group plain --input-topic read:0",
    "--delete-offsets --group plain --input-topic read:0",
    "--delete-offsets --group plain --all-input-topics",
    "--delete-offsets --group counter --input-topic read",
    "--delete-offsets --group nobodys --input-topic read",
    "--delete-offsets --group plain --input-topic nothing",
    "--delete-offsets --group plain",
    "--delete --group counter",
    "--delete --group shop",
    "--delete --group nobodys",
    "--delete",
    "--delete --group plain --delete-internal-topic foo",
    "--delete --group plain",
    "--delete --group made --delete-all-internal-topics",
    "--delete --all-groups",
]
STEPS = [
    *(("kafka-share-groups", line) for line in SHARE),
    *(("kafka-streams-groups", line) for line in STREAMS),
    ("kafka-cluster", "unregister --id 99"),
]
if scaled(1) == 1:  # each line starts tools several times: lines that change nothing run only at the full size
    READING = re.compile(
        r"--list .|--describe|--dry-run|Purple|-option|nobodys|^--delete$|-offsets --(group till|topic read)$"
    )
    STEPS = [(tool, line) for tool, line in STEPS if not READING.search(line)]
READ = [TopicPartition("read", partition, 3) for partition in range(3)]


def _streams_group(side: Side, group: str, *, is_left: bool) -> None:
    """Let a group have a member, or have had one that committed offsets."""
    changelogs = [internal(f"{group}-{name}-changelog", cleanup_policy="compact") for name in "ab"]
    sent = request("m", 0, told=topology(subtopology("0", ["read"], changelogs=changelogs)), group_id=group)
    eventually(lambda: not side.client.call(STREAMS_GROUP_HEARTBEAT, 1, **sent).error_code)
    admin = AdminClient({"bootstrap.servers": side.broker.bootstrap})
    eventually(lambda: f"{group}-b-changelog" in admin.list_topics(timeout=60).topics)
    if is_left:
        side.client.call(STREAMS_GROUP_HEARTBEAT, 1, **request("m", -1, group_id=group))
        _commit(side, group)


def _commit(side: Side, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": side.broker.bootstrap, "group.id": group})
    consumer.commit(offsets=READ, asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Return a broker for Kafka's tools, and one for ours."""
    made: dict[str, Side] = {}
    try:
        for kind in ("kafka", "ours"):
            side = made[kind] = Side(tmp_path_factory.mktemp(kind))
            side.prepare(groups=False)
            for group in ("till", "busy"):
                side.share(group, 0)
            side.share("till", -1)
            _streams_group(side, "counter", is_left=False)
            for group in ("plain", "made"):
                _streams_group(side, group, is_left=True)
            _commit(side, "shop")
        yield made
    finally:
        for side in made.values():
            side.client.close()
            side.broker.stop()


#: The command lines of Kafka's tools that show the state after a line.
SHOWN = {
    "kafka-share-groups": ["kafka-share-groups --describe --all-groups", "kafka-share-groups --list --state"],
    "kafka-streams-groups": ["kafka-streams-groups --list --state", "kafka-topics --list"],
    "kafka-cluster": ["kafka-cluster list-endpoints"],
}


def state(sides: dict[str, Side], java: JavaRunner, tool: str) -> dict[str, list[list[str]]]:
    """Return groups, offsets and topics by side, as Kafka's tools show them, each sorted."""
    running = [
        (kind, start_tool(java, sides[kind].broker.bootstrap, *line.split())) for line in SHOWN[tool] for kind in sides
    ]
    shown: dict[str, list[list[str]]] = {kind: [] for kind in sides}
    for kind, program in running:
        shown[kind].append(sorted(normalised(program.wait().stdout, sides[kind].broker.bootstrap).splitlines()))
    for kind, side in sides.items():
        consumer = Consumer({"bootstrap.servers": side.broker.bootstrap, "group.id": "plain"})
        shown[kind].append([f"{each.topic}-{each.partition} {each.offset}" for each in consumer.committed(READ, 60)])
        consumer.close()
    return shown


@pytest.mark.parametrize(("tool", "line"), STEPS, ids=[f"{n}-{t} {line}"[:80] for n, (t, line) in enumerate(STEPS)])
def test_script_does_what_kafkas_tool_does(sides: dict[str, Side], java: JavaRunner, tool: str, line: str) -> None:
    """Lines depend on earlier ones."""
    words = shlex.split(line)
    theirs = start_tool(java, sides["kafka"].broker.bootstrap, tool, *words)

    exit_code = run(tool, [*words, "--bootstrap-server", sides["ours"].broker.bootstrap])

    theirs.wait()
    assert exit_code == theirs.exit_code, theirs.stdout + theirs.stderr
    if not {"--list", "--describe"}.intersection(words):
        states = state(sides, java, tool)
        assert states["ours"] == states["kafka"]


def test_no_other_topic_is_deleted_as_an_internal_one(
    sides: dict[str, Side], capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka's tool deletes every topic that the option names, here a source topic with its records."""
    _streams_group(sides["ours"], "last", is_left=True)
    line = "--reset-offsets --group last --input-topic read --to-earliest --execute --delete-internal-topic read"
    words = [*line.split(), "--bootstrap-server", sides["ours"].broker.bootstrap]
    assert run("kafka-streams-groups", words) == 0
    assert capsys.readouterr().err == "pybroker groups: read: not an internal topic of last\n"
    admin = AdminClient({"bootstrap.servers": sides["ours"].broker.bootstrap})
    assert "read" in admin.list_topics(timeout=60).topics
