"""Access control entries for ranges of addresses (KIP-1276): the answers and decisions equal Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.create_acls import CREATE_ACLS, AclCreation
from protocol.messages.delete_acls import DELETE_ACLS
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tests.support.brokers import HOST
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.data_client import DataClient
from tests.support.eventually import eventually

pytestmark = needs_4_4

TOPIC = "t1"
USER = "User:ANONYMOUS"
CODES_AND_TEXTS = {
    "10.0.0.0/8": (0, ""),
    "10.1.2.3/8": (0, ""),
    "2001:DB8::1/32": (0, ""),
    "[::1]/128": (0, ""),
    "0.0.0.0/0": (0, ""),
    "10.0.0.0/33": (42, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
    "x/0": (42, "Invalid CIDR notation 'x/0': Could not parse [x/0]"),
    "/": (42, "Invalid CIDR notation '/': Could not parse [/]"),
    "::1/129": (
        42,
        "Invalid CIDR notation '::1/129': Could not parse [::1/129] - prefix length must be between 0 and 128",
    ),
    "::1/1/1": (42, "Invalid CIDR notation '::1/1/1': Could not parse [::1/1/1] - invalid prefix length"),
    "::ffff:10.0.0.0/104": (
        42,
        "Invalid CIDR notation '::ffff:10.0.0.0/104': Could not parse [::ffff:10.0.0.0] - not an IPv6 address",
    ),
    "": (42, "Host pattern cannot be null or empty"),
}


@pytest.fixture(scope="module", params=["ours", "kafka"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataClient]:
    """Return a client without a name. It may do everything to resources without entries, and alter the cluster."""
    directory: Path = tmp_path_factory.mktemp("broker")
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    broker = BROKERS_OF_4_4[request.param](directory, properties)
    try:
        with DataClient(HOST, broker.port) as client:
            client.create_topic(TOPIC)
            # Apache Kafka's broker is itself a client of its controller
            needed = [cluster_entry(operation) for operation in (Operation.CLUSTER_ACTION, Operation.ALTER)]
            assert create_entries(client, needed) == [(0, ""), (0, "")]
            yield client
    finally:
        broker.kill()


def create(client: DataClient, hosts: list[str], permission: Permission, name: str = "t2") -> list[tuple[int, str]]:
    """Create entries to write to a topic."""
    return create_entries(client, [topic_entry(host, permission, name) for host in hosts])


def topic_entry(host: str, permission: Permission, name: str) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=USER,
        host=host,
        operation=Operation.WRITE,
        permission_type=permission,
    )


def cluster_entry(operation: Operation) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.CLUSTER,
        resource_name=CLUSTER_NAME,
        resource_pattern_type=PatternType.LITERAL,
        principal=USER,
        host="127.0.0.0/8",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


def create_entries(client: DataClient, creations: list[AclCreation]) -> list[tuple[int, str]]:
    results = client.call(CREATE_ACLS, 3, creations=creations).results
    return [(each.error_code, each.error_message or "") for each in results]


def filter_for(host: str | None) -> dict[str, object]:
    """Return the fields of a filter for the topics' entries of a host, in both requests."""
    return {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": host,
        "operation": 1,
        "permission_type": 1,
    }


def listed(client: DataClient, host: str | None) -> list[str]:
    """Return the hosts of the entries that a filter for a host matches."""
    answer = client.call(DESCRIBE_ACLS, 3, filter_for(host))
    return sorted(acl.host for resource in answer.resources for acl in resource.acls)


def delete(client: DataClient, host: str | None) -> list[str]:
    (result,) = client.call(DELETE_ACLS, 3, filters=[filter_for(host)]).filter_results
    return sorted(acl.host for acl in result.matching_acls)


def test_entries_are_checked_and_kept_as_typed(client: DataClient) -> None:
    """A filter matches a range as text."""
    assert create(client, list(CODES_AND_TEXTS), Permission.ALLOW) == list(CODES_AND_TEXTS.values())
    kept = sorted(host for host, (code, _) in CODES_AND_TEXTS.items() if code == 0)
    eventually(lambda: listed(client, None) == kept, "the entries")
    assert [listed(client, host) for host in ("10.1.2.3/8", "10.1.2.3", "2001:db8::1/32")] == [["10.1.2.3/8"], [], []]
    assert delete(client, "10.0.0.0/8") == ["10.0.0.0/8"]
    assert delete(client, "10.0.0.0/33") == []
    assert delete(client, None) == [host for host in kept if host != "10.0.0.0/8"]


@pytest.mark.parametrize(
    ("permission", "host", "writes"),
    [
        (Permission.ALLOW, "127.0.0.0/8", True),
        (Permission.ALLOW, "127.1.2.3/8", True),
        (Permission.ALLOW, "127.0.0.1/32", True),
        (Permission.ALLOW, "0.0.0.0/0", True),
        (Permission.ALLOW, "127.0.0.2/32", False),
        (Permission.ALLOW, "10.0.0.0/8", False),
        (Permission.ALLOW, "::/0", False),
        (Permission.DENY, "127.0.0.0/8", False),
    ],
)
def test_ranges_in_decisions(client: DataClient, permission: Permission, host: str, writes: bool) -> None:
    """The right to write to any topic, which an idempotent producer needs, follows them too."""
    create(client, ["10.9.9.9"], Permission.ALLOW, "*")  # without an entry everything is allowed
    create(client, [host], permission, TOPIC)
    if permission == Permission.DENY:
        create(client, ["*"], Permission.ALLOW, TOPIC)
    try:
        asked = {"topics": [MetadataRequestTopic(name=TOPIC)], "include_topic_authorized_operations": True}

        def operations() -> int:
            return int(client.call(METADATA, 12, **asked).topics[0].topic_authorized_operations)

        eventually(lambda: bool(operations() & 1 << Operation.WRITE) is writes, "the decision about the topic")
        started = {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
        eventually(
            lambda: (client.call(INIT_PRODUCER_ID, 5, **started).error_code == 0) is writes, "the decision about any"
        )
    finally:
        delete(client, None)
        eventually(lambda: listed(client, None) == [], "no entries")
