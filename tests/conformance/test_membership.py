"""pybroker as a member of a cluster: beside a broker of Apache Kafka, under a controller of Apache Kafka."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from broker.requests.forwardable import FORWARDABLE
from metadata.loading import MetadataLoader
from metadata.partition_registration import is_reserved_directory
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.alter_configs import AlterableConfig as ReplacingConfig
from protocol.messages.alter_configs import AlterConfigsResource as ReplacingResource
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.elect_leaders import ELECT_LEADERS
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.messages.update_features import UPDATE_FEATURES, FeatureUpdateKey
from protocol.records.batch import iter_batches
from protocol.records.record import iter_batch_records
from protocol.schema import Api
from tests.integration.membership.kafka_nodes import PLAIN, QUIET, SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient, served_versions


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaController]:
    with KafkaController(tmp_path_factory.mktemp("controller")) as controller:
        yield controller


@pytest.fixture(scope="module")
def member(controller: KafkaController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberBroker]:
    directory = tmp_path_factory.mktemp("member")
    port, login = free_port(), free_port()
    properties = {
        **SECURED,
        "listeners": f"PLAINTEXT://{HOST}:{port},LOGIN://{HOST}:{login}",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} username="x" password="x" user_alice="a";',
        "log.dirs": f"{directory}/logs,{directory}/more",
    }
    with MemberBroker(directory, controller.port, properties, port=port) as member:
        member.login_port = login
        yield member


@pytest.fixture(scope="module")
def other(
    controller: KafkaController, member: MemberBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherBroker]:
    with OtherBroker(tmp_path_factory.mktemp("other"), controller.port) as other:
        yield other


@pytest.fixture
def admin(member: MemberBroker) -> AdminClient:
    return AdminClient({**QUIET, "bootstrap.servers": member.bootstrap})


def create(admin: AdminClient, partitions: int = 1) -> str:
    """Create a topic; return its name once this member knows it."""
    name = uuid.uuid4().hex
    (created,) = admin.create_topics([NewTopic(name, partitions, 1)]).values()
    created.result(30)
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions), equal_to=partitions)
    return name


def idempotent_producer(broker: RunningBroker) -> Producer:
    return Producer({**QUIET, "bootstrap.servers": broker.bootstrap, "enable.idempotence": True})


def produce(broker: RunningBroker, topic: str, count: int) -> None:
    send(idempotent_producer(broker), topic, count)


def send(producer: Producer, topic: str, count: int) -> None:
    """Send the numbers up to `count`, and wait until the brokers acknowledged them all."""
    failed: list[object] = []
    for number in range(count):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failed == []


def consume(broker: RunningBroker, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        return [each.value().decode() for each in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def test_member_is_registered_and_unfenced(member: MemberBroker, admin: AdminClient) -> None:
    metadata = admin.list_topics(timeout=10)
    assert metadata.cluster_id == CLUSTER_ID
    assert {each.id: (each.host, each.port) for each in metadata.brokers.values()} == {1: (HOST, member.port)}
    assert "UNFENCING -> RUNNING" in member.output


def test_requests_for_the_controller_are_forwarded(admin: AdminClient) -> None:
    """The controller creates the topic and changes its configuration; this member follows both."""
    topic = create(admin, partitions=3)
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)

    def retention() -> str:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        value: str = admin.describe_configs([asked])[asked].result(30)["retention.ms"].value
        return value

    eventually(retention, equal_to="123456")
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic in admin.list_topics(timeout=10).topics, equal_to=False)


def test_controller_checks_the_access_of_clients(member: MemberBroker, admin: AdminClient) -> None:
    """The envelope names the client's principal, which may create only what an access control entry allows."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    user = {"sasl.username": "alice", "sasl.password": "a"}
    alice = AdminClient({**QUIET, "bootstrap.servers": f"{HOST}:{member.login_port}", **login, **user})
    name = uuid.uuid4().hex
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        alice.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    allowed = AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.CREATE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([allowed])[allowed].result(30)
    alice.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    eventually(lambda: name in admin.list_topics(timeout=10).topics)


def test_partitions_of_one_replica_are_hosted(member: MemberBroker, admin: AdminClient) -> None:
    """With internal topics, and producer ids from the controller."""
    topic = create(admin)
    produce(member, topic, 20)
    assert consume(member, topic, 20) == [str(number) for number in range(20)]
    producer = Producer({**QUIET, "bootstrap.servers": member.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "last")
    producer.commit_transaction(30)
    assert consume(member, topic, 21)[-1] == "last"


def test_brokers_of_both_kinds_are_one_cluster(member: MemberBroker, admin: AdminClient, other: OtherBroker) -> None:
    """Clients find brokers, partitions and coordinators through either of them."""
    topic = create(admin, partitions=8)
    at_other = AdminClient({**QUIET, "bootstrap.servers": other.bootstrap})
    eventually(lambda: topic in at_other.list_topics(timeout=10).topics)
    found = [each.list_topics(topic, timeout=10) for each in (admin, at_other)]
    brokers = [{each.id: each.port for each in metadata.brokers.values()} for metadata in found]
    assert brokers == [{1: member.port, 2: other.port}] * 2
    leaders = [{each.id: each.leader for each in metadata.topics[topic].partitions.values()} for metadata in found]
    assert leaders[0] == leaders[1]
    assert set(leaders[0].values()) == {1, 2}
    produce(member, topic, 50)
    assert sorted(consume(other, topic, 50)) == sorted(map(str, range(50)))
    eventually(lambda: _directories(member, topic), until=lambda ids: len(ids) == 4 and len(set(ids.values())) == 2)


def test_forwarded_requests_have_the_same_answers(member: MemberBroker, other: OtherBroker) -> None:
    """And the same versions, which are those of the controller."""
    quorum = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    alteration = AlterableConfig(name="retention.ms", config_operation=0, value="no number")
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC.value, resource_name="none", configs=[alteration])
    wrong = AlterableConfig(name="num.io.threads", config_operation=0, value="no number")
    broker = AlterConfigsResource(resource_type=ResourceType.BROKER.value, resource_name="", configs=[wrong])
    replaced = ReplacingResource(
        resource_type=ResourceType.BROKER.value,
        resource_name="",
        configs=[ReplacingConfig(name="num.io.threads", value="no number")],
    )
    requests: list[tuple[Api, dict[str, Any]]] = [
        (ALTER_CONFIGS, {"resources": [replaced]}),
        (CREATE_TOPICS, {"topics": [CreatableTopic(name="a/b", num_partitions=1, replication_factor=1)]}),
        (CREATE_PARTITIONS, {"topics": [CreatePartitionsTopic(name="none", count=3, assignments=None)]}),
        (DELETE_TOPICS, {"topics": [DeleteTopicState(name="none")]}),
        (DESCRIBE_QUORUM, {"topics": [quorum]}),
        (ELECT_LEADERS, {"election_type": 0, "topic_partitions": None}),
        (INCREMENTAL_ALTER_CONFIGS, {"resources": [resource, broker]}),
        (LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
        (UNREGISTER_BROKER, {"broker_id": 77}),
        (UPDATE_FEATURES, {"feature_updates": [FeatureUpdateKey(feature="none", max_version_level=9, upgrade_type=1)]}),
    ]
    with WireClient(HOST, member.port) as ours, WireClient(HOST, other.port) as theirs:
        versions = [served_versions(each) for each in (ours, theirs)]
        assert {key: versions[0].get(key) for key in FORWARDABLE} == {key: versions[1].get(key) for key in FORWARDABLE}
        for api, fields in requests:
            answers = [str(each.call(api, api.current.max, **fields)) for each in (ours, theirs)]
            # of DescribeQuorum: when observers have fetched, and how far
            same = [re.sub(r"(timestamp|log_end_offset|high_watermark)=\d+", r"\1=", answer) for answer in answers]
            assert same[0] == same[1], api.name


def _directories(member: MemberBroker, topic: str) -> dict[int, bytes]:
    """Return the assigned log directories of the partitions that the member has, by the log of the controller."""
    loader = MetadataLoader()
    data = (member.log_dir / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    for position, header in iter_batches(data):
        if not header.is_control:
            for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
                assert record.value is not None
                loader.feed_value(record.value)
    partitions = loader.image.topics_by_name[topic].partitions
    found = {index: each.directory_of(1) for index, each in partitions.items() if 1 in each.replicas}
    return {index: each for index, each in found.items() if not is_reserved_directory(each)}


def test_member_outlives_a_restart_of_its_controller(
    controller: KafkaController, member: MemberBroker, admin: AdminClient, other: OtherBroker
) -> None:
    """A new producer might ask the other broker for its id, and that one has none left: so this one asks before."""
    topic = create(admin, partitions=4)
    producer = idempotent_producer(member)
    send(producer, topic, 1)
    controller.kill()
    send(producer, topic, 5)  # partitions are served meanwhile
    controller.start()
    assert create(admin) != topic
    assert sorted(consume(member, topic, 6)) == ["0", "0", "1", "2", "3", "4"]


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_member_starts_again(member: MemberBroker, admin: AdminClient, other: OtherBroker, how: str) -> None:
    """Its old session lives on for a while, and the controller refuses the new registration until then."""
    topic = create(admin, partitions=4)
    produce(member, topic, 5)
    if how == "clean":
        assert member.stop() == 0
        assert "LEAVING -> ENDED" in member.output
        assert (member.log_dir / ".kafka_cleanshutdown").exists()
    else:
        member.kill()
    member.start()
    assert sorted(consume(member, topic, 5)) == ["0", "1", "2", "3", "4"]
    assert create(admin) != topic


class Successor(MemberBroker):
    """A member with the node id of the broker of Apache Kafka."""

    node_id = OtherBroker.node_id


@pytest.mark.full_size
def test_both_kinds_take_over_the_directory_of_the_other(
    controller: KafkaController, member: MemberBroker, admin: AdminClient, other: OtherBroker, tmp_path: Path
) -> None:
    """A cluster is moved from Apache Kafka to pybroker, and back, one broker at a time."""
    topic = create(admin, partitions=4)
    produce(member, topic, 5)
    other.stop()
    properties = {**SECURED, "log.dirs": str(other.log_dir)}
    with Successor(tmp_path, controller.port, properties) as successor:
        assert sorted(consume(successor, topic, 5)) == ["0", "1", "2", "3", "4"]
        produce(successor, topic, 5)
        assert successor.stop() == 0
    other.start()
    assert sorted(consume(other, topic, 10)) == sorted([*"01234"] * 2)
