"""IncrementalAlterConfigs of a member: it changes the levels of its loggers, and the controller all else (KIP-412)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.requests.forwarding import RequestForwarder, forward
from config.alter import REPEATED, Alteration, Refusal, plan_levels, repeated
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.framing import SIZE_BYTES, encode_response
from protocol.headers import decode_request_header, decode_response_header, encode_request_header
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterConfigsResourceResponse
from runtime import logs
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.access.authorization.guard import Guard
    from broker.requests.context import RequestContext
    from broker.requests.served_api import Handler
    from config import BrokerConfig
    from protocol.schema import Chunk, Struct
    from runtime.timers import Timers

_API = INCREMENTAL_ALTER_CONFIGS


def alter_configs(
    ctx: RequestContext,
    frame: bytes,
    *,
    forwarder: RequestForwarder,
    config: BrokerConfig,
    guard: Guard | None,
    timers: Timers,
) -> Deferred[list[Chunk]]:
    """Forward a request without the resources that are loggers, and return all results in the order of the request."""
    version = ctx.api_version
    request = _API.request.decode(version, frame, decode_request_header(frame).position)[0]
    loggers = [each for each in request.resources if each.resource_type == ResourceType.BROKER_LOGGER]
    if not loggers:
        return forward(ctx, frame, forwarder=forwarder)
    set_levels: Handler = partial(_set_levels, config)
    if guard is not None:
        set_levels = guard.protect(_API, set_levels)
    own: Struct = set_levels(ctx, _API.request(resources=loggers, validate_only=request.validate_only))  # type: ignore[assignment]

    def answer(others: Sequence[Struct]) -> list[Chunk]:
        results = {(each.resource_type, each.resource_name): each for each in (*own.responses, *others)}
        order = dict.fromkeys((each.resource_type, each.resource_name) for each in request.resources)
        merged = _API.response(responses=[results[each] for each in order if each in results])
        return encode_response(_API, version, ctx.correlation_id, merged)

    if len(loggers) == len(request.resources):
        soon: Deferred[list[Chunk]] = Deferred()  # the dispatcher encodes what is done at once
        timers.call_later(0, lambda: soon.resolve(answer(())))
        return soon
    others = [each for each in request.resources if each.resource_type != ResourceType.BROKER_LOGGER]
    body = _API.request.encode(version, _API.request(resources=others, validate_only=request.validate_only))
    rest = encode_request_header(_API, version, ctx.correlation_id, ctx.client_id) + body
    return forwarder.forward(ctx.connection, rest).then(lambda frame: answer(_results(frame, version)))


def _results(frame: bytes, version: int) -> Sequence[Struct]:
    body = memoryview(frame)[SIZE_BYTES:]
    position = decode_response_header(_API, version, body)[1]
    results: Sequence[Struct] = _API.response.decode(version, body, position)[0].responses
    return results


def _set_levels(config: BrokerConfig, ctx: RequestContext, request: Struct) -> Struct:
    twice = repeated((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for each in request.resources:
        code, message = ErrorCode.NONE, None
        alterations = [Alteration(one.name, one.config_operation, one.value) for one in each.configs]
        try:
            if (each.resource_type, each.resource_name) in twice:
                raise REPEATED
            for logger, level in plan_levels(config, each.resource_name, alterations).items():
                if not request.validate_only:
                    logs.set_level(logger, level)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return _API.response(responses=responses)
