"""Topic settings that both brokers reject, with the same error, by each way to set them.

Every key with values at the limits of its validator, unknown keys, and conflicting values. Nothing changes: the
requests only validate. The sentence is our own; it names the key where Apache Kafka's does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import pytest

from config.keys import TOPIC_KEYS
from config.keys.own import OWN_TOPIC_KEYS
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.java import KAFKA_LINE
from tests.support.recorded_answers import RecordedAnswers
from tests.support.schema_facts import config_facts

_TOPIC_RESOURCE, _SET, _APPEND, _SUBTRACT = 2, 0, 2, 3
NAME = "refused-settings"

VALUES = (
    *("", " ", "abc", "true", "TRUE", "yes", "1e3", "1.5", " 7 ", "+7", "0x10", "7L", "1_000"),
    *("-131073", "-131072", "-3", "-2", "-1", "0", "0.0", "1", "2", "9", "10", "17", "18", "22", "23", "1048575"),
    *("1048576", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "NaN", "Infinity"),
    *("compact", "delete", "compact,delete", "compact, delete", "delete,delete", "none", "COMPACT", ","),
    *("producer", "zstd", "ZSTD", "LogAppendTime", "logappendtime", "*", "0:1", "0:1,1:x", "0:1,", "none:none"),
)
COMBINATIONS: tuple[Mapping[str, str], ...] = (
    {"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.storage.enable": "false", "remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
    {"local.retention.ms": "10", "retention.ms": "5"},
    {"local.retention.bytes": "10", "retention.bytes": "5"},
    {"remote.storage.enable": "true", "local.retention.ms": "10", "retention.ms": "5"},
    {"retention.ms": "abc", "no.such.key": "1"},
    {"no.such.key": "1"},
    {"log.retention.ms": "1"},
    {"message.format.version": "0.10.0"},
    {"message.downconversion.enable": "false"},
    {"message.timestamp.difference.max.ms": "5"},
    {"segment.bytes": "100", "internal.segment.bytes": "100"},
    {"": "1"},
    {"Retention.ms": "1"},
    {"segment.jitter.ms": "10", "segment.ms": "5"},
    {"min.insync.replicas": "5"},
)


def ask_create(client: DataClient, settings: Mapping[str, str]) -> tuple[ErrorCode, str]:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topic = CreatableTopic(name=f"{NAME}-new", num_partitions=1, replication_factor=1, configs=configs)
    [answer] = client.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000, validate_only=True).topics
    return ErrorCode(answer.error_code), answer.error_message or ""


def ask_alter(client: DataClient, settings: Mapping[str, str], operation: int = _SET) -> tuple[ErrorCode, str]:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=NAME, configs=configs)
    [answer] = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=True).responses
    return ErrorCode(answer.error_code), answer.error_message or ""


def answers(broker: RunningBroker, settings: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the name of the error and its message, by the way to set these."""
    with DataClient(HOST, broker.port) as client:
        found = {
            "create": ask_create(client, settings),
            "set": ask_alter(client, settings),
            "append": ask_alter(client, settings, _APPEND),
            "subtract": ask_alter(client, settings, _SUBTRACT),
        }
    return {way: (error.name, message) for way, (error, message) in found.items()}


def differences(
    ours: Mapping[str, Sequence[str]], kafka: Mapping[str, Sequence[str]], settings: Mapping[str, str]
) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    found = []
    for way, theirs in kafka.items():
        mine = ours[way]
        names = [key for key in settings if key and key in theirs[1]]
        if mine[0] != theirs[0] or (names and not any(key in mine[1] for key in settings if key)):
            found.append((way, mine, theirs))
    return found


@pytest.fixture(scope="module")
def broker(shared_broker: Callable[[str], RunningBroker]) -> Callable[[str], RunningBroker]:
    """Return a function that returns the broker of a kind, which has the topic."""

    @functools.cache
    def with_topic(kind: str) -> RunningBroker:
        broker = shared_broker(kind)
        with DataClient(HOST, broker.port) as client:
            client.create_topic(NAME)
        return broker

    return with_topic


_ADDED = config_facts("changed-configs-4.3.1-to-4.4.0") if KAFKA_LINE < (4, 4) else {}


@pytest.mark.parametrize("key", sorted(TOPIC_KEYS.keys() - {own.name for own in OWN_TOPIC_KEYS} - _ADDED.keys()))
def test_values_of_each_key(key: str, broker: Callable[[str], RunningBroker], recorded: RecordedAnswers) -> None:
    """Bad input: INVALID_CONFIG for values that the validator rejects, nothing for others."""

    def ask(kind: str) -> list[dict[str, tuple[str, str]]]:
        return [answers(broker(kind), {key: value}) for value in VALUES]

    asked = zip(VALUES, ask("ours"), recorded.of(key, lambda: ask("kafka")), strict=True)
    found = {value: wrong for value, ours, kafka in asked if (wrong := differences(ours, kafka, {key: value}))}
    assert not found


@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_conflicting_settings(
    settings: Mapping[str, str], broker: Callable[[str], RunningBroker], recorded: RecordedAnswers
) -> None:
    """Both brokers reject conflicting settings and unknown keys alike."""
    kafka = recorded.of(str(settings), lambda: answers(broker("kafka"), settings))
    assert not differences(answers(broker("ours"), settings), kafka, settings)
