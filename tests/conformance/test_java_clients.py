"""Java programs of ours that do what handbooks show: send with a callback, partitioners, interceptors, commits."""

from __future__ import annotations

import re

import pytest

from tests.support.brokers import RunningBroker
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.support.settled import wait_for_changes, wait_for_topic
from tests.support.tools import start_tool

COUNT = scaled(100)


@pytest.fixture
def topic(reference: RunningBroker, java: JavaRunner, name: str) -> str:
    """A topic of three partitions."""
    start_tool(java, reference.bootstrap, "kafka-topics", "--create", "--topic", name, "--partitions", "3").wait()
    wait_for_topic(reference, name, 3)
    return name


def send(
    java: JavaRunner, broker: RunningBroker, topic: str, *properties: str, count: int = COUNT, keys: int = 0
) -> list[str]:
    """Send; return the lines that the callbacks (and an interceptor) printed."""
    return java.run("SendWithCallback", broker.bootstrap, topic, str(count), str(keys), *properties).stdout.splitlines()


def consume(
    java: JavaRunner, broker: RunningBroker, topic: str, group: str, count: int, commit: str, *properties: str
) -> list[tuple[int, int, str, str]]:
    """Consume as a member of a group; return (partition, offset, key, value) of each record."""
    arguments = [broker.bootstrap, topic, group, str(count), commit, "auto.offset.reset=earliest", *properties]
    lines = java.run("Consume", *arguments).stdout.splitlines()
    return [(int(p), int(o), key, value) for p, o, key, value in (line.split(":", 3) for line in lines)]


def committed(java: JavaRunner, broker: RunningBroker, group: str) -> dict[int, int]:
    """Return the committed offset of each partition, as kafka-consumer-groups shows it."""
    described = (
        start_tool(java, broker.bootstrap, "kafka-consumer-groups", "--describe", "--group", group).wait().stdout
    )
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    return {int(row[2]): int(row[3]) for row in rows if row[3] != "-"}


def places(lines: list[str]) -> dict[int, list[int]]:
    """Return the offsets that callbacks printed, by partition."""
    found: dict[int, list[int]] = {}
    for line in lines:
        if place := re.fullmatch(r"offset:(\d+);partition:(\d+)", line):
            found.setdefault(int(place[2]), []).append(int(place[1]))
    return found


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_callback_gets_offset_and_partition_of_each_record(
    java: JavaRunner, reference: RunningBroker, topic: str, acks: str
) -> None:
    """S10.10, S29.2: send(record, callback), then flush: offsets count up from 0 in each partition."""
    found = places(send(java, reference, topic, f"acks={acks}", f"enable.idempotence={acks == 'all'}".lower(), keys=10))

    assert sum(map(len, found.values())) == COUNT
    assert all(offsets == list(range(len(offsets))) for offsets in found.values())


def test_an_acks_0_callback_gets_offset_minus_1(java: JavaRunner, reference: RunningBroker, topic: str) -> None:
    """S10.5: without acknowledgements the offset is unknown."""
    lines = send(java, reference, topic, "acks=0", "enable.idempotence=false", count=3)

    assert [line.split(";")[0] for line in lines] == ["offset:-1"] * 3
    assert len(consume(java, reference, topic, topic, 3, "none")) == 3


def test_same_key_lands_in_one_partition(java: JavaRunner, reference: RunningBroker, topic: str) -> None:
    """S10.11: a key's hash chooses its partition, so each key's records are in order."""
    send(java, reference, topic, keys=5)

    records = consume(java, reference, topic, topic, COUNT, "none")
    partitions = {key: {partition for partition, _, other, _ in records if other == key} for key in "01234"}
    values = {key: [int(v.split("-")[1]) for _, _, other, v in records if other == key] for key in "01234"}

    assert all(len(where) == 1 for where in partitions.values())
    assert all(order == sorted(order) for order in values.values())


def test_custom_partitioner_decides(java: JavaRunner, reference: RunningBroker, topic: str) -> None:
    """S10.12, S10.14, S29.10: partitioner.class chooses the partition of each record."""
    lines = send(java, reference, topic, "partitioner.class=PinnedPartitioner", "pinned.partition=2", keys=5)

    assert places(lines) == {2: list(range(COUNT))}


def test_interceptor_counts_what_the_log_has(java: JavaRunner, reference: RunningBroker, topic: str) -> None:
    """S10.15, S29.11: onSend changes the value; onAcknowledgement is called for each record."""
    lines = send(java, reference, topic, "interceptor.classes=CountingInterceptor", "counting.prefix=seen-")

    assert f"sent:{COUNT};acknowledged:{COUNT};refused:0" in lines
    values = {value for *_, value in consume(java, reference, topic, topic, COUNT, "none")}
    assert values == {f"seen-value-{i}" for i in range(COUNT)}


def test_too_large_record_is_refused_and_producer_goes_on(
    java: JavaRunner, reference: RunningBroker, topic: str
) -> None:
    """S10.16: max.message.bytes of the topic; the callback gets the error, later records are accepted."""
    limit = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "max.message.bytes=200"]
    start_tool(java, reference.bootstrap, "kafka-configs", *limit).wait()
    wait_for_changes(reference)

    prefix = f"counting.prefix={'x' * 300}"
    refused = send(java, reference, topic, "interceptor.classes=CountingInterceptor", prefix, count=3)
    taken = send(java, reference, topic, count=3)

    assert refused == ["RecordTooLargeException"] * 3 + ["sent:3;acknowledged:0;refused:3"]
    assert sum(map(len, places(taken).values())) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("commit", ["sync", "async"])
def test_the_next_member_continues_at_a_manual_commit(
    java: JavaRunner, reference: RunningBroker, topic: str, commit: str, protocol: str
) -> None:
    """S18.6: commitSync and commitAsync; the group resumes there."""
    send(java, reference, topic, keys=10)
    first = consume(java, reference, topic, topic, COUNT, commit, f"group.protocol={protocol}")

    send(java, reference, topic, keys=10)
    second = consume(java, reference, topic, topic, COUNT, commit, f"group.protocol={protocol}")

    assert len(first) == len(second) == COUNT
    assert not {record[:2] for record in first} & {record[:2] for record in second}
    assert sum(committed(java, reference, topic).values()) == 2 * COUNT


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_auto_commit_moves_by_itself(java: JavaRunner, reference: RunningBroker, topic: str, protocol: str) -> None:
    """S18.4, S29.17, S29.18: the committed offset moves while the consumer runs, without a call."""
    send(java, reference, topic, keys=10)
    properties = ["auto.offset.reset=earliest", "auto.commit.interval.ms=100", f"group.protocol={protocol}"]
    member = java.start("Consume", reference.bootstrap, topic, topic, "0", "auto", *properties)
    try:
        while sum(committed(java, reference, topic).values()) < COUNT:
            assert member.exit_code is None, member.stderr
    finally:
        member.stop()
    assert member.stdout.endswith("stopped\n")


def test_without_commit_the_group_starts_again(java: JavaRunner, reference: RunningBroker, topic: str) -> None:
    """S11.5, S29.20: no committed offset: auto.offset.reset decides each time."""
    send(java, reference, topic)

    assert len(consume(java, reference, topic, topic, COUNT, "none")) == COUNT
    assert committed(java, reference, topic) == {}
    assert len(consume(java, reference, topic, topic, COUNT, "none")) == COUNT


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_round_trips(java: JavaRunner, reference: RunningBroker, topic: str, codec: str) -> None:
    """A Java consumer reads what a Java producer compresses."""
    send(java, reference, topic, f"compression.type={codec}", "linger.ms=50", keys=3)

    values = [value for *_, value in consume(java, reference, topic, topic, COUNT, "none")]
    assert sorted(values) == sorted(f"value-{i}" for i in range(COUNT))
