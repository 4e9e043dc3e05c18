"""AlterConfigs and IncrementalAlterConfigs of a member. Kafka's ConfigAdminManager.

It changes the levels of its own loggers (KIP-412), and rejects invalid values of brokers, which the controller does not
know. All else is forwarded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.requests.context import CloseConnection
from broker.requests.forwarding import RequestForwarder, forward
from config.alter import (
    REPEATED,
    Alteration,
    Operation,
    Refusal,
    plan_incremental,
    plan_levels,
    plan_replacement,
    repeated,
)
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES, encode_response
from protocol.headers import decode_request_header, decode_response_header, encode_request_header
from protocol.messages import alter_configs as replacement
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterConfigsResourceResponse
from runtime import logs
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from broker.requests.context import RequestContext
    from broker.requests.served_api import Handler
    from config import BrokerConfig
    from protocol.schema import Api, Chunk, Struct
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
    metadata: MetadataCache,
) -> Deferred[list[Chunk]]:
    """Forward what is not decided here, and return all results in the order of the request."""
    version = ctx.api_version
    request = _decoded(_API, version, frame)
    loggers = [each for each in request.resources if each.resource_type == ResourceType.BROKER_LOGGER]
    decided = [
        AlterConfigsResourceResponse(**each)
        for each in _refused_brokers(
            request, lambda each: plan_incremental(config, metadata.image, _resource(each), _alterations(each))
        )
    ]
    if not loggers and not decided:
        return forward(ctx, frame, forwarder=forwarder)
    if loggers:
        set_levels: Handler = partial(_set_levels, config)
        if guard is not None:
            set_levels = guard.protect(_API, set_levels)
        own: Any = set_levels(ctx, _API.request(resources=loggers, validate_only=request.validate_only))
        decided += own.responses
    return _answered(ctx, _API, request, decided, loggers, forwarder, timers)


def replace_configs(
    ctx: RequestContext,
    frame: bytes,
    *,
    forwarder: RequestForwarder,
    config: BrokerConfig,
    timers: Timers,
    metadata: MetadataCache,
) -> Deferred[list[Chunk]]:
    """Do the same for AlterConfigs, which changes no loggers."""
    request = _decoded(ALTER_CONFIGS, ctx.api_version, frame)

    def plan(each: Struct) -> object:
        values = [Alteration(one.name, Operation.SET, one.value) for one in each.configs]
        return plan_replacement(config, metadata.image, _resource(each), values)

    refused = [replacement.AlterConfigsResourceResponse(**each) for each in _refused_brokers(request, plan)]
    if not refused:
        return forward(ctx, frame, forwarder=forwarder)
    return _answered(ctx, ALTER_CONFIGS, request, refused, [], forwarder, timers)


def _decoded(api: Api, version: int, frame: bytes) -> Struct:
    """Decode a request, which the dispatcher keeps as a frame. Raises CloseConnection if it is malformed."""
    try:
        return api.request.decode(version, frame, decode_request_header(frame).position)[0]
    except ProtocolError as error:
        raise CloseConnection(f"malformed request: {error}") from None


def _answered(
    ctx: RequestContext,
    api: Api,
    request: Struct,
    decided: Sequence[Struct],
    loggers: Sequence[Struct],
    forwarder: RequestForwarder,
    timers: Timers,
) -> Deferred[list[Chunk]]:
    """Return the results that were decided here, with those of the other resources, which are forwarded."""
    version = ctx.api_version
    known = {_resource(each) for each in (*decided, *loggers)}
    others = [each for each in request.resources if _resource(each) not in known]

    def answer(forwarded: Sequence[Struct]) -> list[Chunk]:
        results = {_resource(each): each for each in (*decided, *forwarded)}
        order = dict.fromkeys(map(_resource, request.resources))
        merged = api.response(responses=[results[each] for each in order if each in results])
        return encode_response(api, version, ctx.correlation_id, merged)

    if not others:
        soon: Deferred[list[Chunk]] = Deferred()  # the dispatcher encodes what is done at once
        timers.call_later(0, lambda: soon.resolve(answer(())))
        return soon
    body = api.request.encode(version, api.request(resources=others, validate_only=request.validate_only))
    rest = encode_request_header(api, version, ctx.correlation_id, ctx.client_id) + body
    return forwarder.forward(ctx.connection, rest).then(lambda frame: answer(_results(api, frame, version)))


def _resource(each: Struct) -> tuple[int, str]:
    return each.resource_type, each.resource_name


def _alterations(each: Struct) -> list[Alteration]:
    return [Alteration(one.name, one.config_operation, one.value) for one in each.configs]


def _response(resource: tuple[int, str], refusal: Refusal | None) -> dict[str, Any]:
    """Return the fields of a result."""
    code, message = (ErrorCode.NONE, None) if refusal is None else (refusal.code, refusal.message)
    kind, name = resource
    return {"error_code": code, "error_message": message, "resource_type": kind, "resource_name": name}


def _refused_brokers(request: Struct, plan: Callable[[Struct], object]) -> Iterator[dict[str, Any]]:
    """Yield the results of brokers whose new values are invalid, by `plan`."""
    for each in request.resources:
        if each.resource_type == ResourceType.BROKER:
            try:
                plan(each)
            except Refusal as refusal:
                yield _response(_resource(each), refusal)


def _results(api: Api, frame: bytes, version: int) -> Sequence[Struct]:
    body = memoryview(frame)[SIZE_BYTES:]
    position = decode_response_header(api, version, body)[1]
    results: Sequence[Struct] = api.response.decode(version, body, position)[0].responses
    return results


def _set_levels(config: BrokerConfig, ctx: RequestContext, request: Struct) -> Struct:
    twice = repeated(map(_resource, request.resources))
    responses = []
    for each in request.resources:
        refused = None
        try:
            if _resource(each) in twice:
                raise REPEATED
            for logger, level in plan_levels(config, each.resource_name, _alterations(each)).items():
                if not request.validate_only:
                    logs.set_level(logger, level)
        except Refusal as refusal:
            refused = refusal
        responses.append(AlterConfigsResourceResponse(**_response(_resource(each), refused)))
    return _API.response(responses=responses)
