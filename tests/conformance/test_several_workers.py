"""num.workers=2 with Apache Kafka's own share consumer and tools, which find both workers by themselves."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.java import JavaRunner
from tests.support.several_workers import WorkersBroker
from tests.support.share_client import SHARE_PROPERTIES, ShareClient
from tests.support.tools import MAIN_CLASSES

PARTITIONS = 4
RECORDS = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersBroker]:
    directory = tmp_path_factory.mktemp("workers")
    properties = {**SHARE_PROPERTIES, "log.dirs": f"{directory}/logs,{directory}/more"}
    started = WorkersBroker(directory, properties=properties)
    yield started
    assert started.stop() == 0
    assert "Traceback" not in started.output


@pytest.fixture
def topic(broker: WorkersBroker, name: str) -> str:
    """Return a topic with records in partitions of both."""
    broker.client().create_topic(name, PARTITIONS)
    for index in range(PARTITIONS):
        records = batch(*[b"%d-%d" % (index, number) for number in range(RECORDS)])
        broker.at(name, index).produce(name, records, index)
    return name


def printed(java: JavaRunner, broker: WorkersBroker, worker: int, tool: str, *arguments: str) -> list[list[str]]:
    """Return the output of a tool that asks one of the workers first: the words of each line."""
    program = java.run(MAIN_CLASSES[tool], "--bootstrap-server", f"{HOST}:{broker.port + worker}", *arguments)
    assert program.exit_code == 0, program.stdout + program.stderr
    return [line.split() for line in program.stdout.splitlines()]


def test_java_share_consumers_see_each_record_once(broker: WorkersBroker, java: JavaRunner, topic: str) -> None:
    """Two members, each with a session at both workers; the group's lag is that of all partitions."""
    with ShareClient(HOST, broker.port) as client:
        client.group = topic
        client.wait_for_group()
        client.configure(share_auto_offset_reset="earliest")
    programs = [java.start("ShareConsume", broker.bootstrap, topic, topic, "0", "accept") for _ in range(2)]

    def seen() -> Counter[str]:
        return Counter(line for program in programs for line in program.stdout.split() if ":" in line)

    eventually(
        lambda: len(seen()) >= PARTITIONS * RECORDS, lambda: [program.stderr for program in programs], timeout_s=240
    )
    for program in programs:
        program.stop()
    wanted = (f"{index}:{number}:{index}-{number}:1" for index in range(PARTITIONS) for number in range(RECORDS))
    assert seen() == Counter(wanted)
    for worker in (0, 1):
        rows = printed(java, broker, worker, "kafka-share-groups", "--describe", "--offsets", "--group", topic)
        lags = {(row[1], int(row[2])): row[-1] for row in rows if row[:1] == [topic]}
        assert lags == {(topic, index): "0" for index in range(PARTITIONS)}


@pytest.mark.parametrize("worker", [0, 1])
def test_tools_find_the_other_workers_partitions(
    broker: WorkersBroker, java: JavaRunner, topic: str, worker: int, tmp_path: Path
) -> None:
    """From either worker: offsets, deletion of records, a group's lag, log directories."""
    described = printed(java, broker, worker, "kafka-topics", "--describe", "--topic", topic)
    leaders = [int(row[row.index("Leader:") + 1]) for row in described if "Leader:" in row]
    assert leaders == broker.leaders(topic)
    assert printed(java, broker, worker, "kafka-get-offsets", "--topic", topic) == [
        [f"{topic}:{index}:{RECORDS}"] for index in range(PARTITIONS)
    ]
    wanted = tmp_path / "records.json"
    partitions = [{"topic": topic, "partition": index, "offset": index + 1} for index in range(PARTITIONS)]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
    printed(java, broker, worker, "kafka-delete-records", "--offset-json-file", str(wanted))
    assert [broker.at(topic, index).bounds(topic, index)[0] for index in range(PARTITIONS)] == [1, 2, 3, 4]
    broker.client().commit(topic, {(topic, index): 5 for index in range(PARTITIONS)})
    rows = printed(java, broker, worker, "kafka-consumer-groups", "--describe", "--group", topic)
    assert [row[2:6] for row in rows if row[:2] == [topic, topic]] == [
        [str(index), "5", str(RECORDS), str(RECORDS - 5)] for index in range(PARTITIONS)
    ]
    assert len([row for row in printed(java, broker, worker, "kafka-consumer-groups", "--list") if row == [topic]]) == 1


def test_a_cordoned_directory_gets_nothing_new_from_any_worker(
    broker: WorkersBroker, java: JavaRunner, name: str
) -> None:
    """Cordoned while both run (KIP-1066), by their common configuration; topics created then are served as usual."""
    alter = ("kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "1")
    printed(java, broker, 1, *alter, "--add-config", f"cordoned.log.dirs={broker.directory / 'more'}")
    broker.client().create_topic(name, PARTITIONS)
    printed(java, broker, 1, *alter, "--delete-config", "cordoned.log.dirs")
    for index in range(PARTITIONS):
        assert (broker.directory / "logs" / f"{name}-{index}").is_dir()
        assert broker.at(name, index).produce(name, batch(b"v"), index) == 0


@pytest.mark.parametrize("worker", [0, 1])
def test_partitions_of_both_change_their_log_directory(
    broker: WorkersBroker, java: JavaRunner, topic: str, worker: int, tmp_path: Path
) -> None:
    """The worker that has a partition moves it, under the directory id that the tool was shown."""

    def places() -> dict[str, tuple[int, str]]:
        rows = printed(java, broker, worker, "kafka-log-dirs", "--describe", "--topic-list", topic)
        [found] = [json.loads("".join(row)) for row in rows if row[0].startswith("{")]
        return {
            replica["partition"]: (each["broker"], directory["logDir"])
            for each in found["brokers"]
            for directory in each["logDirs"]
            for replica in directory["partitions"]
            if not replica["isFuture"]
        }

    before = places()
    names = [f"{topic}-{index}" for index in range(PARTITIONS)]
    assert [before[each][0] for each in names] == broker.leaders(topic)
    other = {str(broker.directory / "logs"): "more", str(broker.directory / "more"): "logs"}
    after = {each: (before[each][0], str(broker.directory / other[before[each][1]])) for each in names}
    plan = tmp_path / "plan.json"
    partitions = [
        {"topic": topic, "partition": index, "replicas": [after[each][0]], "log_dirs": [after[each][1]]}
        for index, each in enumerate(names)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    printed(java, broker, worker, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    deadline = time.monotonic() + 60
    while places() != after:
        assert time.monotonic() < deadline, broker.output
    for index in range(PARTITIONS):
        assert len(broker.at(topic, index).values(topic, index)) == RECORDS
