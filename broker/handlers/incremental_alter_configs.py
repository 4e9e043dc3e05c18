"""IncrementalAlterConfigs v0-v1: set, delete, append to and subtract from single values (KIP-339).

Applies to topics, brokers (one, or the default of all), groups (KIP-1043), client metrics subscriptions (KIP-714), and
levels of loggers (KIP-412). Each resource is changed as a whole or not at all, independently of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config_changes import Resource, alter, is_at_controller
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from config.alter import (
    Alteration,
    Changes,
    check_at_controller,
    plan_incremental,
    plan_levels,
)
from metadata.image import ResourceType
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterConfigsResourceResponse
from protocol.schema import Struct
from runtime import logs

if TYPE_CHECKING:
    from config import BrokerConfig
    from controller.controller import Controller
    from runtime.thread_pool import ThreadPool


@handles(INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs(
    ctx: RequestContext, request: Struct, *, config: BrokerConfig, controller: Controller, offload: ThreadPool
) -> Reply:
    """Return one result for each resource, in the order of the request."""

    def plan(resource: Resource, asked: Struct) -> Changes:
        alterations = [Alteration(each.name, each.config_operation, each.value) for each in asked.configs]
        if resource[0] != ResourceType.BROKER_LOGGER:
            changes = plan_incremental(config, controller.image, resource, alterations)
            if is_at_controller(config, ctx.connection):
                check_at_controller(controller.image, resource, changes)
            return changes
        for logger, level in plan_levels(config, resource[1], alterations).items():
            if not request.validate_only:
                logs.set_level(logger, level)
        return {}

    return alter(config, controller, offload, request, plan, AlterConfigsResourceResponse).then(
        lambda responses: INCREMENTAL_ALTER_CONFIGS.response(throttle_time_ms=0, responses=responses)
    )
