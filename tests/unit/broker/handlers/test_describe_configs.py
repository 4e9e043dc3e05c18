"""DescribeConfigs, compared with responses of Apache Kafka 4.3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.handlers.describe_configs import describe_configs
from metadata.configs import alter_config
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.schema import Struct
from runtime import logs
from tests.support.config_broker import ConfigBroker
from tests.support.schema_facts import config_facts
from tests.support.wire_frames import recorded_frames

TOOLS = Path(__file__).parents[3] / "data" / "tools"

RECORDED_BROKER = {
    "advertised.listeners": "PLAINTEXT://127.0.0.1:29192",
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:29193",
    "group.initial.rebalance.delay.ms": "0",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "PLAINTEXT://127.0.0.1:29194,CONTROLLER://127.0.0.1:29193",
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.cleaner.threads": "1",
    "log.dirs": "<log.dir>",
    "log.initial.task.delay.ms": "2000",
    "log.retention.check.interval.ms": "3000",
    "node.id": "1",
    "num.partitions": "1",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "process.roles": "broker,controller",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "super.users": "User:ANONYMOUS",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}
"""The keys that the recorded broker's file set."""


def describe(
    broker: ConfigBroker, kind: int, name: str, keys: list[str] | None = None, *, documented: bool = False
) -> Struct:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DESCRIBE_CONFIGS.request(resources=[resource], include_synonyms=True, include_documentation=documented)
    (result,) = broker.ask(describe_configs, DESCRIBE_CONFIGS, 4, request).results
    return result


def as_the_tool_prints(result: Struct) -> list[str]:
    """Return the lines of kafka-configs --describe --all, which sorts them."""
    sources = {1: "DYNAMIC_TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
               4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG", 8: "DYNAMIC_GROUP_CONFIG"}  # fmt: skip
    lines = []
    for entry in sorted(result.configs, key=lambda entry: entry.name):
        if entry.name in NEW_IN_4_4:
            continue
        text = ", ".join(f"{sources[each.source]}:{each.name}={_null(each.value)}" for each in entry.synonyms)
        sensitive = str(entry.is_sensitive).lower()
        lines.append(f"  {entry.name}={_null(entry.value)} sensitive={sensitive} synonyms={{{text}}}")
    return lines


def _null(value: str | None) -> str:
    return "null" if value is None else value


NEW_IN_4_4 = frozenset(config_facts("changed-configs-4.3.1-to-4.4.0"))
"""Keys that the recorded 4.3.1 did not have."""


def recorded_lines(name: str) -> list[str]:
    text = next(TOOLS.glob(f"{name}-*.txt")).read_text()
    return [line for line in text.splitlines() if re.match(r"  \S+=", line)]


def alter(broker: ConfigBroker, kind: int, name: str, **changes: str) -> None:
    settings = {key.replace("_", "."): value for key, value in changes.items()}
    broker.controller.submit(alter_config(broker.controller.image, kind, name, settings))


def test_all_of_a_topic_as_kafka_configs_prints_it() -> None:
    """Recorded: segment.bytes set on the topic, everything else default."""
    broker = ConfigBroker("demo")
    alter(broker, ResourceType.TOPIC, "demo", segment_bytes="1048576")

    assert as_the_tool_prints(describe(broker, ResourceType.TOPIC, "demo")) == recorded_lines("54")


def test_all_of_a_broker_as_kafka_configs_prints_it() -> None:
    """Recorded: the same keys, values, sources and synonyms as of a KRaft broker."""
    broker = ConfigBroker(settings=RECORDED_BROKER)

    assert as_the_tool_prints(describe(broker, ResourceType.BROKER, "1")) == recorded_lines("60")


def test_dynamic_values_of_a_broker_as_kafka_configs_prints_them() -> None:
    """Recorded: background.threads and log.cleaner.threads set on broker 1."""
    broker = ConfigBroker(settings=RECORDED_BROKER)
    alter(broker, ResourceType.BROKER, "1", log_cleaner_threads="1", background_threads="5")

    result = describe(broker, ResourceType.BROKER, "1", ["log.cleaner.threads", "background.threads"])
    assert as_the_tool_prints(result) == recorded_lines("64")


def test_cluster_defaults_as_kafka_configs_prints_them() -> None:
    """Recorded: min.insync.replicas is set from the beginning (KIP-966)."""
    broker = ConfigBroker()
    alter(broker, ResourceType.BROKER, "", log_flush_interval_messages="10000")

    assert as_the_tool_prints(describe(broker, ResourceType.BROKER, "")) == recorded_lines("65")


def test_group_as_kafka_configs_prints_it() -> None:
    """Recorded: consumer.session.timeout.ms set on the group."""
    broker = ConfigBroker()
    alter(broker, ResourceType.GROUP, "g848", consumer_session_timeout_ms="50000")

    result = describe(broker, ResourceType.GROUP, "g848", ["consumer.session.timeout.ms"])
    assert as_the_tool_prints(result) == recorded_lines("69")


def recorded_exchanges() -> Iterator[tuple[int, Struct, Struct]]:
    frames = [frame for frame in recorded_frames("sweep-admin.tsv") if frame.api is DESCRIBE_CONFIGS]
    for request, response in zip(frames[::2], frames[1::2], strict=True):
        yield (
            request.version,
            request.message.decode(request.version, request.data, request.position)[0],
            response.message.decode(response.version, response.data, response.position)[0],
        )


def test_recorded_requests_are_answered_as_kafka_did() -> None:
    """Compares every field in every version, and the order of the entries."""
    broker = ConfigBroker("sweep", "nope")
    alter(broker, ResourceType.TOPIC, "sweep", retention_ms="86400000")

    for version, request, response in recorded_exchanges():
        answer = broker.ask(describe_configs, DESCRIBE_CONFIGS, version, request)
        for result in answer.results:
            result.configs = [each for each in result.configs if each.name not in NEW_IN_4_4]
        assert answer == response


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (2, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (2, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (4, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (4, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (8, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (8, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (16, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (32, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (0, "x", ErrorCode.INVALID_REQUEST, None),
        (1, "x", ErrorCode.INVALID_REQUEST, None),
        (99, "x", ErrorCode.INVALID_REQUEST, None),
    ],
)
def test_errors(kind: int, name: str, code: ErrorCode, message: str | None) -> None:
    """The same as in Kafka. A bad resource fails alone."""
    result = describe(ConfigBroker(), kind, name)

    assert result.error_code == code
    assert message is None or result.error_message == message
    assert result.configs == []


def test_only_the_requested_keys() -> None:
    """An empty list requests all keys. A key that does not exist is left out."""
    broker = ConfigBroker("t")

    assert [entry.name for entry in describe(broker, 2, "t", ["retention.ms", "no.such"]).configs] == ["retention.ms"]
    public = {name for name, fact in config_facts("topic-configs").items() if not fact["internal"]}
    assert public == {entry.name for entry in describe(broker, 2, "t", []).configs}


def test_secrets_and_unknown_keys_have_no_value() -> None:
    """An unknown key may hold a secret."""
    broker = ConfigBroker(settings={"ssl.key.password": "hush", "my.plugin.token": "hush"})
    entries = {entry.name: entry for entry in describe(broker, 4, "1").configs}

    for name in ("ssl.key.password", "my.plugin.token"):
        assert entries[name].value is None
        assert entries[name].is_sensitive
        assert [each.value for each in entries[name].synonyms] == [None]


def test_listener_prefixed_values_have_the_type_of_their_key() -> None:
    """The same as in Kafka: they are read-only, because the table of dynamic keys has no prefixes."""
    broker = ConfigBroker()
    name = "listener.name.plaintext.ssl.keystore.location"
    broker.controller.submit(alter_config(broker.controller.image, 4, "1", {name: "/x"}))

    (entry,) = describe(broker, 4, "1", [name]).configs
    assert (entry.value, entry.read_only, entry.config_source, entry.config_type) == ("/x", True, 2, 2)


def test_times_in_several_units_are_synonyms() -> None:
    """The same as in Kafka: synonyms that precede the key's own name are left out."""
    broker = ConfigBroker("t")
    alter(broker, 4, "", log_retention_ms="1000")
    alter(broker, 4, "1", log_retention_ms="2000")

    (entry,) = describe(broker, 2, "t", ["retention.ms"]).configs
    assert (entry.value, entry.config_source) == ("2000", 2)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("log.retention.ms", "2000", 2),
        ("log.retention.ms", "1000", 3),
        ("log.retention.hours", "168", 5),
    ]
    (hours,) = describe(broker, 4, "1", ["log.retention.hours"]).configs
    assert [(each.name, each.value, each.source) for each in hours.synonyms] == [("log.retention.hours", "168", 5)]


def test_client_metrics() -> None:
    """KIP-714: there are three keys. A key that was set has its own source."""
    broker = ConfigBroker()
    alter(broker, 16, "s", interval_ms="1000")

    entries = {entry.name: entry for entry in describe(broker, 16, "s").configs}
    assert {name: (entry.value, entry.config_source) for name, entry in entries.items()} == {
        "interval.ms": ("1000", 7),
        "match": ("", 5),
        "metrics": ("", 5),
    }


def test_loggers() -> None:
    """KIP-412: lists Kafka's loggers, our loggers and root."""
    logs.setup("WARN")
    entries = {entry.name: entry for entry in describe(ConfigBroker(), 8, "1").configs}

    assert entries["root"].value == "WARN"
    assert {"storage", "broker.network", "kafka.network.Processor", "state.change.logger"} <= set(entries)
    assert entries["root"].config_source == 6
    assert not entries["root"].read_only


def test_documentation_only_if_requested() -> None:
    """KIP-569."""
    broker = ConfigBroker("t")

    (with_it,) = describe(broker, 2, "t", ["retention.ms"], documented=True).configs
    (without,) = describe(broker, 2, "t", ["retention.ms"]).configs
    assert with_it.documentation
    assert without.documentation is None


def test_v0_only_says_which_values_are_defaults() -> None:
    """A value that the topic sets is no default. Sources came with v1 (KIP-226)."""
    broker = ConfigBroker("t")
    alter(broker, ResourceType.TOPIC, "t", retention_ms="5")
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=["retention.ms", "flush.ms"]
    )
    request = DESCRIBE_CONFIGS.request(resources=[resource])

    (result,) = broker.ask(describe_configs, DESCRIBE_CONFIGS, 0, request).results

    assert {entry.name: entry.is_default for entry in result.configs} == {"retention.ms": False, "flush.ms": True}
