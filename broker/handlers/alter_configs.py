"""AlterConfigs v0-v2: replace the configurations of topics, brokers, groups and client metrics subscriptions (KIP-133).

Keys that a request does not name are reset to their defaults; IncrementalAlterConfigs avoids that. Levels of loggers
cannot be changed by this API (KIP-412). Each resource is changed as a whole or not at all, independently of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config_changes import Resource, alter, is_at_controller
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from config.alter import (
    Alteration,
    Changes,
    Operation,
    check_at_controller,
    plan_replacement,
)
from protocol.messages.alter_configs import ALTER_CONFIGS, AlterConfigsResourceResponse
from protocol.schema import Struct

if TYPE_CHECKING:
    from config import BrokerConfig
    from controller.controller import Controller
    from runtime.thread_pool import ThreadPool


@handles(ALTER_CONFIGS)
def alter_configs(
    ctx: RequestContext, request: Struct, *, config: BrokerConfig, controller: Controller, offload: ThreadPool
) -> Reply:
    """Return one result for each resource, in the order of the request."""

    def plan(resource: Resource, asked: Struct) -> Changes:
        values = [Alteration(each.name, Operation.SET, each.value) for each in asked.configs]
        changes = plan_replacement(config, controller.image, resource, values)
        if is_at_controller(config, ctx.connection):
            check_at_controller(controller.image, resource, changes)
        return changes

    return alter(config, controller, offload, request, plan, AlterConfigsResourceResponse).then(
        lambda responses: ALTER_CONFIGS.response(throttle_time_ms=0, responses=responses)
    )
