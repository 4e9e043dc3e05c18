"""DescribeCluster of a controller. The error and its message are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.controlling.handlers.describe_cluster import describe_cluster
from broker.metadata_cache import MetadataCache
from metadata.features import CONTROLLER_REGISTRATION_LEVEL, METADATA_VERSION
from metadata.image import Endpoint
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from tests.support.images import cluster

_TOO_OLD = "Direct-to-controller communication is not supported with the current MetadataVersion."


@pytest.mark.parametrize(
    ("level", "code", "message", "count"),
    [
        (CONTROLLER_REGISTRATION_LEVEL - 1, ErrorCode.UNSUPPORTED_VERSION, _TOO_OLD, 0),
        (CONTROLLER_REGISTRATION_LEVEL, ErrorCode.NONE, None, 1),
    ],
)
def test_controllers_are_described_once_they_are_registered(
    level: int, code: ErrorCode, message: str | None, count: int
) -> None:
    """Tools that ask controllers directly, and brokers without a cluster id, begin with this request (KIP-919)."""
    image = cluster()
    image.features[METADATA_VERSION] = level
    address = Endpoint("CONTROLLER", "c1.example", 9093, 0)
    leader: Any = SimpleNamespace(cluster_id="c", node_id=100, endpoints=[address])
    context: Any = SimpleNamespace(connection=SimpleNamespace(listener_name="CONTROLLER"))
    request = DESCRIBE_CLUSTER.request(endpoint_type=2)
    found: Any = describe_cluster(context, request, leader=leader, metadata=MetadataCache("c", image), guard=None)
    assert (found.error_code, found.error_message, len(found.brokers)) == (code, message, count)
