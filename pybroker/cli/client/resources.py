"""Configs of resources that librdkafka does not know: groups, client metrics, log levels, defaults of all brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

BROKER = 4
"""Types of resources. A broker with an empty name is the default of all brokers."""
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
_SET, _DELETE = 0, 1


def names(client: Administration, kind: int) -> list[str]:
    """Return the names of all resources of a kind that have configs. Raises CommandError."""
    from kafka.protocol.admin import ListConfigResourcesRequest

    answer = client.send(ListConfigResourcesRequest(resource_types=[kind]))
    client.check(answer)
    return sorted(each.resource_name for each in answer.config_resources)


def describe(
    client: Administration, kind: int, names: Sequence[str], node: int | None = None
) -> list[tuple[str, list[Any]]]:
    """Describe the configs of resources: return each name with kafka-python's config entries. Raises CommandError.

    `node` is the broker to ask: log levels are known only to the broker itself.
    """
    from kafka.protocol.admin import DescribeConfigsRequest

    if not names:
        return []
    resource_of = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource_of(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    answer = client.send(DescribeConfigsRequest(resources=wanted), node)
    for each in answer.results:
        client.check(each, each.resource_name)
    return [(each.resource_name, list(each.configs)) for each in answer.results]


def alter(
    client: Administration, kind: int, name: str, changes: Mapping[str, str | None], node: int | None = None
) -> None:
    """Change configs of a resource; None restores a default. Raises CommandError."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    resource_of = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource_of.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    resource = resource_of(resource_type=kind, resource_name=name, configs=configs)
    answer = client.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), node)
    for each in answer.responses:
        client.check(each, name)
