"""DescribeConfigs v0-v4: list configurations of topics, brokers, loggers, groups and client metrics subscriptions.

Versions: v0, which Kafka 4 has dropped, only marks defaults; v1 sources and synonyms (KIP-226); v3 types and
documentation (KIP-569); v4 flexible. A broker describes itself and, under the empty name, the dynamic defaults of all
brokers. Secrets, and the values of unknown keys, are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from config import BrokerConfig
from config.describe import (
    ConfigSource,
    Entry,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from metadata.image import MetadataImage, ResourceType
from metadata.topic_names import name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from protocol.schema import Struct
from runtime import logs

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache

_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


class _Refusal(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@handles(DESCRIBE_CONFIGS)
def describe_configs(ctx: RequestContext, request: Struct, *, config: BrokerConfig, metadata: MetadataCache) -> Reply:
    """Return one result for each resource, in the order of the request. An unknown type refuses all of them."""
    if any(each.resource_type not in _TYPES for each in request.resources):
        return DESCRIBE_CONFIGS.response(results=[_refused(each) for each in request.resources])
    return DESCRIBE_CONFIGS.response(
        throttle_time_ms=0, results=[_result(ctx, config, metadata.image, request, each) for each in request.resources]
    )


def _refused(asked: Struct) -> Struct:
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=ErrorCode.INVALID_REQUEST.text,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _result(ctx: RequestContext, config: BrokerConfig, image: MetadataImage, request: Struct, asked: Struct) -> Struct:
    code, message = ErrorCode.NONE, ""
    entries: list[Entry] = []
    try:
        entries = _entries(config, image, asked.resource_type, asked.resource_name)
    except _Refusal as refusal:
        code, message = refusal.code, str(refusal)
    wanted = asked.configuration_keys
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[_config(ctx, request, entry) for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(config: BrokerConfig, image: MetadataImage, kind: int, name: str) -> list[Entry]:
    if kind == ResourceType.TOPIC:
        problem = name_problem(name)
        if problem is not None:
            raise _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if image.topic(name) is None:
            raise _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_entries(config, image.topic_config(name))
    if kind == ResourceType.BROKER:
        if not name:
            return cluster_default_entries(config)
        _check_broker_id(config, name, f"{config.node_id} or empty string,")
        return broker_entries(config)
    if kind == ResourceType.BROKER_LOGGER:
        _refuse_empty(name, "Broker id")
        _check_broker_id(config, name, str(config.node_id))
        return logger_entries(logs.levels())
    if kind == ResourceType.CLIENT_METRICS:
        _refuse_empty(name, "Client metrics subscription name")
        return client_metrics_entries(config, image.config(kind, name))
    _refuse_empty(name, "Group name")
    return group_entries(config, image.config(kind, name))


def _refuse_empty(name: str, what: str) -> None:
    if not name:
        raise _Refusal(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")


def _check_broker_id(config: BrokerConfig, name: str, expected: str) -> None:
    try:
        given = int(name)
    except ValueError:
        raise _Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if given != config.node_id:
        message = f"Unexpected broker id, expected {expected} but received {name}"
        raise _Refusal(ErrorCode.INVALID_REQUEST, message)


def _config(ctx: RequestContext, request: Struct, entry: Entry) -> Struct:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=ctx.api_version == 0 and entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation or not entry.documentation else None,
    )
