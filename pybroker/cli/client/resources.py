"""Settings of what librdkafka has no name for: subscriptions to clients' metrics, and all brokers together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

BROKER = 4
"""Types of resources. The broker without a name is all of them."""
CLIENT_METRICS = 16
_SET, _DELETE = 0, 1


def entries(client: Administration, kind: int, names: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Resources by name, with kafka-python's entries of their settings. Raises CommandError."""
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
    """Change settings of a resource; None is back to a default. Raises CommandError."""
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
