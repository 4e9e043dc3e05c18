"""Configs of resources that librdkafka does not know: client metrics subscriptions, and the default of all brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

BROKER = 4
"""Types of resources. A broker with an empty name is the default of all brokers."""
CLIENT_METRICS = 16
_SET, _DELETE = 0, 1


def describe(client: Administration, kind: int, names: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Describe the configs of resources: return each name with kafka-python's config entries. Raises CommandError."""
    from kafka.protocol.admin import DescribeConfigsRequest

    if not names:
        return []
    resource_of = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource_of(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    answer = client.send(DescribeConfigsRequest(resources=wanted))
    for each in answer.results:
        client.check(each, each.resource_name)
    return [(each.resource_name, list(each.configs)) for each in answer.results]


def alter(client: Administration, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
    """Change configs of a resource; None restores a default. Raises CommandError."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource_of = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource_of.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    resource = resource_of(resource_type=kind, resource_name=name, configs=configs)
    answer = client.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    for each in answer.responses:
        client.check(each, name)
