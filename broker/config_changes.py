"""What AlterConfigs and IncrementalAlterConfigs have in common: decide each resource, record what may be changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.config.alter import REPEATED, Changes, Refusal, repeated
from broker.deferred import Deferred
from metadata.configs import alter_config
from metadata.image import ResourceType
from protocol.errors import ErrorCode
from protocol.schema import Struct, StructType

if TYPE_CHECKING:
    from broker.broker import Broker

log = logging.getLogger(__name__)

Resource = tuple[int, str]


def _named(resource: Resource) -> str:
    """A resource in people's words: "topic orders", "all brokers"."""
    kind, name = resource
    if kind == ResourceType.BROKER and not name:
        return "all brokers"
    try:
        return f"{ResourceType(kind).name.lower().replace('_', ' ')} {name}"
    except ValueError:
        return f"{name} (of unknown type {kind})"


def alter(
    broker: Broker, request: Struct, plan: Callable[[Resource, Struct], Changes], response: StructType
) -> Deferred[list[Struct]]:
    """The results for the resources of a request, once all changes are on disk and in force.

    `plan` decides one resource, or raises Refusal. Nothing is changed if `validate_only`. A change that can not be
    recorded fails the whole request.
    """
    image = broker.controller.image
    twice = repeated((each.resource_type, each.resource_name) for each in request.resources)
    records, results = [], []
    for asked in request.resources:
        resource = (asked.resource_type, asked.resource_name)
        code, message = ErrorCode.NONE, None
        try:
            if resource in twice:
                raise REPEATED
            changes = plan(resource, asked)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
            log.info("The configuration of %s is not changed: %s", _named(resource), message)
        else:
            records += alter_config(image, *resource, changes)
        results.append(
            response(error_code=code, error_message=message, resource_type=resource[0], resource_name=resource[1])
        )
    if request.validate_only or not records:
        return Deferred.resolved(results)
    return broker.controller.submit(records).then(lambda _: results)
