"""The common part of AlterConfigs and IncrementalAlterConfigs: decide each resource, and record allowed changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from config.alter import (
    REPEATED,
    Changes,
    Refusal,
    pending_checks,
    refusal_by,
    repeated,
)
from metadata.configs import alter_config
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.schema import Struct, StructType
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection
    from config import BrokerConfig
    from controller.controller import Controller
    from runtime.thread_pool import ThreadPool

log = logging.getLogger(__name__)

Resource = tuple[int, str]
Outcomes = Sequence[tuple[Resource, Changes | Refusal]]


def _named(resource: Resource) -> str:
    """Return a resource as log lines name it: "topic orders", "all brokers"."""
    kind, name = resource
    if kind == ResourceType.BROKER and not name:
        return "all brokers"
    try:
        return f"{ResourceType(kind).name.lower().replace('_', ' ')} {name}"
    except ValueError:
        return f"{name} (of unknown type {kind})"


def is_at_controller(config: BrokerConfig, connection: ClientConnection) -> bool:
    """Return whether a request comes to a controller without a broker, which would have checked its values."""
    return (config.is_controller or config.is_combined) and not connection.is_forwarded


def alter(
    config: BrokerConfig,
    controller: Controller,
    offload: ThreadPool,
    request: Struct,
    plan: Callable[[Resource, Struct], Changes],
    response: StructType,
) -> Deferred[list[Struct]]:
    """Return the results for the resources of a request, once all changes are on disk and in force.

    `plan` decides one resource, or raises Refusal. With `validate_only`, nothing is changed. A change that cannot be
    recorded fails the whole request.
    """
    image = controller.image
    resources = [(each.resource_type, each.resource_name) for each in request.resources]
    twice = repeated(resources)

    def decided(resource: Resource, asked: Struct) -> Changes | Refusal:
        try:
            if resource in twice:
                raise REPEATED
            return plan(resource, asked)
        except Refusal as refusal:
            return refusal

    def record(outcomes: Outcomes) -> Deferred[list[Struct]]:
        results = [_result(response, *outcome) for outcome in outcomes]
        records = [
            each
            for resource, changes in outcomes
            if not isinstance(changes, Refusal)
            for each in alter_config(image, *resource, changes)
        ]
        if request.validate_only or not records:
            return Deferred.resolved(results)
        return controller.submit(records).then(lambda _: results)

    outcomes = [
        (resource, decided(resource, asked)) for resource, asked in zip(resources, request.resources, strict=True)
    ]
    untried = [
        [] if isinstance(changes, Refusal) else pending_checks(config, image, resource, changes)
        for resource, changes in outcomes
    ]
    if not any(untried):
        return record(outcomes)
    tried = offload(lambda: [refusal_by(each) for each in untried])  # files are read, keys derived
    return after(
        tried,
        lambda: record(
            [(resource, why or changes) for (resource, changes), why in zip(outcomes, tried.result(), strict=True)]
        ),
    )


def _result(response: StructType, resource: Resource, outcome: Changes | Refusal) -> Struct:
    code, message = ErrorCode.NONE, None
    if isinstance(outcome, Refusal):
        code, message = outcome.code, outcome.message
        log.info("The configuration of %s is not changed: %s", _named(resource), message)
    return response(error_code=code, error_message=message, resource_type=resource[0], resource_name=resource[1])
