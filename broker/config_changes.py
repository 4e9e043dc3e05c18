"""What AlterConfigs and IncrementalAlterConfigs have in common: decide each resource, record what may be changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from config.alter import (
    REPEATED,
    Changes,
    Refusal,
    refusal_by,
    repeated,
    trials,
)
from metadata.configs import alter_config
from metadata.image import ResourceType
from protocol.errors import ErrorCode
from protocol.schema import Struct, StructType
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.broker import Broker

log = logging.getLogger(__name__)

Resource = tuple[int, str]
Outcomes = Sequence[tuple[Resource, Changes | Refusal]]


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
    config, image = broker.config, broker.controller.image
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
        return broker.controller.submit(records).then(lambda _: results)

    outcomes = [
        (resource, decided(resource, asked)) for resource, asked in zip(resources, request.resources, strict=True)
    ]
    untried = [
        [] if isinstance(changes, Refusal) else trials(config, image, resource, changes)
        for resource, changes in outcomes
    ]
    if not any(untried):
        return record(outcomes)
    tried = broker.offload(lambda: [refusal_by(each) for each in untried])  # files are read, keys derived
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
