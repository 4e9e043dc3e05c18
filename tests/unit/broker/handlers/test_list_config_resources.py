"""ListConfigResources, as in Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from broker.handlers.list_config_resources import list_config_resources
from metadata.configs import alter_config
from protocol.error_codes import ErrorCode
from protocol.messages.list_config_resources import LIST_CONFIG_RESOURCES
from tests.support.config_broker import ConfigBroker


@pytest.fixture
def broker() -> ConfigBroker:
    broker = ConfigBroker("t", "u")
    for kind, name, key in ((16, "s", "metrics"), (32, "g", "share.isolation.level")):
        value = {"metrics": "*", "share.isolation.level": "read_committed"}[key]
        broker.controller.submit(alter_config(broker.controller.image, kind, name, {key: value}))
    return broker


def listed(broker: ConfigBroker, version: int, types: list[int] | None = None) -> tuple[int, list[tuple[str, int]]]:
    request = LIST_CONFIG_RESOURCES.request(resource_types=types or [])
    answer = broker.ask(list_config_resources, LIST_CONFIG_RESOURCES, version, request)
    return answer.error_code, [(each.resource_name, each.resource_type) for each in answer.config_resources]


@pytest.mark.parametrize(
    ("types", "resources"),
    [
        ([], [("g", 32), ("s", 16), ("1", 8), ("1", 4), ("t", 2), ("u", 2)]),
        ([4, 2], [("1", 4), ("t", 2), ("u", 2)]),
        ([32, 16], [("g", 32), ("s", 16)]),
        ([8], [("1", 8)]),
    ],
)
def test_by_type(broker: ConfigBroker, types: list[int], resources: list[tuple[str, int]]) -> None:
    """KIP-1142: the response is sorted by type, whatever the order of the request."""
    assert listed(broker, 1, types) == (0, resources)


def test_version_0_lists_client_metrics_only(broker: ConfigBroker) -> None:
    """KIP-714: the API had another name then."""
    assert listed(broker, 0) == (0, [("s", 16)])


@pytest.mark.parametrize("types", [[3], [0], [1], [99], [2, 99]])
def test_types_that_do_not_exist(broker: ConfigBroker, types: list[int]) -> None:
    """One unknown type fails the request."""
    assert listed(broker, 1, types) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_a_resource_without_values_is_not_listed(broker: ConfigBroker) -> None:
    """Groups and client metrics subscriptions are listed only while they have values."""
    broker.controller.submit(alter_config(broker.controller.image, 16, "s", {"metrics": None}))

    assert listed(broker, 0) == (0, [])
