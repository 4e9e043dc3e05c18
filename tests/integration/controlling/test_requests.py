"""Requests at the controller listener: the metadata log, the quorum of one, and envelopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.metadata_log import TOPIC, TOPIC_ID
from controller.metadata_snapshot import parse_snapshot
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.framing import SIZE_BYTES, frame
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from protocol.messages.add_raft_voter import ADD_RAFT_VOTER, Listener
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.data import DefaultPrincipalData
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.envelope import ENVELOPE
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.produce import PRODUCE
from protocol.messages.remove_raft_voter import REMOVE_RAFT_VOTER
from protocol.messages.update_raft_voter import UPDATE_RAFT_VOTER
from protocol.records.batch import iter_batches
from protocol.schema import Api, Struct
from tests.integration.controlling.own_controller import CONTROLLER, OwnController
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.eventually import eventually
from tests.support.wire import Closed, WireClient

_PROPERTIES = {
    # a snapshot is written after a few records
    "metadata.log.max.record.bytes.between.snapshots": "200",
    "metadata.max.idle.interval.ms": "50",
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnController]:
    with OwnController(tmp_path_factory.mktemp("controller"), _PROPERTIES) as running:
        yield running


@pytest.fixture
def client(controller: OwnController) -> Iterator[WireClient]:
    with WireClient(HOST, controller.port) as client:
        yield client


def fetch_once(client: WireClient, offset: int, last_epoch: int, epoch: int = 1, **fields: Any) -> Struct:
    """Return the response to a fetch of an observer without a wait."""
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
        **fields,
    )
    topic = fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
    state = fetch.ReplicaState(replica_id=1)
    return client.call(fetch.FETCH, 18, cluster_id=CLUSTER_ID, replica_state=state, topics=[topic], max_wait_ms=0)


def partition_of(response: Struct) -> Struct:
    assert response.error_code == 0
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def test_an_observer_learns_the_leader(controller: OwnController, client: WireClient) -> None:
    """With an older epoch, as its first request has."""
    for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        response = fetch_once(client, 0, 0, epoch=epoch)
        found = partition_of(response)
        assert found.error_code == code
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (CONTROLLER, 1)
        assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [
            (CONTROLLER, HOST, controller.port)
        ]


def test_refused_fetches(client: WireClient) -> None:
    assert client.call(fetch.FETCH, 18, cluster_id="another").error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    topic = fetch.FetchTopic(topic_id=b"t" * 16, partitions=[fetch.FetchPartition()])
    assert client.call(fetch.FETCH, 18, topics=[topic]).error_code == ErrorCode.INVALID_REQUEST
    assert client.call(fetch.FETCH, 18, topics=[]).error_code == ErrorCode.INVALID_REQUEST
    assert partition_of(fetch_once(client, -1, 0)).error_code == ErrorCode.INVALID_REQUEST


def test_a_log_that_differs_is_truncated(client: WireClient) -> None:
    """An observer that is beyond the end, or has an epoch that the log never had, learns where both diverge."""
    end = eventually(lambda: partition_of(fetch_once(client, 1, 1)).high_watermark, until=lambda end: end > 1)
    ahead = partition_of(fetch_once(client, end + 10_000, 1))
    assert ahead.diverging_epoch.epoch == 1
    assert ahead.diverging_epoch.end_offset >= end
    assert not ahead.records
    other = partition_of(fetch_once(client, end + 10_000, 7))
    assert other.diverging_epoch.epoch == 1


def test_a_snapshot_and_the_records_after_it(client: WireClient) -> None:
    """An empty observer gets the newest snapshot in parts, and then the log from its end on."""
    offered = eventually(
        lambda: partition_of(fetch_once(client, 0, 0)).snapshot_id, until=lambda found: found.end_offset > 0
    )
    data = b""
    while True:
        part = fetch_part(client, offered, len(data), 150)
        assert part.error_code == 0
        assert part.position == len(data)
        assert 0 < len(part.unaligned_records) <= 150
        data += bytes(part.unaligned_records)
        if len(data) == part.size:
            break
    snapshot = parse_snapshot(data, "received")
    assert snapshot.quorum.voters is not None
    assert [each.voter_id for each in snapshot.quorum.voters.voters] == [CONTROLLER]
    assert fetch_part(client, offered, len(data), 150).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    missing = fetch_snapshot.SnapshotId(end_offset=offered.end_offset, epoch=9)
    assert fetch_part(client, missing, 0, 150).error_code == ErrorCode.SNAPSHOT_NOT_FOUND

    def records() -> list[Any]:
        found = partition_of(fetch_once(client, offered.end_offset, offered.epoch))
        assert found.error_code == 0
        return [header for _, header in iter_batches(bytes(found.records or b""))]

    batches = eventually(records)
    assert batches[0].base_offset == offered.end_offset
    assert all(each.leader_epoch == 1 for each in batches)


def fetch_part(client: WireClient, wanted: Struct, position: int, most: int) -> Struct:
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=1,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
        position=position,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=TOPIC, partitions=[partition])
    response = client.call(fetch_snapshot.FETCH_SNAPSHOT, 1, replica_id=1, max_bytes=most, topics=[topic])
    assert response.error_code == 0
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"replica_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"replica_epoch": 2}, ErrorCode.INCONSISTENT_VOTER_SET),
        ({"replica_epoch": 2, "voter_directory_id": b"v" * 16}, ErrorCode.INVALID_VOTER_KEY),
        ({"replica_epoch": 2, "last_offset": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_it_votes_for_nobody(client: WireClient, fields: dict[str, Any], code: ErrorCode) -> None:
    partition = vote.RequestPartitionData(**{"replica_id": 101, "last_offset": 5, "last_offset_epoch": 1, **fields})
    topic = vote.RequestTopicData(topic_name=TOPIC, partitions=[partition])
    response = client.call(vote.VOTE, 2, cluster_id=CLUSTER_ID, topics=[topic])
    (found,) = response.topics[0].partitions
    assert (found.error_code, found.vote_granted, found.leader_id, found.leader_epoch) == (code, False, CONTROLLER, 1)


@pytest.mark.parametrize(
    ("messages", "api"),
    [
        (begin_quorum_epoch, begin_quorum_epoch.BEGIN_QUORUM_EPOCH),
        (end_quorum_epoch, end_quorum_epoch.END_QUORUM_EPOCH),
    ],
)
def test_no_other_leader_begins_or_ends_an_epoch(client: WireClient, messages: Any, api: Api) -> None:
    for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.INCONSISTENT_VOTER_SET)):
        partition = messages.RequestPartitionData(leader_id=101, leader_epoch=epoch)
        topic = messages.RequestTopicData(topic_name=TOPIC, partitions=[partition])
        response = client.call(api, 1, cluster_id=CLUSTER_ID, topics=[topic])
        (found,) = response.topics[0].partitions
        assert (found.error_code, found.leader_id, found.leader_epoch) == (code, CONTROLLER, 1)


@pytest.mark.parametrize(
    ("api", "fields", "code"),
    [
        (
            ADD_RAFT_VOTER,
            {"listeners": [Listener(name="CONTROLLER", host=HOST, port=1)], "timeout_ms": 60_000},
            ErrorCode.REQUEST_TIMED_OUT,
        ),
        (REMOVE_RAFT_VOTER, {}, ErrorCode.VOTER_NOT_FOUND),
        (UPDATE_RAFT_VOTER, {"current_leader_epoch": 1}, ErrorCode.VOTER_NOT_FOUND),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_no_request_changes_the_voters(
    controller: OwnController, client: WireClient, api: Api, fields: dict[str, Any], code: ErrorCode
) -> None:
    """The answer comes at once, and a line in the log names the command for it."""
    client.socket.settimeout(30)
    answer = client.call(api, 0, cluster_id=CLUSTER_ID, voter_id=101, voter_directory_id=b"v" * 16, **fields)
    assert answer.error_code == code
    line = f"{api.name} of voter 101 is refused ({code.name}): this node stays the only voter of its quorum."
    assert controller.output.count(f"{line} `pybroker cluster handover` names other voters") == 1
    asked = [RequestTopicData(topic_name=TOPIC, partitions=[RequestPartitionData()])]
    found = client.call(DESCRIBE_QUORUM, 2, topics=asked).topics[0].partitions[0]
    assert [each.replica_id for each in found.current_voters] == [CONTROLLER]


def test_the_controllers_are_described(controller: OwnController, client: WireClient) -> None:
    found = client.call(DESCRIBE_CLUSTER, 1, endpoint_type=2)
    assert (found.error_code, found.cluster_id, found.controller_id) == (0, CLUSTER_ID, CONTROLLER)
    assert [(each.broker_id, each.host, each.port) for each in found.brokers] == [(CONTROLLER, HOST, controller.port)]
    assert client.call(DESCRIBE_CLUSTER, 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def envelope(client: WireClient, request: bytes, **fields: Any) -> Struct:
    principal = DefaultPrincipalData.encode(0, DefaultPrincipalData.new(type="User", name="alice"))
    defaults = {"request_principal": b"\0\0" + principal, "client_host_address": b"\x0a\0\0\1"}
    return client.call(ENVELOPE, 0, **{"request_data": request, **defaults, **fields})


def create(name: str) -> bytes:
    body = CREATE_TOPICS.request(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    return encode_request_header(CREATE_TOPICS, 7, 42, "c") + CREATE_TOPICS.request.encode(7, body)


def test_an_envelope_has_the_answer_of_its_request(client: WireClient) -> None:
    """Its correlation id, too. No broker is registered, so no topic can be created."""
    response = envelope(client, create("orders"))
    assert response.error_code == 0
    answer = memoryview(frame(bytes(response.response_data)))[SIZE_BYTES:]
    correlation_id, position = decode_response_header(CREATE_TOPICS, 7, answer)[:2]
    assert correlation_id == 42
    created = CREATE_TOPICS.response.decode(7, answer, position)[0]
    assert created.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_refused_envelopes(client: WireClient) -> None:
    bad_principal = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert envelope(client, create("t"), request_principal=None).error_code == bad_principal
    assert envelope(client, create("t"), request_principal=b"\0\7x").error_code == bad_principal
    assert envelope(client, create("t"), client_host_address=b"abc").error_code == ErrorCode.INVALID_REQUEST
    assert envelope(client, b"\0").error_code == ErrorCode.INVALID_REQUEST
    produce = encode_request_header(PRODUCE, 9, 1, "c")
    assert envelope(client, produce).error_code == ErrorCode.INVALID_REQUEST
    assert envelope(client, create("t")[:-3]).error_code == ErrorCode.INVALID_REQUEST
    assert envelope(client, b"\0\x13\0\x63" + create("t")[4:]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_requests_of_clients_are_not_served(controller: OwnController) -> None:
    with WireClient(HOST, controller.port) as client, pytest.raises(Closed):
        client.call(PRODUCE, 9, acks=1, timeout_ms=1000, topic_data=[])


@pytest.mark.parametrize(
    ("broker", "code"), [("7", ErrorCode.NONE), ("-1", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.INVALID_REQUEST)]
)
def test_configurations_of_brokers_are_recorded(client: WireClient, broker: str, code: ErrorCode) -> None:
    """Brokers forward the changes that they have checked, and tools send some to the controller themselves."""
    change = AlterableConfig(name="leader.replication.throttled.rate", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=broker, configs=[change])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert [each.error_code for each in answer.responses] == [code]


def cordoning(directories: str) -> dict[str, Any]:
    change = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=directories)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="8", configs=[change])
    return {"resources": [resource], "validate_only": False}


def test_directories_are_cordoned_by_way_of_their_broker(client: WireClient) -> None:
    """The controller does not know them, so it cordons none itself. Anything may be taken back."""
    api = INCREMENTAL_ALTER_CONFIGS

    def at_controller(directories: str) -> tuple[int, str | None]:
        (answer,) = client.call(api, 1, **cordoning(directories)).responses
        return answer.error_code, answer.error_message

    refused = (
        ErrorCode.INVALID_CONFIG,
        "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current "
        "configuration value.",
    )
    assert at_controller("/a") == refused
    request = encode_request_header(api, 1, 42, "c") + api.request.encode(1, api.request(**cordoning("/a,/b")))
    answer = memoryview(frame(bytes(envelope(client, request).response_data)))[SIZE_BYTES:]
    position = decode_response_header(api, 1, answer)[1]
    assert [each.error_code for each in api.response.decode(1, answer, position)[0].responses] == [ErrorCode.NONE]
    assert at_controller("/a,/c") == refused
    assert at_controller("/b") == (ErrorCode.NONE, None)
    assert at_controller("") == (ErrorCode.NONE, None)


def test_its_min_insync_replicas_is_the_default_of_all_brokers(client: WireClient) -> None:
    """It overrides the brokers' own files (KIP-966), so another value would silently weaken acks=all."""
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name="", configuration_keys=["min.insync.replicas"]
    )
    (answer,) = client.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results
    assert [(each.name, each.value) for each in answer.configs] == [("min.insync.replicas", "2")]
