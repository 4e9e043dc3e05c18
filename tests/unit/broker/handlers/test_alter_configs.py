"""AlterConfigs. Error codes and messages are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from broker.handlers.alter_configs import alter_configs
from metadata.configs import alter_config
from protocol.messages.alter_configs import ALTER_CONFIGS, AlterableConfig, AlterConfigsResource
from tests.support.config_broker import ConfigBroker
from tests.support.wire_frames import recorded_frames

TOPIC, BROKER, LOGGER = 2, 4, 8


def replace(
    broker: ConfigBroker, kind: int, name: str, values: list[tuple[str, str | None]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = ALTER_CONFIGS.request(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=to) for key, to in values],
            )
        ],
        validate_only=validate_only,
    )
    answer = broker.ask(alter_configs, ALTER_CONFIGS, 2, request)
    return [(each.error_code, each.error_message) for each in answer.responses]


def test_replacing_removes_the_keys_that_are_not_named() -> None:
    """KIP-133: AlterConfigs replaces the whole configuration of a resource."""
    broker = ConfigBroker("t")
    before = {"retention.ms": "5", "segment.ms": "6"}
    broker.controller.submit(alter_config(broker.controller.image, TOPIC, "t", before))

    assert replace(broker, TOPIC, "t", [("segment.ms", "7")]) == [(0, None)]
    assert broker.controller.image.topic_config("t") == {"segment.ms": "7"}
    assert replace(broker, TOPIC, "t", []) == [(0, None)]
    assert broker.controller.image.topic_config("t") == {}


@pytest.mark.parametrize(
    ("kind", "name", "values", "code", "message"),
    [
        (TOPIC, "t", [("retention.ms", None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", "1"), ("retention.ms", "2")], 42, "Error due to duplicate config keys"),
        (TOPIC, "t", [("no.such", "1")], 40, "Unknown topic config name: no.such"),
        (TOPIC, "missing", [("retention.ms", "1")], 3, "The topic 'missing' does not exist."),
        (LOGGER, "1", [("root", "INFO")], 42, "Unknown resource type 8"),
        (BROKER, "1", [("num.partitions", "2")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "2", [("log.cleaner.threads", "2")], 42, "Unexpected broker id, expected 1, but received 2"),
        (
            BROKER,
            "",
            [("log.cleaner.threads", "2")],
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (3, "t", [("a", "b")], 42, "Unknown resource type 3"),
    ],
)
def test_replacing_refused(kind: int, name: str, values: list[tuple[str, str | None]], code: int, message: str) -> None:
    """AlterConfigs makes the same checks as IncrementalAlterConfigs."""
    broker = ConfigBroker("t")

    assert replace(broker, kind, name, values) == [(code, message)]
    assert broker.controller.batches == []


def test_validate_only_changes_nothing() -> None:
    """The response is the same as that of a real change."""
    broker = ConfigBroker("t")

    assert replace(broker, TOPIC, "t", [("retention.ms", "5")], validate_only=True) == [(0, None)]
    assert broker.controller.batches == []


def test_recorded_requests_are_answered_as_kafka_did() -> None:
    """Covers all versions."""
    broker = ConfigBroker("sweep2")
    frames = [frame for frame in recorded_frames("sweep-admin.tsv") if frame.api is ALTER_CONFIGS]

    for request, response in zip(frames[::2], frames[1::2], strict=True):
        asked, _ = request.message.decode(request.version, request.data, request.position)
        expected, _ = response.message.decode(response.version, response.data, response.position)
        assert broker.ask(alter_configs, ALTER_CONFIGS, request.version, asked) == expected
