"""Share groups (KIP-932): frame by frame as Apache Kafka, with its share consumer and its tools."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.pairs import Pair
from tests.support.scale import scaled
from tests.support.settled import settled, wait_for_changes, wait_for_topic
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of
from tests.support.share_requests import alter, describe
from tests.support.tools import normalised
from tests.support.txn_client import TxnClient


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), SHARE_PROPERTIES)
    yield made
    made.close()


def same(pair: Pair, play: Callable[[RunningBroker], list[str]]) -> None:
    """Run the same play against both brokers, which must give the same lines."""
    ours, kafka = pair.each(play)
    for number, (one, other) in enumerate(zip(ours, kafka, strict=True)):
        assert one == other, f"step {number}"


def read_when(broker: RunningBroker, client: ShareClient, text: str) -> str:
    """Return the state once it contains the text: Kafka writes released records after it has answered."""

    def read() -> str:
        state = client.read()
        assert text in state
        return state

    return settled(broker, read)


def acquired(client: ShareClient) -> list[tuple[int, int, int]]:
    """Return the records of the first fetch that has some: in Kafka a release does not wake a waiting fetch."""
    given = client.acquire(wait_ms=500)
    assert given
    return given


def values(count: int) -> list[bytes]:
    return [b"v%d" % number for number in range(count)]


def test_records_are_acquired_and_acknowledged_as_in_kafka(pair: Pair, name: str) -> None:
    """Sessions, all types of acknowledgements, valid and invalid, and the resulting state at the share coordinator."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            for value in values(5):
                client.produce(name, batch(value))
            client.produce(name, batch(*values(10)))
            client.join(name)
            lines = [
                client.share_fetch(epoch=1),
                client.share_fetch(epoch=-1),
                client.share_fetch((0, 1, [1]), epoch=0),
                client.share_fetch(renew=True),
                client.share_fetch(mode=5),
                client.share_fetch(most=0),
                client.acknowledge((0, 0, [1]), epoch=0),
                client.share_fetch(epoch=0),
                client.share_fetch(),
                client.share_fetch(epoch=1),
                client.read(),
                client.summarize(),
                client.share_fetch((0, 1, [1]), (2, 2, [2]), (3, 3, [3])),
                client.read(),
                client.summarize(),
                client.share_fetch((5, 14, [1, 1, 0, 1, 1, 1, 1, 2, 2, 3])),
                client.read(),
                client.summarize(),
                client.share_fetch((0, 1, [1])),
                client.share_fetch((100, 101, [1])),
                client.share_fetch((5, 4, [1])),
                client.share_fetch((4, 4, [1, 1])),
                client.share_fetch((4, 4, [7])),
                client.share_fetch((4, 4, [])),
                client.share_fetch((4, 4, [4])),
                client.share_fetch((4, 4, [4]), renew=True),
                client.share_fetch((4, 4, [4]), renew=True, wait_ms=0, min_bytes=0, max_bytes=0, most=0),
                client.acknowledge((4, 4, [4])),
                client.acknowledge((4, 4, [4]), renew=True),
                client.acknowledge((7, 7, [1])),
                client.acknowledge((4, 6, [1])),
                client.acknowledge((3, 3, [1]), (2, 2, [1])),
                client.acknowledge((13, 20, [1])),
                client.acknowledge((4, 4, [1]), renew=True),
                client.share_fetch(epoch=-1),
                client.share_fetch(epoch=40),
                read_when(broker, client, "(2, 2, 0, 2)"),
                client.summarize(),
                client.share_fetch(epoch=0),
                client.acknowledge(epoch=-1),
                read_when(broker, client, "(2, 2, 0, 3)"),
            ]
            return [*lines, str(client.beat(-1).error_code)]

    same(pair, play)


def test_fetches_are_limited_as_in_kafka(pair: Pair, name: str) -> None:
    """max.records, batch.size, both acquire modes; repeatedly failing records come in ever smaller portions."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            for _ in range(6):
                client.produce(name, batch(*values(10)))
            client.join(name)
            lines = [
                client.share_fetch(most=1, size=3),
                client.share_fetch(most=15, size=3),
                client.share_fetch(most=100, size=15),
            ]
            lines.append(client.acknowledge((0, 11, [2]), (12, 12, [3]), (13, 34, [2]), (35, 35, [1]), (36, 59, [2])))
            lines += [client.read(), client.share_fetch(most=7), client.share_fetch(most=7, mode=1)]
            lines += [client.share_fetch(most=100, size=4, mode=1), client.share_fetch(wait_ms=0)]
            lines.append(client.acknowledge((0, 11, [2]), (13, 34, [2]), (36, 59, [2])))
            for _ in range(5):
                given = client.acquire()
                lines += [str(given), client.acknowledge(*[(first, last, [2]) for first, last, _ in given])]
            return [*lines, client.read()]

    same(pair, play)


def test_limits_of_failing_records_include_earlier_ones(pair: Pair, name: str) -> None:
    """A batch with such records begins an answer. Groups without renewals report the records' owner."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            client.configure(share_renew_acknowledge_enable="false")
            wait_for_changes(broker)
            for size in (10, 10, 5):
                client.produce(name, batch(*values(size)))
            client.join(name)
            lines = [client.share_fetch(epoch=0, most=0), str(client.acquire(most=10, size=1))]
            lines += [str(client.acquire(most=4, mode=1)), str(client.acquire(most=6, mode=1))]
            for _ in range(2):
                lines += [client.acknowledge((14, 19, [2])), str(client.acquire(most=6, mode=1))]
            lines += [client.acknowledge((14, 19, [2])), client.acknowledge((0, 13, [2]))]
            lines += [str(client.acquire()) for _ in range(4)]
            renewed = [(0, 0, [4]), (0, 1, [1, 4]), (30, 30, [4])]
            return [*lines, *[client.acknowledge(each, renew=True) for each in renewed]]

    same(pair, play)


def test_two_members_never_have_the_same_record(pair: Pair, name: str) -> None:
    """A member cannot acknowledge the other's records. When it disconnects, the other gets its records."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as one, ShareClient(HOST, broker.port, timeout_s=180) as two:
            for _ in range(2):
                one.produce(name, batch(*values(10)))
            one.join(name)
            two.group, two.topic_id, two.member = name, one.topic_id, "other"
            lines = [
                one.share_fetch(most=10, size=10),
                two.share_fetch(),
                two.acknowledge((0, 9, [1])),
                two.acknowledge((3, 4, [1])),
            ]
            lines += [one.acknowledge((10, 19, [1])), two.acknowledge((10, 12, [2])), one.share_fetch()]
            one.close()
            lines.append(str(sorted(settled(broker, lambda: acquired(two)))))
            return [*lines, two.read()]

    same(pair, play)


def test_an_expired_lock_releases_its_records(pair: Pair, name: str) -> None:
    """With a higher delivery count; without acknowledged records."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            client.configure(share_record_lock_duration_ms="1000", share_delivery_count_limit="2")
            wait_for_changes(broker)
            client.produce(name, batch(*values(3)))
            client.join(name)
            given = [client.acquire()]
            while len(given) < 4 and (again := client.acquire(wait_ms=3_000)):
                given.append(again)
            return [str(given[0]), str(given[1][0][2]), client.read().rpartition(" [")[0]]

    same(pair, play)


def test_a_group_may_read_only_committed_records(pair: Pair, name: str) -> None:
    """share.isolation.level: up to the last stable offset, without aborted transactions."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client, TxnClient(HOST, broker.port) as producer:
            client.configure(share_isolation_level="read_committed")
            wait_for_changes(broker)
            producer.wait_for_coordinator(name)
            assert producer.init_with_retries(name) == "NONE P0 0"
            client.join(name)
            sequence = 0
            for commit in (True, False, True):
                producer.write(name, ("P0", sequence), (name, 0), 0, b"a", b"b", version=12)
                answer = producer.end(name, ("P0", sequence), commit, 5)
                sequence = int(answer.split()[-1])
                producer.settled(name)
            lines = [str(client.acquire())]
            producer.write(name, ("P0", sequence), (name, 0), 0, b"open", version=12)
            lines.append(str(client.acquire()))
            producer.end(name, ("P0", sequence), True, 5)
            lines.append(str(client.acquire(wait_ms=60_000)))
            return lines

    same(pair, play)


def test_state_apis_as_in_kafka(pair: Pair, name: str) -> None:
    """InitializeShareGroupState and its siblings: epochs fence, batches combine."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            return [
                settled(broker, lambda: _not_loading(client.write(1, 0, 0))),
                client.read(),
                client.summarize(),
                client.initialize(1, -1, 9),
                client.initialize(1, -1, -1),
                client.initialize(5, -1),
                client.read(),
                client.initialize(4, -1),
                client.initialize(6, 7),
                client.read(),
                client.write(5, 0, 0),
                client.write(7, 3, 8),
                client.read(leader_epoch=2),
                client.read(leader_epoch=4),
                client.read(leader_epoch=3),
                client.write(7, 3, 8),
                client.summarize(),
                client.write(7, 4, 8, (8, 10, 2, 1), (11, 20, 0, 2), done=3),
                client.write(7, 4, 8, (9, 9, 0, 1), (12, 14, 2, 1), (30, 40, 4, 1), done=5),
                client.read(leader_epoch=4),
                client.write(7, 4, 8, (15, 16, 0, 1), (15, 16, 0, 3), done=5),
                client.read(leader_epoch=4),
                client.write(7, 4, 13),
                client.read(leader_epoch=4),
                client.summarize(),
                client.write(7, 4, -1, (16, 16, 4, 1), done=0),
                # earlier releases do not refuse negative epochs
                *([client.write(7, -1, 2, (3, 4, 2, 1)), client.read(leader_epoch=-1)] if KAFKA_LINE >= (4, 4) else []),
            ]

    same(pair, play)


def _not_loading(code: str) -> str:
    assert code not in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
    return code


# -- tools -------------------------------------------------------------------------------------------------------------

GROUP = "--group g --topic"
TOOL_STEPS = [
    "--list",
    "--list --state",
    "--list --state Stable",
    "--describe --group g",
    "--describe --group g --offsets --verbose",
    "--describe --group g --members",
    "--describe --group g --members --verbose",
    "--describe --group g --state --verbose",
    "--describe --all-groups",
    "--describe --group unheard",
    f"--reset-offsets {GROUP} tools --to-earliest --dry-run",
    f"--reset-offsets {GROUP} tools:1 --to-earliest --execute",
    "--describe --group g",
    f"--reset-offsets {GROUP} tools --to-latest --execute",
    f"--reset-offsets {GROUP} unheard --to-latest --execute",
    "--describe --group g",
    f"--delete-offsets {GROUP} unheard",
    f"--delete-offsets {GROUP} tools",
    "--describe --group g",
    "--delete --group unheard",
    "--delete --group g",
    "--list",
]
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


def test_offsets_of_topics_named_twice(pair: Pair, name: str) -> None:
    """They get one answer; a topic without partitions is answered if it exists."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name, partitions=3) as client:
            client.join(name)
            assert not client.beat(-1).error_code
            return [
                alter(client, (name, {0: 0}), (name, {1: 0})),
                alter(client, (name, {}), ("unheard", {})),
                describe(client, (name, [1, 1]), ("unheard", [0]), (name, [0, 2, 1])),
            ]

    same(pair, play)


def test_tools_print_the_same(pair: Pair, java: JavaRunner) -> None:
    """kafka-console-share-consumer, then kafka-share-groups step by step."""

    def run(broker: RunningBroker) -> list[str]:
        with DataClient(HOST, broker.port) as client:
            client.create_topic("tools", 2)
            wait_for_topic(broker, "tools", 2)
            for partition in range(2):
                client.produce("tools", batch(*values(3)), partition)
        with ShareClient(HOST, broker.port) as member:
            member.group = "g"
            member.wait_for_group()
            member.configure(share_auto_offset_reset="earliest")
            wait_for_changes(broker)
        at = ("--bootstrap-server", broker.bootstrap)
        read = java.run(
            SHARE_CONSUMER, *at, "--topic", "tools", "--group", "g", "--max-messages", "6", "--timeout-ms", "90000"
        )
        lines = [str(sorted(read.stdout.split())), read.stderr]
        for step in TOOL_STEPS:
            done = java.run(SHARE_GROUPS, *at, *shlex.split(step))
            text = normalised(pair.plain(broker, done.stdout + done.stderr))
            if KAFKA_LINE < (4, 4):  # the assignment epoch of a group without members is that of the group since 4.4
                text = re.sub(r"(Empty \d+) \d+", r"\1", text)
            lines.append(f"{step}\n{_in_order(text)}")
        return lines

    ours, kafka = pair.each(run)
    for one, other in zip(ours, kafka, strict=True):
        assert one == other


def _in_order(text: str) -> str:
    """Sort rows: the tool prints them in the order of its hash tables."""
    return "\n".join(sorted(re.sub(r"\s+", " ", line).strip() for line in text.splitlines()))


# -- Java's share consumer ---------------------------------------------------------------------------------------------


def prepared(broker: RunningBroker, name: str, count: int) -> None:
    """Create a topic of two partitions with records, and a group that begins at the first of them."""
    with member_of(broker, name, partitions=2) as client:
        for partition in range(2):
            client.produce(name, batch(*[b"%d-%d" % (partition, number) for number in range(count)]), partition)


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_java_members_share_all_records(pair: Pair, java: JavaRunner, name: str, kind: str) -> None:
    """Each record goes to one member; together they see all, once each."""
    broker = pair.ours if kind == "ours" else pair.kafka
    count = scaled(200)
    prepared(broker, name, count)
    programs = [java.start("ShareConsume", broker.bootstrap, name, name, "0", "accept") for _ in range(2)]

    def seen() -> Counter[str]:
        return Counter(line for program in programs for line in program.stdout.split() if ":" in line)

    eventually(lambda: len(seen()) >= 2 * count, lambda: [program.stderr for program in programs], timeout_s=240)
    for program in programs:
        program.stop()
    wanted = {f"{partition}:{number}:{partition}-{number}:1" for partition in range(2) for number in range(count)}
    assert seen() == Counter(wanted)


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_java_member_releases_until_nothing_is_left(pair: Pair, java: JavaRunner, name: str, kind: str) -> None:
    """Each time with a higher count, and no longer after share.delivery.count.limit (5)."""
    broker = pair.ours if kind == "ours" else pair.kafka
    prepared(broker, name, 2)
    program = java.run("ShareConsume", broker.bootstrap, name, name, "20", "release", timeout_s=300)
    seen = sorted(line for line in program.stdout.split() if ":" in line)
    assert seen == sorted(f"{p}:{o}:{p}-{o}:{n}" for p in range(2) for o in range(2) for n in range(1, 6))
    with DataClient(HOST, broker.port) as client:
        client.produce(name, batch(b"last"), 0)
    program = java.run("ShareConsume", broker.bootstrap, name, name, "1", "accept", timeout_s=180)
    assert "0:2:last:1" in program.stdout.split()
