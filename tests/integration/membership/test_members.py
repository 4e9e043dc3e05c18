"""A member under a controller of the test: its start, its metadata, forwarded requests, its stop."""

from __future__ import annotations

import select
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from metadata.create_topics import NewTopic
from metadata.framing import new_record
from metadata.image import Endpoint, ResourceType
from metadata.registration import NodeIdentity, register_broker, unfence_broker
from protocol.error_codes import ErrorCode
from protocol.id_text import id_bytes, id_text
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import ConfigRecord
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.describe_quorum import DESCRIBE_QUORUM
from protocol.messages.envelope import ENVELOPE
from protocol.messages.fetch import FETCH
from protocol.messages.fetch_snapshot import FETCH_SNAPSHOT
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from storage.checkpoints import read_meta_properties
from storage.fs import LOCAL
from tests.integration.membership.fake_controller import NODE_ID, FakeController, fake_controller
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with fake_controller(CLUSTER_ID) as controller:
        yield controller


@pytest.fixture
def member(controller: FakeController, tmp_path: Path) -> Iterator[MemberBroker]:
    with MemberBroker(tmp_path, controller.port) as member:
        yield member


@pytest.fixture
def client(member: MemberBroker) -> Iterator[WireClient]:
    with WireClient(HOST, member.port) as client:
        yield client


def topics(client: WireClient, *names: str) -> dict[str, Struct]:
    asked = [MetadataRequestTopic(name=name) for name in names] if names else None
    answer = client.call(METADATA, 12, topics=asked, allow_auto_topic_creation=False)
    return {each.name: each for each in answer.topics if each.error_code == ErrorCode.NONE}


def test_registration_names_addresses_features_and_directories(
    controller: FakeController, member: MemberBroker
) -> None:
    (request,) = controller.named(BROKER_REGISTRATION)
    assert (request.broker_id, request.cluster_id, request.previous_broker_epoch) == (1, CLUSTER_ID, -1)
    assert [(each.name, each.host, each.port) for each in request.listeners] == [
        ("PLAINTEXT", "127.0.0.1", member.port)
    ]
    ranges = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    assert ranges["metadata.version"] == (7, 33)
    assert ranges["kraft.version"] == (0, 1)
    assert len(request.log_dirs) == 1


def test_a_new_directory_keeps_its_id(controller: FakeController, member: MemberBroker) -> None:
    """The quorum would list this broker twice: by the id of its first fetches, and by that on the disk."""
    written = read_meta_properties(LOCAL, str(member.log_dir))
    assert written is not None
    fetches = [each.topics[0].partitions[0].replica_directory_id for each in controller.named(FETCH)]
    (registration,) = controller.named(BROKER_REGISTRATION)
    assert {id_text(each) for each in fetches} == {id_text(each) for each in registration.log_dirs}
    assert {id_text(each) for each in fetches} == {written.directory_id}


def test_heartbeats_ask_for_unfencing_once_the_registration_is_applied(
    controller: FakeController, member: MemberBroker
) -> None:
    """S23.1: until then the controller keeps it fenced."""
    registration = controller.image.brokers[1]
    heartbeats = controller.named(BROKER_HEARTBEAT)
    unfencing = next(each for each in heartbeats if not each.want_fence)
    assert unfencing.current_metadata_offset >= registration.broker_epoch
    assert not registration.fenced


def test_only_committed_records_are_applied(
    controller: FakeController, member: MemberBroker, client: WireClient
) -> None:
    eventually(
        lambda: controller.named(BROKER_HEARTBEAT)[-1].current_metadata_offset, equal_to=controller.end_offset - 1
    )
    controller.high_watermark = controller.end_offset
    controller.create(NewTopic("orders", 1, 1))
    client.call(METADATA, 12, topics=None)
    assert "orders" not in topics(client)
    controller.high_watermark = None
    eventually(lambda: list(topics(client)), equal_to=["orders"])


def test_records_that_the_leader_has_lost_are_truncated(
    controller: FakeController, member: MemberBroker, client: WireClient
) -> None:
    """They were never committed, so they were never applied."""
    committed = controller.high_watermark = controller.end_offset
    controller.create(NewTopic("lost", 1, 1))
    log = member.log_dir / "__cluster_metadata-0/00000000000000000000.log"
    eventually(lambda: b"lost" in log.read_bytes())
    controller.image.remove_topic(controller.image.topics_by_name["lost"])
    controller.forget_from(committed)
    controller.high_watermark = None
    controller.create(NewTopic("kept", 1, 1))
    eventually(lambda: list(topics(client)), equal_to=["kept"])
    assert "Truncating the metadata log" in member.output


def test_snapshot_replaces_the_image(controller: FakeController, member: MemberBroker, client: WireClient) -> None:
    """Partitions that are in both stay open, and what the snapshot lacks is deleted."""
    controller.create(NewTopic("kept", 1, 1), NewTopic("gone", 1, 1))
    eventually(lambda: sorted(topics(client)), equal_to=["gone", "kept"])
    controller.high_watermark = controller.end_offset  # the member does not hear of the next records one by one
    controller.image.remove_topic(controller.image.topics_by_name["gone"])
    resource = {"resource_type": ResourceType.TOPIC, "resource_name": "kept"}
    controller.is_active = False
    controller.write([new_record(30, ConfigRecord, **resource, name="retention.ms", value="5")])
    controller.create(NewTopic("new", 2, 1))
    controller.keep_only_a_snapshot()
    controller.high_watermark = None
    controller.epoch += 1
    controller.is_active = True
    eventually(lambda: sorted(topics(client)), equal_to=["kept", "new"])
    assert len(controller.named(FETCH_SNAPSHOT)) > 1
    eventually(lambda: sorted(each.name for each in member.log_dir.glob("new-*")), equal_to=["new-0", "new-1"])
    eventually(lambda: list(member.log_dir.glob("gone-0")), equal_to=[])
    member.stop()
    member.start()
    with WireClient(HOST, member.port) as again:
        assert sorted(topics(again)) == ["kept", "new"]


def test_member_writes_snapshots_of_its_own(controller: FakeController, tmp_path: Path) -> None:
    """Else its copy of the log would grow forever, and each start would read all of it."""
    few = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    with MemberBroker(tmp_path, controller.port, few) as member:
        controller.create(NewTopic("orders", 3, 1))
        log_path = member.log_dir / "__cluster_metadata-0"
        end_offset = controller.end_offset
        eventually(
            lambda: max((int(each.name[:20]) for each in log_path.glob("*.checkpoint")), default=0), equal_to=end_offset
        )
        member.kill()
        member.start()
        with WireClient(HOST, member.port) as client:
            assert len(topics(client)["orders"].partitions) == 3
        assert not controller.named(FETCH_SNAPSHOT)


def test_partitions_of_other_brokers_are_led_elsewhere(controller: FakeController, client: WireClient) -> None:
    """Clients with old metadata get an error by which they ask for the leader."""
    node = NodeIdentity(2, bytes(16))
    endpoint = Endpoint("PLAINTEXT", "192.0.2.7", 9092, 0)
    controller.write(
        register_broker(controller.image, node, controller.end_offset, [endpoint], "r2", [bytes(15) + b"\7"])
    )
    controller.write(unfence_broker(controller.image, 2))
    controller.create(NewTopic("orders", assignments=((0, (2,)), (1, (1,)))))
    eventually(lambda: len(topics(client, "orders")["orders"].partitions), equal_to=2, retried=KeyError)
    answer = client.call(METADATA, 12, topics=None)
    assert [(each.node_id, each.host, each.rack) for each in answer.brokers][1] == (2, "192.0.2.7", "r2")
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 2)]

    def codes() -> dict[int, int]:
        offsets = client.call(
            LIST_OFFSETS, 7, replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=asked)]
        )
        return {each.partition_index: each.error_code for each in offsets.topics[0].partitions}

    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    eventually(codes, equal_to={0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: ErrorCode.NONE, 2: absent})


def test_forwarded_requests_carry_the_client(controller: FakeController, client: WireClient) -> None:
    answer = client.call(
        CREATE_TOPICS, 5, topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]
    )
    assert [(each.name, each.error_code) for each in answer.topics] == [("orders", ErrorCode.NONE)]
    quorum = client.call(DESCRIBE_QUORUM, 2, topics=[])
    assert quorum.error_message == "as the controller answers"
    assert controller.principals == ["User:ANONYMOUS", "User:ANONYMOUS"]
    assert [each.client_host_address for each in controller.named(ENVELOPE)] == [bytes((127, 0, 0, 1))] * 2
    eventually(lambda: len(topics(client, "orders")["orders"].partitions), equal_to=2, retried=KeyError)


def test_levels_of_loggers_are_not_forwarded(
    controller: FakeController, member: MemberBroker, client: WireClient
) -> None:
    """Each broker has its own. The other resources of the request go to the controller."""

    def resource(kind: ResourceType, name: str, key: str, value: str) -> Struct:
        config = AlterableConfig(name=key, config_operation=0, value=value)
        return AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])

    level = resource(ResourceType.BROKER_LOGGER, "1", "broker.network", "DEBUG")
    wrong = resource(ResourceType.BROKER_LOGGER, "2", "broker.network", "DEBUG")
    topic = resource(ResourceType.TOPIC, "orders", "retention.ms", "5")
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[level, topic, wrong])
    results = [(each.resource_type, each.resource_name, each.error_code) for each in answer.responses]
    logger = ResourceType.BROKER_LOGGER
    assert results == [(logger, "1", 0), (ResourceType.TOPIC, "orders", 0), (logger, "2", ErrorCode.INVALID_REQUEST)]
    (forwarded,) = controller.named(INCREMENTAL_ALTER_CONFIGS)
    assert [each.resource_name for each in forwarded.resources] == ["orders"]
    client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[level])
    assert len(controller.named(ENVELOPE)) == 1


def test_invalid_values_of_brokers_are_not_forwarded(controller: FakeController, client: WireClient) -> None:
    """The controller would store them: only brokers know their keys."""
    config = AlterableConfig(name="log.retention.ms", config_operation=0, value="no number")
    broker = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configs=[config])
    other = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="", configs=[])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[broker, other])
    codes = [(each.resource_name, each.error_code) for each in answer.responses]
    assert codes == [("1", ErrorCode.INVALID_REQUEST), ("", ErrorCode.NONE)]
    (forwarded,) = controller.named(INCREMENTAL_ALTER_CONFIGS)
    assert [each.resource_name for each in forwarded.resources] == [""]


def test_versions_of_forwarded_apis_are_those_of_the_controller(controller: FakeController, client: WireClient) -> None:
    """Others keep this broker's versions, and what the controller does not serve is not offered."""
    answer = client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert ranges[CREATE_TOPICS.key] == (2, 6)
    assert ranges[METADATA.key][1] == METADATA.current.max
    assert 37 not in ranges  # CreatePartitions


def test_forwarded_requests_wait_for_an_active_controller(
    controller: FakeController, member: MemberBroker, client: WireClient
) -> None:
    controller.is_active = False
    client.send(CREATE_TOPICS, 5, topics=[CreatableTopic(name="late", num_partitions=1, replication_factor=1)])
    answered = select.poll()
    answered.register(client.socket, select.POLLIN)
    assert not answered.poll(500)
    controller.is_active = True
    assert client.receive().topics[0].error_code == ErrorCode.NONE


def test_topics_of_first_use_are_created_with_the_rights_of_the_client(
    controller: FakeController, client: WireClient
) -> None:
    """Internal topics are created by the broker itself, as in Apache Kafka."""

    def exists(name: str) -> bool:
        asked = [MetadataRequestTopic(name=name)]
        answer = client.call(METADATA, 12, topics=asked, allow_auto_topic_creation=True)
        return bool(answer.topics[0].error_code == ErrorCode.NONE)

    eventually(lambda: exists("orders"))
    assert set(controller.principals) == {"User:ANONYMOUS"}
    count = len(controller.principals)
    eventually(lambda: client.call(FIND_COORDINATOR, 4, coordinator_keys=["g"]).coordinators[0].error_code, equal_to=0)
    assert len(controller.principals) == count
    created = controller.named(CREATE_TOPICS)[-1].topics[0]
    assert (created.name, created.num_partitions) == ("__consumer_offsets", 50)


def test_client_that_the_controller_throttles_is_muted(controller: FakeController, client: WireClient) -> None:
    """The time begins before the throttled request, so a slow machine cannot fail the test."""
    controller.throttle_ms = 1000
    began_s = time.monotonic()
    client.call(CREATE_TOPICS, 6, topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
    client.call(METADATA, 12, topics=[])
    assert time.monotonic() - began_s >= 0.99


def test_metrics_name_the_controller_that_leads(controller: FakeController, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://{HOST}:{port}"

    def metrics() -> dict[str, float]:
        with urlopen(f"{url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}

    with MemberBroker(tmp_path, controller.port, {"metrics.listeners": url}):
        # The record of the unfencing follows the answer to the heartbeat.
        eventually(lambda: metrics()["kafka_controller_kafkacontroller_activebrokercount"], equal_to=1)
        found = metrics()
    assert found["kafka_server_raft_metrics_current_leader"] == NODE_ID
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 0


def test_declared_topics_are_created(controller: FakeController, tmp_path: Path) -> None:
    with MemberBroker(tmp_path, controller.port, {"pybroker.topics": "orders:3"}) as member:
        with WireClient(HOST, member.port) as client:
            eventually(lambda: len(topics(client, "orders")["orders"].partitions), equal_to=3, retried=KeyError)
        assert not controller.principals  # by the broker itself
        member.stop()
        member.start()
        assert len(controller.named(CREATE_TOPICS)) == 1


def test_producer_ids_come_from_the_controller(client: WireClient) -> None:
    answer = client.call(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=1000)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.NONE, 7_000)


def directory_id(path: Path) -> bytes:
    properties = (path / "meta.properties").read_text()
    return id_bytes(properties.partition("directory.id=")[2].partition("\n")[0].replace("\\", ""))


def test_move_is_assigned_before_the_copy_takes_its_place(controller: FakeController, tmp_path: Path) -> None:
    """If the new directory failed in between, the controller would not know that the replica is offline."""
    dirs = tmp_path / "one", tmp_path / "two"
    with MemberBroker(tmp_path, controller.port, {"log.dirs": ",".join(map(str, dirs))}) as member:
        controller.create(NewTopic("orders", 1, 1))
        topic = controller.image.topics_by_name["orders"]
        ids = {directory_id(each): each for each in dirs}
        eventually(lambda: topic.partitions[0].directory_of(1) in ids)
        source = ids[topic.partitions[0].directory_of(1)]
        (target,) = set(dirs) - {source}
        already: list[bool] = []
        controller.on_assignment = lambda assigned: already.append((ids[assigned] / "orders-0").exists())
        with WireClient(HOST, member.port) as client:
            wanted = AlterReplicaLogDir(
                path=str(target), topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0])]
            )
            client.call(ALTER_REPLICA_LOG_DIRS, 2, dirs=[wanted])
        eventually((target / "orders-0").exists)
        eventually(lambda: not (source / "orders-0").exists())
        assert already[0] is False
        assert topic.partitions[0].directory_of(1) == directory_id(target)


def test_failed_log_directory_is_reported_at_once(controller: FakeController, tmp_path: Path) -> None:
    """The controller moves its replicas elsewhere. This broker serves the other directories."""
    other = tmp_path / "more"
    two = {"log.dirs": f"{tmp_path}/logs,{other}", "broker.heartbeat.interval.ms": "60000"}
    with MemberBroker(tmp_path, controller.port, two) as member:
        failed = directory_id(other)
        shutil.rmtree(other)
        other.write_text("no directory any more")
        controller.create(NewTopic("orders", 4, 1))
        eventually(lambda: [failed] in [list(each.offline_log_dirs) for each in controller.named(BROKER_HEARTBEAT)])
        assert member.is_running


def test_clean_stop_moves_leadership_and_is_remembered(controller: FakeController, member: MemberBroker) -> None:
    epoch = controller.image.brokers[1].broker_epoch
    assert member.stop() == 0
    assert controller.named(BROKER_HEARTBEAT)[-1].want_shut_down
    member.start()
    assert controller.named(BROKER_REGISTRATION)[-1].previous_broker_epoch == epoch
    member.kill()
    member.start()
    assert controller.named(BROKER_REGISTRATION)[-1].previous_broker_epoch == -1


def test_registration_is_retried_while_the_old_session_lives(controller: FakeController, tmp_path: Path) -> None:
    controller.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 2
    with MemberBroker(tmp_path, controller.port) as member:
        assert len(controller.named(BROKER_REGISTRATION)) == 3
        assert "another broker with node.id 1 is registered and alive" in member.output
