"""Topics in tiered storage: which values and changes are refused, with Kafka's sentences in Kafka's order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from config import BrokerConfig, ConfigError, load
from metadata.topic_names import CONSUMER_OFFSETS, REMOTE_LOG_METADATA, SHARE_GROUP_STATE

ENABLE, DELETE, COPY_DISABLE = "remote.storage.enable", "remote.log.delete.on.disable", "remote.log.copy.disable"
TIERED = {ENABLE: "true"}
NOT_KEPT = "It is invalid to disable remote storage without deleting remote data."
ONLY_DELETE = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
)
SYSTEM_OFF = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)


def broker(**settings: str) -> BrokerConfig:
    return load(
        overrides={"remote.log.storage.system.enable": "true"}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )


def refusal(
    config: BrokerConfig,
    texts: Mapping[str, str],
    former: Mapping[str, str] | None = None,
    removed: Collection[str] = (),
) -> str | None:
    """Return the sentence with which a change is refused, or None."""
    try:
        config.validate_topic_config(texts, former or {}, removed)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({}, None),
        ({"cleanup.policy": ""}, None),
        ({"cleanup.policy": "delete,delete"}, None),
        ({"cleanup.policy": "compact"}, ONLY_DELETE),
        ({"cleanup.policy": "delete,compact"}, ONLY_DELETE),
        ({"local.retention.ms": "604800000"}, None),
        (
            {"local.retention.ms": "604800001"},
            "Invalid value 604800001 for configuration local.retention.ms: "
            "Value must not be more than retention.ms property value: 604800000",
        ),
        (
            {"local.retention.ms": "-1"},
            "Invalid value -1 for configuration local.retention.ms: "
            "Value must not be -1 as retention.ms value is set as 604800000.",
        ),
        ({"local.retention.ms": "-1", "retention.ms": "-1"}, None),
        ({"local.retention.ms": "9", "retention.ms": "-1"}, None),
        ({"local.retention.bytes": "9"}, None),
        ({"local.retention.bytes": "-1", "retention.bytes": "-5"}, None),
        (
            {"local.retention.bytes": "9", "retention.bytes": "8"},
            "Invalid value 9 for configuration local.retention.bytes: "
            "Value must not be more than retention.bytes property value: 8",
        ),
        (
            {"local.retention.bytes": "-1", "retention.bytes": "0"},
            "Invalid value -1 for configuration local.retention.bytes: "
            "Value must not be -1 as retention.bytes value is set as 0.",
        ),
        ({"remote.copy.lag.ms": "9", "local.retention.ms": "9"}, None),
        (
            {"remote.copy.lag.ms": "9", "local.retention.ms": "8"},
            "Invalid value 9 for configuration remote.copy.lag.ms: "
            "Value must not exceed local.retention.ms (effective value: 8)",
        ),
        (
            {"remote.copy.lag.ms": "9", "retention.ms": "8"},
            "Invalid value 9 for configuration remote.copy.lag.ms: "
            "Value must not exceed local.retention.ms (effective value: 8)",
        ),
        ({"remote.copy.lag.bytes": "9"}, None),
        (
            {"remote.copy.lag.bytes": "9", "local.retention.bytes": "0"},
            "Invalid value 9 for configuration remote.copy.lag.bytes: "
            "Value must not exceed local.retention.bytes (effective value: 0)",
        ),
        ({COPY_DISABLE: "true"}, None),
        ({COPY_DISABLE: "true", "local.retention.ms": "9", "retention.ms": "9"}, None),
    ],
)
def test_values_of_a_tiered_topic(texts: Mapping[str, str], sentence: str | None) -> None:
    """KIP-405, and KIP-1241 for the lag of copies. Without the topic's key, none of it is checked."""
    assert refusal(broker(), TIERED | texts) == sentence
    assert refusal(broker(), texts) is None


@pytest.mark.parametrize(("unit", "whole"), [("ms", "9"), ("bytes", "9")])
def test_topic_that_is_not_copied_any_more(unit: str, whole: str) -> None:
    """KIP-950: its local records must have the limits of all records."""
    texts = TIERED | {COPY_DISABLE: "true", f"retention.{unit}": whole, f"local.retention.{unit}": "8"}

    refused = refusal(broker(), texts)
    assert refused is not None
    assert refused.startswith(f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and")
    assert refusal(broker(), texts | {f"local.retention.{unit}": "-2"}) is None


def test_checks_come_in_kafka_s_order() -> None:
    """The first broken rule is reported: the switch of the system, the policy, sizes, times, lags, and copies."""
    texts = TIERED | {
        "cleanup.policy": "compact",
        "retention.bytes": "5",
        "local.retention.bytes": "6",
        "retention.ms": "5",
        "local.retention.ms": "6",
        COPY_DISABLE: "true",
    }
    fixed = {"cleanup.policy": "delete"}, {"local.retention.bytes": "4"}, {"local.retention.ms": "4"}
    lags = {"remote.copy.lag.bytes": "5"}, {"remote.copy.lag.ms": "5"}

    assert refusal(load(), texts) == SYSTEM_OFF
    seen = [refusal(broker(), texts)]
    for fix in fixed:
        texts |= fix
        seen.append(refusal(broker(), texts))
    assert refusal(broker(), texts | lags[0] | lags[1]) == (
        "Invalid value 5 for configuration remote.copy.lag.bytes: "
        "Value must not exceed local.retention.bytes (effective value: 4)"
    )
    assert [each and each.split(" for configuration ")[-1].split(":")[0] for each in seen[1:3]] == [
        "local.retention.bytes",
        "local.retention.ms",
    ]
    assert seen[0] == ONLY_DELETE
    assert seen[3] is not None
    assert "`local.retention.bytes`" in seen[3]


@pytest.mark.parametrize(
    ("texts", "removed", "is_refused"),
    [
        ({ENABLE: "false"}, (), True),
        ({}, (ENABLE,), True),
        ({"retention.ms": "9"}, (ENABLE,), True),
        ({ENABLE: "false", DELETE: "true"}, (), False),
        ({DELETE: "true"}, (ENABLE,), False),
        ({"retention.ms": "9"}, (), False),
        ({ENABLE: "true"}, (), False),
    ],
)
def test_turning_off(texts: Mapping[str, str], removed: Collection[str], is_refused: bool) -> None:
    """KIP-950: only together with the deletion of what is in remote storage. Removing the key turns it off, too."""
    refused = refusal(broker(), texts, TIERED, removed)

    assert (refused is not None) is is_refused
    assert refused is None or refused.startswith(NOT_KEPT)


def test_setting_of_the_deletion_may_be_older() -> None:
    """It may be set at any time before; removing both at once is refused."""
    former = TIERED | {DELETE: "true"}

    assert refusal(broker(), {ENABLE: "false"}, former) is None
    assert (refusal(broker(), {}, former, (ENABLE, DELETE)) or "").startswith(NOT_KEPT)


def test_kept_values_count() -> None:
    """A change that does not name remote.storage.enable is checked against it."""
    former = TIERED | {"local.retention.ms": "10", "retention.ms": "20"}

    assert refusal(broker(), {"retention.ms": "9"}, former) is not None
    assert refusal(broker(), {"cleanup.policy": "compact"}, former) == ONLY_DELETE
    assert refusal(broker(), {"retention.ms": "9"}, former, ("local.retention.ms",)) is None


def test_broker_s_values_count() -> None:
    """A topic without values of its own has those of the broker."""
    config = broker(log_retention_ms="100", log_local_retention_ms="50")

    assert refusal(config, TIERED) is None
    assert refusal(config, TIERED | {"retention.ms": "49"}) is not None


def test_changes_while_the_system_is_off() -> None:
    """A tiered topic of an earlier start accepts no change of its configuration then, as in Kafka."""
    assert refusal(load(), {"retention.ms": "9"}, TIERED) == SYSTEM_OFF
    assert refusal(load(), {ENABLE: "false", DELETE: "true"}, TIERED) is None


def test_topics_of_the_broker_stay_local() -> None:
    """Kafka never copies them, whatever their configuration says."""
    config = broker()

    assert config.log_config(TIERED, "orders").tiered
    for name in (CONSUMER_OFFSETS, SHARE_GROUP_STATE, REMOTE_LOG_METADATA):
        assert not config.log_config(TIERED, name).tiered
