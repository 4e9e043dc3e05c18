"""IncrementalAlterConfigs requests to a `ConfigBroker`."""

from __future__ import annotations

from broker.handlers.incremental_alter_configs import incremental_alter_configs
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.schema import Struct
from tests.support.config_broker import ConfigBroker

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32

Change = tuple[str, int, str | None]


def change(
    broker: ConfigBroker, *resources: tuple[int, str, list[Change]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    """Send an IncrementalAlterConfigs; return the error code and message of each resource."""
    request = INCREMENTAL_ALTER_CONFIGS.request(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=how, value=to) for key, how, to in changes],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = broker.ask(incremental_alter_configs, INCREMENTAL_ALTER_CONFIGS, 1, request)
    return results(answer)


def results(answer: Struct) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in answer.responses]
