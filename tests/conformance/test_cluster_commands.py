"""Commands for several brokers, beside Apache Kafka's own tools on the same cluster of three members."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.records.crc32c import crc32c
from tests.conformance.test_cluster_guide import PlainController, WatchedMember, member, run
from tests.integration.membership.kafka_nodes import QUIET
from tests.integration.membership.replica_verification import differences_by_kafka, differences_by_us
from tests.support.brokers import CLUSTER_ID, HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.wire import WireClient

#: of a batch; it covers what is behind it
_CHECKSUM = slice(17, 21)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[WatchedMember]]:
    with ExitStack() as stack:
        controller = stack.enter_context(PlainController(tmp_path_factory.mktemp("controller")))
        yield [
            stack.enter_context(member(tmp_path_factory.mktemp("broker"), node_id, controller.port))
            for node_id in (1, 2, 3)
        ]


def tool(brokers: Sequence[RunningBroker], main: str, *arguments: str) -> str:
    """Run a tool of Apache Kafka; return its output."""
    words = ["--bootstrap-server", ",".join(each.bootstrap for each in brokers), *arguments]
    done = subprocess.run(
        java_command(f"org.apache.kafka.tools.{main}", words, [kafka_classpath()], options=QUICK),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plan(path: Path, topic: str, *replicas: list[int]) -> Path:
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def replicas_of(brokers: list[WatchedMember], topic: str) -> list[str]:
    return [line.split()[2] for line in run(f"pybroker topics describe {topic}", brokers).splitlines()[2:]]


def test_replicas_move_with_a_throttle(brokers: list[WatchedMember], tmp_path: Path) -> None:
    """Both tools see the same states, and our command removes the throttle that it has set."""
    run("pybroker topics create moved --replica-assignment 1:2,2:1 --config min.insync.replicas=1", brokers)
    file = plan(tmp_path / "plan.json", "moved", [3, 2], [2, 3])
    reassignment = "reassign.ReassignPartitionsCommand"
    before = tool(brokers, reassignment, "--reassignment-json-file", str(file), "--verify", "--preserve-throttles")
    assert run(f"pybroker reassign verify {file} --preserve-throttles", brokers) == before.rstrip() + "\n"
    assert "There is no active reassignment of partition moved-0, but replica set is 1,2 rather than 3,2." in before

    started = run(f"pybroker reassign execute {file} --throttle 100000000", brokers)
    assert '{"topic":"moved","partition":0,"replicas":[1,2],"log_dirs":["/' in started
    assert "Successfully started partition reassignments for moved-0,moved-1\n" in started
    eventually(lambda: replicas_of(brokers, "moved"), equal_to=["3,2", "2,3"], timeout_s=60)

    eventually(lambda: run("pybroker reassign list", brokers), equal_to="No partition reassignments found.\n")
    assert "No partition reassignments found." in tool(brokers, reassignment, "--list")
    assert "follower.replication.throttled.replicas" in run("pybroker configs describe --topic moved", brokers)
    ended = run(f"pybroker reassign verify {file}", brokers)
    assert "Reassignment of partition moved-1 is completed.\n" in ended
    assert "Clearing broker-level throttles on brokers 1,2,3\n" in ended
    assert "throttled" not in run("pybroker configs describe --topic moved", brokers)
    again = tool(brokers, reassignment, "--reassignment-json-file", str(file), "--verify")
    assert again.split() == run(f"pybroker reassign verify {file}", brokers).split()


def test_another_number_of_replicas_may_be_refused(brokers: list[WatchedMember], tmp_path: Path) -> None:
    """The controller refuses it for either tool (KIP-860); a move of the same number begins."""
    run("pybroker topics create kept --replica-assignment 1:2 --config min.insync.replicas=1", brokers)
    more, same = plan(tmp_path / "more.json", "kept", [1, 2, 3]), plan(tmp_path / "same.json", "kept", [1, 3])
    option, reason = "--disallow-replication-factor-change", "kept-0: The replication factor is changed from 2 to 3"
    with pytest.raises(AssertionError, match=reason):
        run(f"pybroker reassign execute {more} {option}", brokers)
    words = ["--execute", option, "--reassignment-json-file"]
    with pytest.raises(AssertionError, match=reason):
        tool(brokers, "reassign.ReassignPartitionsCommand", *words, str(more))
    assert replicas_of(brokers, "kept") == ["1,2"]
    run(f"pybroker reassign execute {same} {option}", brokers)
    eventually(lambda: replicas_of(brokers, "kept"), equal_to=["1,3"], timeout_s=60)
    run(f"pybroker reassign execute {more}", brokers)
    eventually(lambda: replicas_of(brokers, "kept"), equal_to=["1,2,3"], timeout_s=60)


def begin_move(broker: WatchedMember, topic: str, replicas: list[int]) -> None:
    """Move partition 0, without the check of both tools that the brokers serve."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    with WireClient(HOST, broker.port) as client:
        topics = [ReassignableTopic(name=topic, partitions=[partition])]
        answer = client.call(ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=30_000, topics=topics)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def test_a_move_to_a_stopped_broker_is_cancelled(brokers: list[WatchedMember], tmp_path: Path) -> None:
    """The move cannot end while the broker is away. Both tools cancel it."""
    run("pybroker topics create stuck --replica-assignment 1:2 --config min.insync.replicas=1", brokers)
    file = plan(tmp_path / "plan.json", "stuck", [1, 3])
    brokers[2].stop()
    left = brokers[:2]
    try:
        with pytest.raises(AssertionError, match="Unknown broker id 3"):
            run(f"pybroker reassign execute {file}", left)
        cancelled = []
        for cancel in (
            lambda: run(f"pybroker reassign cancel {file} --preserve-throttles", left),
            lambda: tool(
                left,
                "reassign.ReassignPartitionsCommand",
                *("--cancel", "--preserve-throttles", "--reassignment-json-file", str(file)),
            ),
        ):
            begin_move(left[0], "stuck", [1, 3])
            (moving,) = run("pybroker reassign list --json", left).splitlines()
            assert json.loads(moving)["adding"] == [3]
            cancelled.append(cancel())
            assert run("pybroker reassign list", left) == "No partition reassignments found.\n"
            eventually(lambda: replicas_of(left, "stuck"), equal_to=["1,2"])
        assert cancelled[0] == "Successfully cancelled partition reassignment for: stuck-0\n"
        assert cancelled[1].startswith(cancelled[0])  # Kafka's tool adds a line about moves between directories
    finally:
        brokers[2].start()
    assert run(f"pybroker reassign cancel {file} --preserve-throttles", brokers) == (
        "None of the specified partition reassignments are active.\n"
    )


def test_preferred_replicas_lead_again(brokers: list[WatchedMember]) -> None:
    run("pybroker topics create led --replica-assignment 3:1 --config min.insync.replicas=1", brokers)
    brokers[2].stop()
    leader = "pybroker topics describe led --json"
    eventually(lambda: json.loads(run(leader, brokers[:2]))["partitions"][0]["leader"], equal_to=1, timeout_s=60)
    brokers[2].start()
    eventually(lambda: json.loads(run(leader, brokers))["partitions"][0]["isr"].__len__(), equal_to=2, timeout_s=60)
    assert "elected" in run("pybroker elect-leaders --topic led --partition 0", brokers)
    eventually(lambda: json.loads(run(leader, brokers))["partitions"][0]["leader"], equal_to=3)
    assert "leads already" in run("pybroker elect-leaders --topic led", brokers)
    shown = tool(brokers, "LeaderElectionCommand", "--election-type", "PREFERRED", "--topic", "led", "--partition", "0")
    assert "Valid replica already elected for partitions led-0" in shown


def test_quorum_is_that_of_kafkas_tool(brokers: list[WatchedMember]) -> None:
    status = json.loads(run("pybroker cluster quorum --json", brokers))
    shown = tool(brokers, "MetadataQuorumCommand", "describe", "--status")
    values = dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)
    assert status["cluster_id"] == CLUSTER_ID == values["ClusterId"].strip()
    assert status["leader_id"] == int(values["LeaderId"]) == 100
    assert status["leader_epoch"] == int(values["LeaderEpoch"])
    assert (status["voters"], status["observers"]) == ([100], [1, 2, 3])
    rows = [json.loads(line) for line in run("pybroker cluster quorum --replication --json", brokers).splitlines()]
    assert [(each["node"], each["role"]) for each in rows] == [
        (100, "leader"),
        (1, "observer"),
        (2, "observer"),
        (3, "observer"),
    ]


def test_feature_levels_are_those_of_the_tool(brokers: list[WatchedMember]) -> None:
    """A downgrade needs its option, as `downgrade` of kafka-features."""
    run("pybroker cluster update-features --feature group.version=0 --allow-downgrade", brokers)
    features = [json.loads(line) for line in run("pybroker cluster features --json", brokers).splitlines()]
    shown = tool(brokers, "FeatureCommand", "describe")
    assert [
        [each["feature"], str(each["supported_min"]), str(each["supported_max"]), str(each["level"])]
        for each in features
        if each["feature"] != "metadata.version"  # the tool shows the release's name instead of the level
    ] == [
        [words[1], words[3], words[5], words[7]]
        for words in map(str.split, shown.splitlines())
        if words[1] != "metadata.version"
    ]
    assert {each["feature"]: each["level"] for each in features}["group.version"] == 0
    run("pybroker cluster update-features --feature group.version=1", brokers)


def test_replicas_that_differ_are_found(brokers: list[WatchedMember]) -> None:
    """Both tools report the same checksums, of a batch of which a follower has another one."""
    run("pybroker topics create differing --replica-assignment 1:2 --config min.insync.replicas=1", brokers)
    producer = Producer({**QUIET, "bootstrap.servers": brokers[0].bootstrap, "acks": "all"})
    producer.produce("differing", b"one")
    assert producer.flush(60) == 0
    bootstrap = ",".join(each.bootstrap for each in brokers)
    assert differences_by_us(bootstrap) == []
    assert brokers[1].stop() == 0
    (log,) = brokers[1].log_dir.glob("differing-0/*.log")
    batch = bytearray(log.read_bytes())
    batch[-2] ^= 1  # of the value; the last byte is the number of headers
    batch[_CHECKSUM] = crc32c(batch[_CHECKSUM.stop :]).to_bytes(4, "big")
    log.write_bytes(batch)
    brokers[1].start()
    eventually(lambda: "1,2" in replicas_in_sync(brokers, "differing"))
    found = differences_by_us(bootstrap)
    assert [line.partition("; ")[0] for line in found] == ["partition differing-0 has unmatched checksum at offset 0"]
    assert found == differences_by_kafka(bootstrap)
    run("pybroker topics delete differing", brokers)


def replicas_in_sync(brokers: list[WatchedMember], topic: str) -> list[str]:
    """Return the ISR of each partition, in the order of ids."""
    described = json.loads(run(f"pybroker topics describe {topic} --json", brokers).splitlines()[0])
    return [",".join(map(str, sorted(each["isr"]))) for each in described["partitions"]]
