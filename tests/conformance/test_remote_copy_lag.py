"""How far copies to tiered storage may lag (KIP-1241): limits, and the rule about local retention, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.support.brokers import HOST, RunningBroker
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.data_client import DataClient
from tests.support.settled import wait_for_changes

pytestmark = needs_4_4

BROKER, SET, DELETE = 4, 0, 1
DELETED = ""
ALL_BROKERS = ""
UNITS = ("ms", "bytes")
WHOLE, LOCAL, LAG = (
    (None, "-1", "1000"),
    (None, "-2", "-1", "500", "2000"),
    (None, "-2", "-1", "0", "500", "501", "2000"),
)
#: Not checked at a start, as topics without tiered storage ignore it.
AT_START = {"log.retention.ms": "1000", "log.local.retention.ms": "500", "log.remote.copy.lag.ms": "501"}
#: A sequence of changes that are applied unless they are refused.
CHANGES: tuple[Mapping[str, str], ...] = (
    {"log.remote.copy.lag.ms": "700"},
    {"log.local.retention.ms": "800", "log.remote.copy.lag.ms": "700"},
    {"log.local.retention.ms": "600"},
    {"log.retention.ms": "650"},
    {"log.local.retention.ms": "-2"},
    {"log.retention.ms": "650"},
    {"log.retention.ms": "750"},
    {"log.remote.copy.lag.ms": "800"},
    {"log.remote.copy.lag.bytes": "100"},
    {"log.retention.bytes": "50"},
    {"log.local.retention.bytes": "40"},
    {"log.remote.copy.lag.bytes": "41"},
    {"log.remote.copy.lag.bytes": "-1"},
    {"log.local.retention.bytes": "40"},
    {"log.remote.copy.lag.bytes": "40"},
    {"log.retention.ms": "1000", "log.local.retention.ms": "900", "log.remote.copy.lag.ms": "900"},
    {"log.local.retention.ms": DELETED},
    {"log.remote.copy.lag.ms": DELETED},
    {"log.local.retention.ms": DELETED, "log.remote.copy.lag.ms": "500"},
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningBroker]]:
    home: Path = tmp_path_factory.mktemp("lag")
    started: list[RunningBroker] = []
    try:
        for kind, start in BROKERS_OF_4_4.items():
            started.append(start(home / kind, AT_START))
        yield started
    finally:
        for broker in started:
            broker.kill()


def change(broker: RunningBroker, settings: Mapping[str, str], *, name: str = ALL_BROKERS, only: bool = False) -> str:
    """Change dynamic settings, or validate them only; return the error."""
    configs = [
        AlterableConfig(name=key, config_operation=SET if value != DELETED else DELETE, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
    with DataClient(HOST, broker.port) as client:
        [answer] = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=only).responses
    return f"{ErrorCode(answer.error_code).name} {answer.error_message}"


def create(broker: RunningBroker, settings: Mapping[str, str]) -> str:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    with DataClient(HOST, broker.port) as client:
        [answer] = client.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000, validate_only=True).topics
    return f"{ErrorCode(answer.error_code).name} {answer.error_message}"


def combinations(prefix: str, unit: str) -> Iterator[dict[str, str]]:
    keys = [f"{prefix}{key}.{unit}" for key in ("retention", "local.retention", "remote.copy.lag")]
    for values in product(WHOLE, LOCAL, LAG):
        if any(values):
            yield {key: value for key, value in zip(keys, values, strict=True) if value is not None}


@pytest.mark.parametrize(
    "settings",
    [
        {"log.flush.interval.messages": "9"},
        {"message.max.bytes": "2000000"},
        {"log.retention.minutes": "9"},
        {"log.cleaner.threads": "2"},
        {"max.connections": "1000"},
        {"errors.deadletterqueue.auto.create.topics.enable": "true"},
        {"cordoned.log.dirs": ""},
    ],
    ids=str,
)
def test_other_changes_while_the_rule_is_broken(brokers: list[RunningBroker], settings: Mapping[str, str]) -> None:
    """The settings of the start break it; nothing checks them then."""
    ours, kafka = brokers
    assert change(ours, settings, only=True) == change(kafka, settings, only=True)


@pytest.mark.parametrize("name", [ALL_BROKERS, "1"])
@pytest.mark.parametrize("unit", UNITS)
def test_dynamic_settings_of_brokers(brokers: list[RunningBroker], unit: str, name: str) -> None:
    ours, kafka = brokers
    wrong = []
    for settings in combinations("log.", unit):
        settings = settings if unit == "ms" else settings | {"log.remote.copy.lag.ms": "0"}
        found, expected = (change(each, settings, name=name, only=True) for each in (ours, kafka))
        if found != expected:
            wrong.append((settings, found, expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("unit", UNITS)
def test_settings_of_topics(brokers: list[RunningBroker], unit: str) -> None:
    """Without tiered storage the rule does not hold for them."""
    ours, kafka = brokers
    for settings in combinations("", unit):
        assert create(ours, settings) == create(kafka, settings), settings


def test_changes_one_after_the_other(brokers: list[RunningBroker]) -> None:
    """A change may break the rule by any of the three settings."""
    ours, kafka = brokers
    for settings in CHANGES:
        assert change(ours, settings) == change(kafka, settings), settings
        wait_for_changes(kafka)
