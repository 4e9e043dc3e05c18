"""num.workers=2: two processes with their own partitions, which clients see as two brokers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.process.placement import worker_of
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.produce import PRODUCE
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import Refused, batch
from tests.support.eventually import eventually
from tests.support.several_workers import WorkersBroker, until
from tests.support.txn_client import TxnClient


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WorkersBroker]:
    started = WorkersBroker(tmp_path)
    yield started
    started.stop()


def write(broker: WorkersBroker, topic: str, partition: int, *values: bytes) -> int:
    return broker.at(topic, partition).produce(topic, batch(*values), partition)


def values(broker: WorkersBroker, topic: str, partitions: int) -> list[list[bytes]]:
    return [broker.at(topic, index).values(topic, index) for index in range(partitions)]


def test_clients_see_two_brokers_and_find_leaders(broker: WorkersBroker) -> None:
    """Both return the same metadata. Requests to the other worker get NOT_LEADER_OR_FOLLOWER."""
    broker.client().create_topic("t", 4)

    for worker in (0, 1):
        answer = broker.client(worker).call(DESCRIBE_CLUSTER, 1)
        assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, broker.port), (2, broker.port + 1)]
        assert answer.controller_id == 1
        leaders = broker.leaders("t", worker)
        assert sorted(leaders) == [1, 1, 2, 2]
    for index, leader in enumerate(leaders):
        with pytest.raises(Refused) as refused:
            broker.client(2 - leader).produce("t", batch(b"lost"), index)
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(Refused) as refused:
            broker.client(2 - leader).fetch("t", 0, index)
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(Refused) as refused:
            broker.client(2 - leader).bounds("t", index)
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.client(leader - 1).produce("t", batch(b"%d" % index), index) == 0
    assert values(broker, "t", 4) == [[b"0"], [b"1"], [b"2"], [b"3"]]


def test_changes_reach_all_workers_before_the_response(broker: WorkersBroker) -> None:
    """Topics, topic configs and cluster defaults, changed through either worker."""
    for worker in (0, 1):
        asked, other = broker.client(worker), broker.client(1 - worker)
        asked.create_topic("made", 4)
        assert other.topics()["made"] == 4
        for index in range(4):
            write(broker, "made", index, b"v")
        asked.set_topic_config("made", "max.message.bytes", "100")
        for index in range(4):
            with pytest.raises(Refused) as refused:
                write(broker, "made", index, b"v" * 1000)
            assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        asked.delete_topic("made")
        for index in range(4):
            with pytest.raises(Refused) as refused:
                write(broker, "made", index, b"v")
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "made" not in other.topics()
    broker.client().create_topic("t", 2)
    broker.client().set_cluster_config("message.max.bytes", "100")
    for index in (0, 1):
        with pytest.raises(Refused):
            write(broker, "t", index, b"v" * 1000)


def test_metadata_at_a_worker_creates_a_topic(broker: WorkersBroker) -> None:
    """Automatic creation goes to the main process."""
    topics = [MetadataRequestTopic(name="used")]
    until_made = time.monotonic() + 60
    while broker.client(1).call(METADATA, 9, topics=topics).topics[0].error_code:
        assert time.monotonic() < until_made
    assert "used" in broker.client().topics()


def test_coordinators_are_at_the_main_process(broker: WorkersBroker) -> None:
    """The other worker returns its address, answers NOT_COORDINATOR, and lists no groups."""
    broker.client().commit("g", {})
    found = broker.client(1).call(FIND_COORDINATOR, 3, key="g")
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 1, broker.port)
    answer = broker.client(1).call(HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m")
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert broker.client(1).call(LIST_GROUPS, 3).groups == []
    assert broker.client(1).new_producer_id() != broker.client().new_producer_id()


def test_each_worker_knows_clients_of_other_workers(broker: WorkersBroker) -> None:
    """KIP-1242: a client that wants one worker and reaches the other has to look up the addresses again."""
    cluster_id = broker.client().call(DESCRIBE_CLUSTER, 1).cluster_id
    software = {"client_software_name": "test", "client_software_version": "1"}
    for worker in (0, 1):
        for node_id in (1, 2):
            wanted = {"cluster_id": cluster_id, "node_id": node_id}
            answer = broker.client(worker).call(API_VERSIONS, 5, **software, **wanted)
            is_meant = node_id == worker + 1
            assert answer.error_code == (ErrorCode.NONE if is_meant else ErrorCode.REBOOTSTRAP_REQUIRED)
            assert bool(answer.api_keys) == is_meant


def test_worker_describes_itself(broker: WorkersBroker) -> None:
    """Its configs under its own id, and its own partitions."""
    broker.client().create_topic("t", 2)
    for worker in (0, 1):
        resource = DescribeConfigsResource(
            resource_type=4, resource_name=str(worker + 1), configuration_keys=["num.workers"]
        )
        [result] = broker.client(worker).call(DESCRIBE_CONFIGS, 4, resources=[resource]).results
        assert (result.error_code, [each.value for each in result.configs]) == (ErrorCode.NONE, ["2"])
        [directory] = broker.client(worker).call(DESCRIBE_LOG_DIRS, 4, topics=None).results
        found = [each.partition_index for topic in directory.topics if topic.name == "t" for each in topic.partitions]
        assert found == [index for index in (0, 1) if broker.at("t", index) is broker.client(worker)]


def test_wrong_leader_returns_the_right_one(broker: WorkersBroker) -> None:
    """With its address, so that clients need no Metadata (KIP-951)."""
    topic_id = broker.client().create_topic("t", 2)
    for index, leader in enumerate(broker.leaders("t")):
        other = broker.client(2 - leader)
        produced = other.call(PRODUCE, 10, **other.produce_request("t", index, batch(b"v")))
        partition = FetchPartition(partition=index, partition_max_bytes=1 << 20)
        fetched = other.call(FETCH, 16, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])
        for answer, found in (
            (produced, produced.responses[0].partition_responses[0]),
            (fetched, fetched.responses[0].partitions[0]),
        ):
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (leader, 0)
            [node] = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (leader, HOST, broker.port + leader - 1)


def test_logger_levels_apply_to_all_workers(broker: WorkersBroker) -> None:
    """Set through any worker's id. A restarted worker gets them too."""

    def logs_connections(worker: int) -> bool:
        port = broker.port + worker
        before = len(broker.output)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            with TxnClient(HOST, port):
                pass
            lines = broker.output[before:].splitlines()
            if any("DEBUG broker.network" in line and ("[worker 1]" in line) == bool(worker) for line in lines):
                return True
        return False

    assert not logs_connections(1)
    level = AlterableConfig(name="broker.network", config_operation=0, value="DEBUG")
    resource = AlterConfigsResource(resource_type=8, resource_name="2", configs=[level])
    answer = broker.client(1).call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert logs_connections(0)
    assert logs_connections(1)
    [process_id] = broker.worker_ids()
    os.kill(process_id, signal.SIGKILL)
    broker.forget_clients()
    until(lambda: broker.client(1).topics())
    assert logs_connections(1)


@pytest.mark.parametrize("version", [11, 12])
def test_transaction_spans_both_workers(broker: WorkersBroker, version: int) -> None:
    """Partitions join explicitly or with their first batch. All get their markers."""
    owner, count = broker.client(), 4
    owner.create_topic("t", count)
    owner.wait_for_coordinator("x")
    broker.client(1).share_names(owner)
    taking_part = range(count if version >= 12 else count - 1)
    for number, commit in enumerate((True, False)):
        producer = "P0", int(owner.init_with_retries("x").split()[2])
        if version < 12:
            owner.add("x", producer, *(("t", index) for index in taking_part))
            refused = broker.at("t", count - 1).write("x", producer, ("t", count - 1), 0, version=version)
            assert refused.startswith("TRANSACTION_ABORTABLE")
        for index in taking_part:
            written = broker.at("t", index).write("x", producer, ("t", index), 0, b"%d" % number, version=version)
            assert written == f"NONE {2 * number}"
        assert owner.end("x", producer, commit, version=5 if version >= 12 else 4).startswith("NONE")
        assert owner.settled("x").startswith("CompleteCommit" if commit else "CompleteAbort")
    for index in taking_part:
        client = broker.at("t", index)
        assert client.committed_values("t", index) == [b"0"]
        assert client.latest("t", index, committed=True) == client.latest("t", index, committed=False) == 4


def test_transaction_ends_despite_a_dead_worker(broker: WorkersBroker) -> None:
    """The marker is written once the worker is back."""
    owner = broker.client()
    owner.create_topic("t", 2)
    owner.wait_for_coordinator("x")
    broker.client(1).share_names(owner)
    producer = "P0", int(owner.init_with_retries("x").split()[2])
    for index in (0, 1):
        assert broker.at("t", index).write("x", producer, ("t", index), 0, version=12) == "NONE 0"
    [process_id] = broker.worker_ids()
    os.kill(process_id, signal.SIGKILL)
    assert owner.end("x", producer, True, version=5).startswith("NONE")
    assert owner.settled("x").startswith("CompleteCommit")
    broker.forget_clients()
    for index in (0, 1):
        assert until(lambda index=index: broker.at("t", index).latest("t", index, committed=True)) == 2  # type: ignore[misc]


def test_dead_worker_is_restarted(broker: WorkersBroker) -> None:
    """Its records are there, its port is the same, and it has changes of the meantime."""
    owner = broker.client()
    owner.create_topic("t", 2)
    for index in (0, 1):
        write(broker, "t", index, b"before")
    [process_id] = broker.worker_ids()

    os.kill(process_id, signal.SIGKILL)
    owner.set_topic_config("t", "max.message.bytes", "100000")
    owner.create_topic("meanwhile", 2)
    own = next(index for index in (0, 1) if broker.at("t", index) is owner)
    owner.produce("t", batch(b"meanwhile"), own)
    broker.forget_clients()

    other = 1 - own
    until(lambda: write(broker, "t", other, b"after"))
    assert values(broker, "t", 2)[other] == [b"before", b"after"]
    assert values(broker, "t", 2)[own] == [b"before", b"meanwhile"]
    with pytest.raises(Refused):
        write(broker, "t", other, b"v" * 200_000)
    assert broker.worker_ids() not in ([process_id], [])
    for index in (0, 1):
        write(broker, "meanwhile", index, b"new")
    assert values(broker, "meanwhile", 2) == [[b"new"], [b"new"]]


def test_death_of_the_main_process_ends_the_workers(tmp_path: Path) -> None:
    """Acknowledged records are there after the next start, with any number of workers."""
    broker = WorkersBroker(tmp_path)
    broker.client().create_topic("t", 6)
    for index in range(6):
        write(broker, "t", index, b"v%d" % index)
    [process_id] = broker.worker_ids()
    broker.kill()
    eventually(lambda: not Path(f"/proc/{process_id}").exists())

    for count in (3, 1, 2):
        again = WorkersBroker(tmp_path, count)
        assert len(again.worker_ids()) == count - 1
        assert values(again, "t", 6) == [[b"v%d" % index] for index in range(6)]
        assert again.stop() == 0
        assert (tmp_path / "logs/.kafka_cleanshutdown").exists()


def test_workers_open_logs_while_serving_clients(tmp_path: Path) -> None:
    """After a clean stop. A log that was changed since then is repaired."""
    broker = WorkersBroker(tmp_path)
    broker.client().create_topic("t", 6)
    for index in range(6):
        write(broker, "t", index, b"v%d" % index)
    assert broker.stop() == 0
    damaged = next(index for index in range(6) if worker_of("t", index, 2) == 1)
    path = broker.log_dir / f"t-{damaged}/{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    before = len(broker.output)
    broker.start()
    assert until(lambda: write(broker, "t", damaged, b"new")) == 1
    expected = [[b"new" if index == damaged else b"v%d" % index] for index in range(6)]
    assert until(lambda: values(broker, "t", 6)) == expected
    eventually(lambda: broker.output[before:].count("All logs are open") >= 2)
    opened = [line for line in broker.output[before:].splitlines() if "All logs are open" in line]
    assert len([line for line in opened if "[worker 1]" in line]) == 1
    assert "[worker 1]" in next(line for line in broker.output.splitlines() if "were cut off" in line)
    assert broker.stop() == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_one_worker_has_no_child_process(tmp_path: Path) -> None:
    broker = OurBroker(tmp_path)
    assert Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text() == ""
    assert broker.stop() == 0
