"""Checks of topics in tiered storage, as in Apache Kafka 4.4's LogConfig (KIP-405, KIP-950, KIP-1241)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .errors import Problem, rule
from .values import ConfigValue

Values = Mapping[str, ConfigValue]

ENABLE = "remote.storage.enable"
DELETE_ON_DISABLE = "remote.log.delete.on.disable"
COPY_DISABLE = "remote.log.copy.disable"
#: Local retention: the same as the total retention.
AS_THE_WHOLE = -2
UNLIMITED = -1

_SYSTEM_IS_OFF = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)
_NOT_ONLY_DELETED = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
)
_NOT_KEPT = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    f"turn to read only, please set `{ENABLE}=true,{COPY_DISABLE}=true`. If you want to disable remote storage and "
    f"delete all remote data, please set `{ENABLE}=false,{DELETE_ON_DISABLE}=true`."
)


def problems(values: Values, former: Mapping[str, str], *, has_system: bool) -> Iterator[Problem]:
    """Yield the problems of a topic's values, in Kafka's order.

    `former` are the texts that the topic had before the change. `has_system`: remote.log.storage.system.enable.
    """
    if not values[ENABLE]:
        if former.get(ENABLE, "false").lower() == "true" and not values[DELETE_ON_DISABLE]:
            yield rule(_NOT_KEPT, ENABLE)
        return
    if not has_system:
        yield rule(_SYSTEM_IS_OFF, ENABLE)
    if values["cleanup.policy"] not in ((), ("delete",)):
        yield rule(_NOT_ONLY_DELETED, ENABLE)
    yield from local_retention_problems(values, "retention.bytes", "local.retention.bytes")
    yield from local_retention_problems(values, "retention.ms", "local.retention.ms")
    yield from _copy_lag_problems(values, "bytes")
    yield from _copy_lag_problems(values, "ms")
    if values[COPY_DISABLE]:
        for unit in ("bytes", "ms"):
            yield from _uncopied_problems(values, unit)


def local_retention_problems(values: Values, whole_key: str, local_key: str) -> Iterator[Problem]:
    """Yield the problem of local retention that is longer or larger than the total retention."""
    whole, local = _number(values[whole_key]), _number(values[local_key])
    if local == AS_THE_WHOLE or whole <= UNLIMITED:
        return
    if local == UNLIMITED:
        yield Problem(local_key, str(local), f"Value must not be -1 as {whole_key} value is set as {whole}.")
    elif local > whole:
        yield Problem(local_key, str(local), f"Value must not be more than {whole_key} property value: {whole}")


def _copy_lag_problems(values: Values, unit: str) -> Iterator[Problem]:
    """Yield the problem of copies that may lag further behind than local retention keeps records."""
    key, local_key = f"remote.copy.lag.{unit}", f"local.retention.{unit}"
    lag, local = _number(values[key]), _number(values[local_key])
    if local == AS_THE_WHOLE:
        local = _number(values[f"retention.{unit}"])
    if lag > local >= 0:
        yield Problem(key, str(lag), f"Value must not exceed {local_key} (effective value: {local})")


def _uncopied_problems(values: Values, unit: str) -> Iterator[Problem]:
    """Yield the problem of a topic that is not copied any more, but has other limits for its local records."""
    whole_key, local_key = f"retention.{unit}", f"local.retention.{unit}"
    if values[local_key] not in (AS_THE_WHOLE, values[whole_key]):
        sentence = (
            f"When `{COPY_DISABLE}` is set to true, the `{local_key}` and `{whole_key}` must be set to the identical "
            "value because there will be no more logs copied to the remote storage."
        )
        yield rule(sentence, local_key)


def _number(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value
