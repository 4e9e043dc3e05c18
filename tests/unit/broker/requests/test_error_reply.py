"""The response to a request that failed as a whole, in the schema of its API."""

import pytest

from broker.requests.error_reply import error_reply
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnTopic
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, OpData, RequestEntryData
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS, UserName
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.registry import API_BY_KEY
from protocol.schema import Array

CODE = ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_for_the_whole_response():
    """Most APIs of groups and transactions have one."""
    assert error_reply(HEARTBEAT, 4, HEARTBEAT.request(), CODE).error_code == CODE


def test_an_error_for_each_partition():
    """Topic and partition are repeated from the request, whatever the schema calls them."""
    request = PRODUCE.request(
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3), PartitionProduceData(index=5)])
        ]
    )
    (topic,) = error_reply(PRODUCE, 9, request, CODE).responses
    assert topic.name == "t"
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(3, CODE), (5, CODE)]

    request = LIST_OFFSETS.request(
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=2)])]
    )
    (topic,) = error_reply(LIST_OFFSETS, 7, request, CODE).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(2, CODE)]

    request = OFFSET_COMMIT.request(
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=1)])]
    )
    (topic,) = error_reply(OFFSET_COMMIT, 8, request, CODE).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(1, CODE)]

    request = ADD_PARTITIONS_TO_TXN.request(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[4])])
    (topic,) = error_reply(ADD_PARTITIONS_TO_TXN, 3, request, CODE).results_by_topic_v3_and_below
    assert topic.name == "t"
    assert [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition] == [(4, CODE)]


def test_items_are_repeated_beside_a_top_level_error():
    """Kafka does so for reassignments."""
    asked = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 2])]
    reply = error_reply(LIST_PARTITION_REASSIGNMENTS, 0, LIST_PARTITION_REASSIGNMENTS.request(topics=asked), CODE)
    assert reply.error_code == CODE
    (topic,) = reply.topics
    assert (topic.name, [each.partition_index for each in topic.partitions]) == ("t", [0, 2])
    of_all = error_reply(LIST_PARTITION_REASSIGNMENTS, 0, LIST_PARTITION_REASSIGNMENTS.request(topics=None), CODE)
    assert (of_all.error_code, of_all.topics) == (CODE, [])


def test_a_top_level_error_and_one_in_each_item():
    """Kafka sets both. Users of SCRAM credentials are not repeated."""
    partitions = [ReassignablePartition(partition_index=1)]
    request = ALTER_PARTITION_REASSIGNMENTS.request(topics=[ReassignableTopic(name="t", partitions=partitions)])
    answer = error_reply(ALTER_PARTITION_REASSIGNMENTS, 1, request, CODE)
    found = [
        (topic.name, each.partition_index, each.error_code) for topic in answer.responses for each in topic.partitions
    ]
    assert (answer.error_code, found) == (CODE, [("t", 1, CODE)])

    request = ELECT_LEADERS.request(topic_partitions=[TopicPartitions(topic="t", partitions=[2])])
    answer = error_reply(ELECT_LEADERS, 2, request, CODE)
    (topic,) = answer.replica_election_results
    found = [(each.partition_id, each.error_code) for each in topic.partition_result]
    assert (answer.error_code, topic.topic, found) == (CODE, "t", [(2, CODE)])
    assert error_reply(ELECT_LEADERS, 2, ELECT_LEADERS.request(topic_partitions=None), CODE).error_code == CODE

    request = DESCRIBE_USER_SCRAM_CREDENTIALS.request(users=[UserName(name="somebody")])
    answer = error_reply(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request, CODE)
    assert (answer.error_code, [(each.user, each.error_code) for each in answer.results]) == (CODE, [("", CODE)])


def test_other_fields_of_the_request_are_not_repeated():
    """A requested timestamp is not a found one. Requested partitions are not existing ones."""
    asked = ListOffsetsPartition(partition_index=2, timestamp=7)
    request = LIST_OFFSETS.request(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    (topic,) = error_reply(LIST_OFFSETS, 7, request, CODE).topics
    assert [(each.timestamp, each.offset) for each in topic.partitions] == [(-1, -1)]

    wanted = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
    (topic,) = error_reply(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=[wanted]), CODE).topics
    assert (topic.num_partitions, topic.replication_factor, topic.error_message) == (-1, -1, None)


def test_an_error_for_each_name():
    """Topics, and groups that the schema lists as plain strings."""
    (topic,) = error_reply(CREATE_TOPICS, 5, CREATE_TOPICS.request(topics=[CreatableTopic(name="t")]), CODE).topics
    assert (topic.name, topic.error_code) == ("t", CODE)

    (group,) = error_reply(DELETE_GROUPS, 2, DELETE_GROUPS.request(groups_names=["g"]), CODE).results
    assert (group.group_id, group.error_code) == ("g", CODE)

    (group,) = error_reply(DESCRIBE_GROUPS, 5, DESCRIBE_GROUPS.request(groups=["g"]), CODE).groups
    assert (group.group_id, group.error_code) == ("g", CODE)


def test_an_error_for_each_entity():
    """Clients match the response to their request by its entity: user, client, or both."""
    entities = [[EntityData(entity_type="user", entity_name="alice")], [EntityData(entity_type="ip", entity_name=None)]]
    entity = [*entities[0], EntityData(entity_type="client-id", entity_name="c")]
    request = ALTER_CLIENT_QUOTAS.request(
        entries=[RequestEntryData(entity=each, ops=[OpData(key="k", value=1.0)]) for each in (*entities, entity)]
    )
    for version in ALTER_CLIENT_QUOTAS.versions:
        reply = error_reply(ALTER_CLIENT_QUOTAS, version, request, CODE)
        reply, _ = ALTER_CLIENT_QUOTAS.response.decode(version, ALTER_CLIENT_QUOTAS.response.encode(version, reply))
        listed = [[(each.entity_type, each.entity_name) for each in entry.entity] for entry in reply.entries]
        assert listed == [[("user", "alice")], [("ip", None)], [("user", "alice"), ("client-id", "c")]]
        assert {entry.error_code for entry in reply.entries} == {CODE}


@pytest.mark.parametrize("key", sorted(API_BY_KEY))
def test_the_error_response_of_every_api_can_be_encoded(key):
    """With one element in each array of the request, at every version."""
    api = API_BY_KEY[key]

    def filled(kind):
        value = kind()
        for field in kind.fields:
            if isinstance(field.type, Array):
                element = field.type.element
                setattr(value, field.name, [filled(element) if hasattr(element, "fields") else element.zero])
        return value

    for version in api.current:
        request = api.request.decode(version, api.request.encode(version, api.request()))[0]
        reply = error_reply(api, version, request, CODE)
        if reply is not None:
            api.response.encode(version, reply)
        reply = error_reply(api, version, filled(api.request), CODE)
        if reply is not None:
            api.response.encode(version, reply)
