"""Probes of the cluster: settings, brokers, ACLs. They change nothing."""

from __future__ import annotations

from typing import Any

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from tools.wire.conformance.probe import Destination, Probe, one_of
from tools.wire.conformance.stage import Stage

_TOPIC = 2
_ANY = 1
_NO_AUTHORIZER = one_of(ErrorCode.NONE, ErrorCode.SECURITY_DISABLED)
_NO_TOKENS = one_of(
    *(ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
)


def _versions(stage: Stage, version: int) -> dict[str, Any]:
    return {"client_software_name": "pybroker-conformance", "client_software_version": "1"}


def _has_ranges(stage: Stage, version: int, answer: Struct) -> str | None:
    advertised = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
    differing = sorted(
        key for key in advertised.keys() & stage.versions.keys() if advertised[key] != stage.versions[key]
    )
    # v0 to v2 may announce other ranges than later versions (KIP-896)
    return f"other ranges than in v0: {differing}" if differing and version >= 3 and len(differing) > 2 else None


def _describe_configs(stage: Stage, version: int) -> dict[str, Any]:
    return {"resources": [{"resource_type": _TOPIC, "resource_name": stage.name, "configuration_keys": None}]}


def _has_settings(stage: Stage, version: int, answer: Struct) -> str | None:
    names = {each.name for each in answer.results[0].configs}
    return None if "retention.ms" in names else "retention.ms is missing"


def _alter_configs(stage: Stage, version: int) -> dict[str, Any]:
    setting = {"name": "retention.ms", "value": "86400000"}
    resource = {"resource_type": _TOPIC, "resource_name": stage.name, "configs": [setting]}
    return {"resources": [resource], "validate_only": True}


def _acl_filter(stage: Stage, version: int) -> dict[str, Any]:
    entry = {"resource_name_filter": f"{stage.name}-none", "principal_filter": None, "host_filter": None}
    kinds = {"resource_type_filter": _TOPIC, "pattern_type_filter": 3, "operation": _ANY, "permission_type": _ANY}
    return {**entry, **kinds}


def _log_dirs(stage: Stage, version: int) -> dict[str, Any]:
    return {"topics": [{"topic": stage.name, "partitions": [0]}]}


def _elect(stage: Stage, version: int) -> dict[str, Any]:
    topic = {"topic": stage.name, "partitions": [0]}
    return {"election_type": 0, "topic_partitions": [topic], "timeout_ms": 30_000}


def _quotas(stage: Stage, version: int) -> dict[str, Any]:
    return {"components": [{"entity_type": "user", "match_type": 0, "match": stage.name}], "strict": False}


def _alter_quotas(stage: Stage, version: int) -> dict[str, Any]:
    operation = {"key": "producer_byte_rate", "value": 1e6, "remove": False}
    entity = [{"entity_type": "user", "entity_name": stage.name}]
    return {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": True}


PROBES = (
    Probe(ApiKey.API_VERSIONS, _versions, check=_has_ranges),
    Probe(ApiKey.DESCRIBE_CLUSTER, lambda stage, version: {"endpoint_type": 1}),
    Probe(ApiKey.DESCRIBE_CONFIGS, _describe_configs, check=_has_settings),
    Probe(ApiKey.ALTER_CONFIGS, _alter_configs),
    Probe(ApiKey.INCREMENTAL_ALTER_CONFIGS, _alter_configs),
    Probe(ApiKey.LIST_CONFIG_RESOURCES, lambda stage, version: {}),
    Probe(ApiKey.DESCRIBE_ACLS, _acl_filter, _NO_AUTHORIZER),
    Probe(ApiKey.CREATE_ACLS, lambda stage, version: {}, _NO_AUTHORIZER),
    Probe(ApiKey.DELETE_ACLS, lambda stage, version: {"filters": [_acl_filter(stage, version)]}, _NO_AUTHORIZER),
    Probe(ApiKey.DESCRIBE_LOG_DIRS, _log_dirs, destination=Destination.LEADER),
    Probe(ApiKey.ALTER_REPLICA_LOG_DIRS, lambda stage, version: {}, destination=Destination.LEADER),
    Probe(ApiKey.ELECT_LEADERS, _elect, one_of(ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)),
    Probe(ApiKey.ALTER_PARTITION_REASSIGNMENTS, lambda stage, version: {"timeout_ms": 30_000, "topics": []}),
    Probe(ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda stage, version: {"timeout_ms": 30_000, "topics": None}),
    Probe(ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas),
    Probe(ApiKey.ALTER_CLIENT_QUOTAS, _alter_quotas),
    Probe(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        lambda stage, version: {"users": [{"name": stage.name}]},
        one_of(ErrorCode.RESOURCE_NOT_FOUND),
    ),
    Probe(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        lambda stage, version: {"deletions": [{"name": stage.name, "mechanism": 1}]},
        one_of(ErrorCode.RESOURCE_NOT_FOUND),
    ),
    Probe(
        ApiKey.DESCRIBE_QUORUM,
        lambda stage, version: {
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        },
    ),
    Probe(
        ApiKey.CREATE_DELEGATION_TOKEN,
        lambda stage, version: {"max_lifetime_ms": 60_000, "owner_principal_type": None, "owner_principal_name": None},
        _NO_TOKENS - {ErrorCode.NONE},
    ),
    Probe(ApiKey.DESCRIBE_DELEGATION_TOKEN, lambda stage, version: {"owners": []}, _NO_TOKENS),
    Probe(ApiKey.RENEW_DELEGATION_TOKEN, lambda stage, version: {"hmac": b"none", "renew_period_ms": 1}, _NO_TOKENS),
    Probe(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        lambda stage, version: {"hmac": b"none", "expiry_time_period_ms": 1},
        _NO_TOKENS,
    ),
    Probe(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, lambda stage, version: {}),
)
