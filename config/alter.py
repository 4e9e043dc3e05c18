"""Changes of configurations, decided as by Kafka's broker and controller. Nothing is written here.

The change of a resource is accepted as a whole or rejected: `plan_*` return the changes to record, or raise `Refusal`
with the error code and the message for the client. The order of checks and the errors are those of Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from metadata.features import CORDONED_DIRECTORIES_LEVEL, ELIGIBLE_LEADER_REPLICAS
from metadata.image import ResourceType
from metadata.topic_names import name_problem
from protocol.error_codes import ErrorCode
from runtime import logs

from .dynamic import check_dynamic
from .errors import ConfigError
from .key import KeyTable
from .keys import BROKER_KEYS, TOPIC_KEYS
from .resources import SubscriptionError, validate_client_metrics_config, validate_group_config
from .unknown import dynamic_row_of
from .values import ConfigType

if TYPE_CHECKING:
    from metadata.image import MetadataImage

    from .broker_config import BrokerConfig, Check

MIN_ISR = "min.insync.replicas"
CORDONED = "cordoned.log.dirs"
#: Of a string in a message or in a record of the metadata log. A list that grows by APPEND may exceed it.
_LONGEST_BYTES = 32_767

Changes = dict[str, str | None]
"""New values by key; None removes a value."""


class Operation(IntEnum):
    """The operation on a key (KIP-339). APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(Operation)


class Alteration(msgspec.Struct, frozen=True):
    """A requested change of a key; `operation` may be an invalid number."""

    key: str
    operation: int
    value: str | None


class Refusal(Exception):
    """Why a resource is not changed. `message` is None where Kafka sends none."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _invalid_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _invalid_config(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_CONFIG, message)


def repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return the resources that a request names more than once: they are not changed."""
    return {resource for resource, count in Counter(resources).items() if count > 1}


REPEATED = _invalid_request("Each resource must appear at most once.")


def plan_incremental(
    config: BrokerConfig, image: MetadataImage, resource: tuple[int, str], alterations: Collection[Alteration]
) -> Changes:
    """Return the changes of an IncrementalAlterConfigs request for a resource other than a logger. Raises Refusal."""
    kind, name = resource
    _check_request(alterations, values_optional=True)
    current = image.config(kind, name)
    if kind == ResourceType.BROKER:
        _check_broker_name(config, name)
        changes = {each.key: _after(BROKER_KEYS, current, each, _refuse_broker_operation) for each in alterations}
        if not _is_another_broker(config, name):
            _check_broker(config, name, _merged(current, changes))
    elif kind not in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise _invalid_request(f"Unknown resource type {kind}")
    else:
        keys: KeyTable = TOPIC_KEYS if kind == ResourceType.TOPIC else {}
        changes = {each.key: _after(keys, current, each, _refuse_operation) for each in alterations}
    _check(config, image, resource, current, changes)
    return changes


def plan_replacement(
    config: BrokerConfig, image: MetadataImage, resource: tuple[int, str], values: Collection[Alteration]
) -> Changes:
    """Return the changes of an AlterConfigs request, whose values replace all others of the resource.

    Raises Refusal.
    """
    kind, name = resource
    _check_request(values, values_optional=False)
    current = image.config(kind, name)
    changes: Changes = dict.fromkeys(current)
    changes.update({each.key: each.value for each in values})
    if kind == ResourceType.BROKER:
        _check_broker_name(config, name)
        if not _is_another_broker(config, name):
            _check_broker(config, name, _merged(current, changes))
    elif kind not in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise _invalid_request(f"Unknown resource type {kind}")
    _check(config, image, resource, current, changes)
    return changes


def check_at_controller(image: MetadataImage, resource: tuple[int, str], changes: Changes) -> None:
    """Refuse to cordon directories by a request that no broker has checked (KIP-1066): they are the broker's own.

    Raises Refusal.
    """
    cordoned = changes.get(CORDONED) if resource[0] == ResourceType.BROKER else None
    if cordoned is None or not cordoned.strip():
        return
    before = image.config(*resource).get(CORDONED)
    known = [] if before is None else _listed(before)
    if not set(_listed(cordoned)) <= set(known):
        raise _invalid_config(
            f"When updating {CORDONED} via controllers,  the new value must be a subset of the current configuration "
            "value."
        )


def _listed(text: str) -> list[str]:
    """Return the elements as Kafka splits them: an empty text has an empty element."""
    return [each.strip() for each in text.split(",")]


def plan_levels(config: BrokerConfig, name: str, alterations: Collection[Alteration]) -> Changes:
    """Return the changes of logger levels (KIP-412), which are not part of the metadata. Raises Refusal."""
    _check_request(alterations, values_optional=True)
    if _node_id(name) != config.node_id:
        raise _invalid_request(f"Unexpected node id. Expected {config.node_id}, but received {name}")
    changes: Changes = {}
    for each in alterations:
        if each.operation not in _OPERATIONS:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        operation = Operation(each.operation)
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise _invalid_request(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
        level = each.value if operation is Operation.SET else None
        try:
            logs.check_level(each.key, level)
        except logs.LoggerError as error:
            raise _invalid_config(str(error)) from None
        if level is None and each.key == logs.ROOT:
            raise _invalid_request("Removing the log level of the root logger is not allowed")
        changes[each.key] = level
    return changes


def _check_request(alterations: Collection[Alteration], *, values_optional: bool) -> None:
    if len({each.key for each in alterations}) != len(alterations):
        raise _invalid_request("Error due to duplicate config keys")
    missing = [
        each.key
        for each in alterations
        if each.value is None and not (values_optional and each.operation == Operation.DELETE)
    ]
    if missing:
        raise _invalid_request(f"Null value not supported for : {', '.join(missing)}")


def _after(keys: KeyTable, current: Mapping[str, str], alteration: Alteration, refuse: _Refuse) -> str | None:
    """Return a key's text after one alteration. A list without a dynamic value begins with the key's default."""
    if alteration.operation == Operation.SET:
        return alteration.value
    if alteration.operation == Operation.DELETE:
        return None
    row = keys.get(alteration.key)
    if (
        alteration.operation not in (Operation.APPEND, Operation.SUBTRACT)
        or row is None
        or row.type is not ConfigType.LIST
    ):
        raise refuse(alteration)
    assert alteration.value is not None
    text = current.get(alteration.key, row.default_text)
    entries = text.split(",") if text else []
    given = alteration.value.rstrip(",")
    # Trailing commas have no entries; an empty text is an entry.
    for entry in given.split(",") if given or not alteration.value else ():
        if alteration.operation == Operation.SUBTRACT:
            if entry in entries:
                entries.remove(entry)
        elif entry not in entries:
            entries.append(entry)
    return ",".join(entries)


class _Refuse:
    """The errors of invalid operations: in Kafka the broker checks brokers' keys, and the controller the others."""

    def __init__(self, is_broker: bool) -> None:
        self._is_broker = is_broker

    def __call__(self, alteration: Alteration) -> Refusal:
        if alteration.operation not in _OPERATIONS:
            if self._is_broker:
                return _invalid_request(f"Unknown operations type {alteration.operation}")
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if self._is_broker and dynamic_row_of(alteration.key) is None:
            return _invalid_config(f"Unknown config name: {alteration.key}")
        operation = Operation(alteration.operation).name
        if self._is_broker:
            return _invalid_config(f"Config value {operation.lower()} is not allowed for config key: {alteration.key}")
        return _invalid_config(f"Can't {operation} to key {alteration.key} because its type is not LIST.")


_refuse_broker_operation, _refuse_operation = _Refuse(True), _Refuse(False)


def _merged(current: Mapping[str, str], changes: Changes) -> dict[str, str]:
    merged = {**current, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _node_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _invalid_request(f"Node id must be an integer, but it is: {name}") from None


def _is_another_broker(config: BrokerConfig, name: str) -> bool:
    """Return whether a controller is asked to change the configuration of a broker other than itself.

    That broker has checked the values before it forwarded them. Like Kafka's, the controller cannot check them.
    """
    return bool(name) and (config.is_controller or config.is_combined) and _node_id(name) != config.node_id


def _check_broker_name(config: BrokerConfig, name: str) -> None:
    if _is_another_broker(config, name):
        if _node_id(name) < 0:
            raise _invalid_request("Invalid negative broker ID.")
        return
    if name and _node_id(name) != config.node_id:
        raise _invalid_request(f"Unexpected broker id, expected {config.node_id}, but received {name}")


def pending_checks(
    config: BrokerConfig, image: MetadataImage, resource: tuple[int, str], changes: Changes
) -> list[Check]:
    """Return further checks that have to pass before the changes are made."""
    kind, name = resource
    if kind != ResourceType.BROKER or _is_another_broker(config, name):
        return []
    texts = _merged(image.config(kind, name), changes)
    return (
        config.pending_checks(config.cluster_default, texts)
        if name
        else config.pending_checks(texts, config.per_broker)
    )


def refusal_by(checks: Iterable[Check]) -> Refusal | None:
    """Return why a resource cannot be changed, or None. Blocks, so not on the loop."""
    problem = next(filter(None, (check() for check in checks)), None)
    return None if problem is None else _invalid_request(problem.message)


def _check_broker(config: BrokerConfig, name: str, texts: Mapping[str, str]) -> None:
    try:
        check_dynamic(config, texts, per_broker=bool(name))
    except ConfigError as error:
        raise _invalid_request(str(error)) from None


def _check(
    config: BrokerConfig, image: MetadataImage, resource: tuple[int, str], current: Mapping[str, str], changes: Changes
) -> None:
    """Check as Kafka's controller does: names, values and combinations, and at last whether the topic exists."""
    kind, name = resource
    merged = _merged(current, changes)
    try:
        _check_lengths(changes)
        if kind == ResourceType.BROKER:
            _check_eligible_leaders(image, name, changes)
            _check_cordons(image, changes)
        elif kind == ResourceType.TOPIC:
            _check_topic_name(name)
            given = {key: value for key, value in changes.items() if value is not None}
            config.validate_topic_config(given, current, {key for key, value in changes.items() if value is None})
            if image.topic(name) is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        elif kind == ResourceType.GROUP:
            if not name:
                raise _invalid_request("Default group resources are not allowed.")
            validate_group_config(config, merged)
        else:
            if not name:
                raise _invalid_request("Subscription name can't be empty")
            validate_client_metrics_config(merged)
    except SubscriptionError as error:
        raise _invalid_request(str(error)) from None
    except ConfigError as error:
        raise _invalid_config(str(error)) from None


def _check_lengths(changes: Changes) -> None:
    if any(text is not None and len(text.encode()) > _LONGEST_BYTES for text in changes.values()):
        exceeded = f"it exceeds the maximum value size of {_LONGEST_BYTES} bytes."
        raise _invalid_config(f"The configuration value cannot be added because {exceeded}")


def _check_topic_name(name: str) -> None:
    if not name:
        raise _invalid_request("Default topic resources are not allowed.")
    problem = name_problem(name)
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _check_eligible_leaders(image: MetadataImage, name: str, changes: Changes) -> None:
    """With eligible leader replicas (KIP-966), keep the cluster's min.insync.replicas, and allow no broker its own."""
    if MIN_ISR not in changes or not image.features.get(ELIGIBLE_LEADER_REPLICAS, 0):
        return
    if name:
        raise _invalid_config(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise _invalid_config(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")


def _check_cordons(image: MetadataImage, changes: Changes) -> None:
    """Allow cordoned directories only from metadata.version 4.3 on (KIP-1066)."""
    if CORDONED in changes and image.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        raise _invalid_config(
            f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        )
