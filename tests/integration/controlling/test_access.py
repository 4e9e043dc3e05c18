"""The rights that requests at the controller listener need, and its address in the metadata log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.metadata_log import TOPIC, TOPIC_ID
from protocol.error_codes import ErrorCode
from protocol.headers import encode_request_header
from protocol.messages import fetch
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.controller_registration import CONTROLLER_REGISTRATION
from protocol.messages.create_acls import CREATE_ACLS, AclCreation
from protocol.messages.data import DefaultPrincipalData
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.envelope import ENVELOPE
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.schema import Api
from tests.integration.controlling.own_controller import CONTROLLER, OwnController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.launch import run_broker
from tests.support.ports import free_port
from tests.support.wire import WireClient

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node",
}
_REQUESTS: list[tuple[Api, int, dict[str, Any]]] = [
    (BROKER_REGISTRATION, 4, {"cluster_id": CLUSTER_ID, "broker_id": 1, "incarnation_id": b"i" * 16}),
    (BROKER_HEARTBEAT, 1, {"broker_id": 1}),
    (UNREGISTER_BROKER, 0, {"broker_id": 1}),
    (ALTER_PARTITION, 3, {"broker_id": 1}),
    (ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 1}),
    (ASSIGN_REPLICAS_TO_DIRS, 0, {"broker_id": 1}),
    (CONTROLLER_REGISTRATION, 0, {"controller_id": 101, "incarnation_id": b"i" * 16}),
    (ENVELOPE, 0, {"request_data": b"", "client_host_address": b"\x0a\0\0\1"}),
    (fetch.FETCH, 18, {"topics": [fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[fetch.FetchPartition()])]}),
]


def test_a_client_without_rights_is_no_broker(tmp_path: Path) -> None:
    """It needs CLUSTER_ACTION, and to unregister a broker ALTER."""
    with OwnController(tmp_path, AUTHORIZER) as controller, WireClient(HOST, controller.port) as client:
        for api, version, fields in _REQUESTS:
            assert client.call(api, version, **fields).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api.name
        for api in (BROKER_REGISTRATION, ENVELOPE):
            line = "Principal = User:ANONYMOUS is Denied operation = CLUSTER_ACTION from host = 127.0.0.1 on resource ="
            assert controller.output.count(f"{line} Cluster:LITERAL:kafka-cluster for request = {api.name}") == 1


def test_a_client_without_rights_changes_nothing_by_an_envelope(tmp_path: Path) -> None:
    """Not even with the name of a user that has all rights in the envelope."""
    principal = b"\0\0" + DefaultPrincipalData.encode(0, DefaultPrincipalData.new(type="User", name="node"))
    wanted = AclCreation(
        resource_type=2, resource_name="t", principal="User:alice", host="*", operation=3, permission_type=3
    )
    body = CREATE_ACLS.request(creations=[wanted])
    frame = encode_request_header(CREATE_ACLS, 3, 1, "c") + CREATE_ACLS.request.encode(3, body)
    fields = {"request_data": frame, "request_principal": principal, "client_host_address": b"\x0a\0\0\1"}
    with OwnController(tmp_path, AUTHORIZER) as controller, WireClient(HOST, controller.port) as client:
        size = log_size(controller)
        assert client.call(ENVELOPE, 0, **fields).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert log_size(controller) == size


def test_a_second_controller_of_the_same_log(tmp_path: Path) -> None:
    """It is refused in one line, and the first one goes on in its epoch."""
    with OwnController(tmp_path / "first") as controller:
        size = log_size(controller)
        keys = {**controller_keys(CONTROLLER, free_port()), "log.dirs": str(controller.log_dir)}
        ended = run_broker(tmp_path / "second", keys)
        text = f"pybroker: {controller.log_dir}: is in use by another broker, which holds its .lock file"
        assert (ended.exit_code, ended.stdout, ended.stderr.splitlines()) == (1, "", [text])
        assert log_size(controller) == size
        assert listener_ports(controller) == [controller.port]


def log_size(controller: OwnController) -> int:
    """Return the bytes of the metadata log. While no broker observes, the controller writes nothing by itself."""
    return sum(each.stat().st_size for each in controller.log_dir.glob(f"{TOPIC}-0/*.log"))


def listener_ports(controller: OwnController) -> list[int]:
    """Return the ports of the voter, as the metadata log names it."""
    asked = [RequestTopicData(topic_name=TOPIC, partitions=[RequestPartitionData()])]
    with WireClient(HOST, controller.port) as client:
        (voter,) = client.call(DESCRIBE_QUORUM, 2, topics=asked).nodes
    return [each.port for each in voter.listeners]


@pytest.mark.parametrize("leave", ["stop", "kill"])
def test_another_address_is_written_into_the_log(tmp_path: Path, leave: str) -> None:
    """A broker that names the new address in its file registers there."""
    with OwnController(tmp_path / "controller") as controller:
        assert listener_ports(controller) == [controller.port]
        getattr(controller, leave)()
        controller.start(port=free_port())
        assert listener_ports(controller) == [controller.port]
        with MemberBroker(tmp_path / "member", controller.port) as member:
            eventually(lambda: f"at {HOST}:{controller.port}" in member.output)
