"""kafka-python's admin client against the broker: offsets and members of groups, transactions, replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.admin import AbortTransactionSpec, ConfigResource, MemberToRemove, OffsetTimestamp, TransactionState
from kafka.errors import (
    GroupSubscribedToTopicError,
    LogDirNotFoundError,
    NoError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from protocol.error_codes import ErrorCode
from tests.support.brokers import RunningBroker
from tests.support.kafka_python import know_topics
from tests.support.settled import settled, wait_for_topic


@pytest.fixture
def admin(reference: RunningBroker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=reference.bootstrap)
    yield client
    client.close()


@pytest.fixture
def partitions(reference: RunningBroker, admin: KafkaAdminClient, name: str) -> list[TopicPartition]:
    """Return the partitions of a topic, with five records in each."""
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    wait_for_topic(reference, name, 2)
    producer = KafkaProducer(bootstrap_servers=reference.bootstrap)
    for number in range(10):
        producer.send(name, b"value", partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
    producer.close()
    return [TopicPartition(name, 0), TopicPartition(name, 1)]


def offsets_of(admin: KafkaAdminClient, group: str) -> dict[TopicPartition, int]:
    return {place: kept.offset for place, kept in admin.list_group_offsets({group: None})[group].items()}


def test_offsets_of_a_group_without_members(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> None:
    """Set, moved to the log's ends and to a time, and deleted; a missing topic has its error."""
    first, second = partitions
    group, missing = first.topic, TopicPartition(f"{first.topic}-missing", 0)
    wanted = {first: OffsetAndMetadata(3, "a note", -1), second: OffsetAndMetadata(1, "", -1)}

    altered = admin.alter_group_offsets(group, {**wanted, missing: OffsetAndMetadata(0, "", -1)})

    assert altered == {first: NoError, second: NoError, missing: UnknownTopicOrPartitionError}
    assert admin.list_group_offsets({group: [first]})[group] == {first: wanted[first]}
    assert offsets_of(admin, group) == {first: 3, second: 1}

    admin.reset_group_offsets(group, {first: OffsetSpec.EARLIEST, second: OffsetSpec.LATEST})
    assert offsets_of(admin, group) == {first: 0, second: 5}
    admin.reset_group_offsets(group, {first: OffsetTimestamp(1_700_000_000_004), second: OffsetSpec.MAX_TIMESTAMP})
    assert offsets_of(admin, group) == {first: 2, second: 4}

    deleted = admin.delete_group_offsets(group, [first, missing])
    assert deleted == {first: NoError, missing: UnknownTopicOrPartitionError}
    assert offsets_of(admin, group) == {second: 4}


def test_a_group_with_members(
    reference: RunningBroker, admin: KafkaAdminClient, partitions: list[TopicPartition]
) -> None:
    """Only members change its offsets; a static member is removed by its instance id."""
    group = partitions[0].topic
    member = KafkaConsumer(group, bootstrap_servers=reference.bootstrap, group_id=group, group_instance_id="the-one")
    know_topics(member, group)
    while not member.assignment():
        member.poll(timeout_ms=100)

    assert admin.alter_group_offsets(group, {partitions[0]: OffsetAndMetadata(1, "", -1)}) == {
        partitions[0]: UnknownMemberIdError
    }
    assert admin.delete_group_offsets(group, partitions) == dict.fromkeys(partitions, GroupSubscribedToTopicError)
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    [described] = admin.describe_groups([group])[group]["members"]
    assert (described["group_instance_id"], described["client_host"]) == ("the-one", "/127.0.0.1")

    unknown = admin.remove_group_members(group, [MemberToRemove(member_id="nobody")])
    assert unknown == {"nobody": UnknownMemberIdError}
    removed = admin.remove_group_members(group, [MemberToRemove(group_instance_id="the-one", reason="moved")])
    assert removed == {"the-one": NoError}
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    member.close(autocommit=False)


def test_transactions_are_listed_described_and_aborted(
    reference: RunningBroker, admin: KafkaAdminClient, partitions: list[TopicPartition]
) -> None:
    """By filters of state, age and name; the records of a hanging transaction are aborted."""
    place, name = partitions[0], partitions[0].topic
    producer = KafkaProducer(bootstrap_servers=reference.bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(name, b"open", partition=0).get(timeout=60)

    def listed(**filters: object) -> list[str]:
        found = admin.list_transactions(transactional_id_pattern=f"{name[:-1]}.", **filters)
        return [each.transactional_id for each in found[1]]

    assert listed() == listed(state_filters=["Ongoing"]) == listed(duration_filter_ms=0) == [name]
    assert listed(state_filters=["Empty"]) == listed(duration_filter_ms=1 << 40) == []
    described = admin.describe_transactions([name])[name]
    assert (described.state, described.topic_partitions) == (TransactionState.ONGOING, {place})
    with pytest.raises(TransactionalIdNotFoundError):
        admin.describe_transactions([f"{name}-missing"])
    assert name not in {each["transactional_id"] for each in admin.find_hanging_transactions()}

    def open_since() -> int:
        active = {each.producer_id: each for each in admin.describe_producers([place])[place].active_producers}
        offset: int = active[described.producer_id].current_transaction_start_offset
        return offset

    assert open_since() == 5
    admin.abort_transaction(AbortTransactionSpec(place, described.producer_id, described.producer_epoch))
    assert open_since() == -1
    producer.close()


def test_replicas_stay_where_they_are(
    reference: RunningBroker, admin: KafkaAdminClient, partitions: list[TopicPartition]
) -> None:
    """Elections and reassignments change nothing with one broker, and their results show it."""
    place, name = partitions[0], partitions[0].topic
    elected = admin.elect_leaders(0, {name: [0]}, raise_errors=False)
    [[result]] = [topic.partition_result for topic in elected.replica_election_results]
    assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
    admin.alter_partition_reassignments({place: [1]})
    settled(reference, lambda: check(not admin.list_partition_reassignments()))
    moved = admin.alter_replica_log_dirs({(name, 0, 1): "/nowhere"})
    assert list(moved.values()) == [LogDirNotFoundError]
    [topic] = admin.describe_topic_partitions([name])["topics"]
    assert [each["leader_id"] for each in topic["partitions"]] == [1, 1]
    page = admin.describe_topic_partitions([name], response_partition_limit=1)
    assert page["next_cursor"] == {"topic_name": name, "partition_index": 1}


def test_a_configuration_goes_back_to_its_default(
    reference: RunningBroker, admin: KafkaAdminClient, partitions: list[TopicPartition]
) -> None:
    name = partitions[0].topic

    def changed() -> set[str]:
        return set(admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name])

    admin.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "12345", "segment.ms": "99999"})])
    settled(reference, lambda: check({"retention.ms", "segment.ms"} <= changed()))
    admin.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])])
    settled(reference, lambda: check("retention.ms" not in changed()))
    assert "segment.ms" in changed()


def check(holds: bool) -> None:
    assert holds
