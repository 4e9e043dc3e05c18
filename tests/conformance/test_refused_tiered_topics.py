"""Settings of tiered storage that both brokers reject or accept, with the same error and the same sentence.

Topics with each combination of limits, changes of topics that are tiered or not, and dynamic settings of the broker.
Nothing changes but the topics that the tests create: the requests only validate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.describe_configs import DESCRIBE_CONFIGS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.messages.metadata import METADATA
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.java import KAFKA_LINE
from tests.support.recorded_answers import RecordedAnswers
from tests.support.settled import wait_for_changes, wait_for_topic
from tests.support.tiered_brokers import TIERED

pytestmark = pytest.mark.skipif(KAFKA_LINE < (4, 4), reason="earlier releases do not know how far copies may lag")

ENABLE, DELETE, COPY_DISABLE = "remote.storage.enable", "remote.log.delete.on.disable", "remote.log.copy.disable"
METADATA_TOPIC = "__remote_log_metadata"
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
REMOVED = ""

#: A setting of storage and metadata that no key of the broker is.
PLUGIN_SETTINGS = {"rsm.config.secret": "hidden"}

POLICIES = (
    *({"cleanup.policy": policy} for policy in ("", "delete", "compact", "compact,delete", "delete,delete", "none")),
    *({ENABLE: text} for text in ("TRUE", " true ", "yes", "")),
    {"segment.bytes": "abc"},
    {"no.such.key": "1"},
    {"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"},
    {"cleanup.policy": "compact", "retention.ms": "1", "local.retention.ms": "2"},
    {"retention.ms": "1", "local.retention.ms": "2", "retention.bytes": "1", "local.retention.bytes": "2"},
    {"remote.copy.lag.ms": "-2"},
    {"local.retention.ms": "-3"},
)
#: Topics that exist, by what their configuration is.
FORMER: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "tiered": {ENABLE: "true"},
    "limited": {
        ENABLE: "true",
        "retention.ms": "2000",
        "local.retention.ms": "1000",
        "remote.copy.lag.ms": "500",
        "retention.bytes": "2000",
        "local.retention.bytes": "1000",
        "remote.copy.lag.bytes": "500",
    },
    "read-only": {ENABLE: "true", COPY_DISABLE: "true"},
    "leaving": {ENABLE: "true", DELETE: "true"},
    "compacted": {"cleanup.policy": "compact"},
}
CHANGES: tuple[Mapping[str, str], ...] = (
    {ENABLE: "true"},
    {ENABLE: "false"},
    {ENABLE: REMOVED},
    {ENABLE: "false", DELETE: "true"},
    {ENABLE: REMOVED, DELETE: "true"},
    {ENABLE: "false", DELETE: REMOVED},
    {ENABLE: REMOVED, DELETE: REMOVED},
    {DELETE: "false"},
    {ENABLE: "false", COPY_DISABLE: "true"},
    {COPY_DISABLE: "true"},
    {COPY_DISABLE: REMOVED},
    {COPY_DISABLE: "true", "local.retention.ms": "-2"},
    {COPY_DISABLE: "true", "local.retention.ms": "2000", "local.retention.bytes": "2000"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": ""},
    {"retention.ms": "900"},
    {"retention.ms": REMOVED},
    {"retention.bytes": "900"},
    {"local.retention.ms": REMOVED},
    {"local.retention.ms": "-1"},
    {"local.retention.bytes": "400"},
    {"remote.copy.lag.bytes": "1001"},
    {"remote.copy.lag.ms": REMOVED},
    {"max.message.bytes": "2000"},
    {"max.message.bytes": "abc"},
)
DYNAMIC_KEYS = (
    "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
    "log.local.retention.ms",
    "log.local.retention.bytes",
    "log.remote.copy.lag.ms",
    "log.remote.copy.lag.bytes",
    "follower.fetch.last.tiered.offset.enable",
)
STATIC_KEYS = (
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.task.interval.ms",
    "remote.log.manager.task.retry.jitter",
    "remote.log.manager.thread.pool.size",
    "remote.log.metadata.custom.metadata.max.bytes",
    "remote.log.metadata.manager.class.name",
    "remote.log.reader.max.pending.tasks",
    "remote.log.storage.manager.class.name",
    "remote.log.storage.system.enable",
)
VALUES = ("", "abc", "true", "-3", "-2", "-1", "0", "1", "4", "5", "10", "20", "21", "2147483648")

Start = Callable[[str], RunningBroker]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a function that returns the broker of a kind, which has the topics of FORMER."""
    started: list[RunningBroker] = []

    @functools.cache
    def with_topics(kind: str) -> RunningBroker:
        broker = TIERED[kind](tmp_path_factory.mktemp(kind), PLUGIN_SETTINGS)
        started.append(broker)
        with DataClient(HOST, broker.port) as client:
            for name, settings in FORMER.items():
                client.create_topic(name, configs=settings)
        wait_for_changes(broker)
        return broker

    yield with_topics
    for broker in started:
        broker.kill()


def _error(answer: Any) -> str:
    return f"{ErrorCode(answer.error_code).name} {answer.error_message}"


def created(broker: RunningBroker, topics: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the errors of topics with these settings."""
    wanted = [
        {
            "name": f"new-{number}",
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in settings.items()],
        }
        for number, settings in enumerate(topics)
    ]
    with DataClient(HOST, broker.port) as client:
        answers = client.call(CREATE_TOPICS, 7, topics=wanted, timeout_ms=60_000, validate_only=True).topics
    by_name = {answer.name: _error(answer) for answer in answers}
    return [by_name[f"new-{number}"] for number in range(len(topics))]


def changed(broker: RunningBroker, kind: int, name: str, changes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the errors of changes, each alone."""
    found = []
    with DataClient(HOST, broker.port) as client:
        for settings in changes:
            configs = [
                {"name": key, "config_operation": _SET, "value": value}
                if value != REMOVED or key == "cleanup.policy"
                else {"name": key, "config_operation": _DELETE, "value": None}
                for key, value in settings.items()
            ]
            resource = {"resource_type": kind, "resource_name": name, "configs": configs}
            [answer] = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=True).responses
            found.append(_error(answer))
    return found


def replaced(broker: RunningBroker, name: str, changes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the errors of whole configurations of a topic (AlterConfigs)."""
    found = []
    with DataClient(HOST, broker.port) as client:
        for settings in changes:
            configs = [{"name": key, "value": value} for key, value in settings.items() if value != REMOVED]
            resource = {"resource_type": _TOPIC, "resource_name": name, "configs": configs}
            [answer] = client.call(ALTER_CONFIGS, 2, resources=[resource], validate_only=True).responses
            found.append(_error(answer))
    return found


def limits(unit: str) -> list[dict[str, str]]:
    """Return the combinations of limits of a tiered topic."""
    keys = (f"retention.{unit}", f"local.retention.{unit}", f"remote.copy.lag.{unit}", COPY_DISABLE)
    values = (
        (None, "-1", "0", "1000"),
        (None, "-2", "-1", "500", "1000", "2000"),
        (None, "-1", "0", "500", "501"),
        (None, "true"),
    )
    return [
        {ENABLE: "true"} | {key: value for key, value in zip(keys, row, strict=True) if value is not None}
        for row in product(*values)
    ]


def check(asked: Sequence[Any], ours: Sequence[str], kafka: Sequence[str]) -> None:
    wrong = [each for each in zip(asked, ours, kafka, strict=True) if each[1] != each[2]]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("unit", ["ms", "bytes"])
def test_limits_of_new_topics(unit: str, start: Start, recorded: RecordedAnswers) -> None:
    asked = limits(unit)

    check(asked, created(start("ours"), asked), recorded.of(unit, lambda: created(start("kafka"), asked)))


def test_other_settings_of_new_topics(start: Start, recorded: RecordedAnswers) -> None:
    asked = [{ENABLE: "true"} | each for each in POLICIES]

    check(asked, created(start("ours"), asked), recorded.of("policies", lambda: created(start("kafka"), asked)))


@pytest.mark.parametrize("former", FORMER)
def test_changes_of_topics(former: str, start: Start, recorded: RecordedAnswers) -> None:
    """What a topic had before counts, and a key that is removed has its default again."""

    def ask(kind: str) -> list[str]:
        broker = start(kind)
        return [*changed(broker, _TOPIC, former, CHANGES), *replaced(broker, former, CHANGES)]

    check([*CHANGES, *CHANGES], ask("ours"), recorded.of(former, lambda: ask("kafka")))


@pytest.mark.parametrize("name", ["", "1"], ids=["all-brokers", "one-broker"])
def test_dynamic_settings_of_brokers(name: str, start: Start, recorded: RecordedAnswers) -> None:
    """Keys that may change while the broker runs, within their limits, and keys that may not."""
    asked = [{key: value} for key, value in product(DYNAMIC_KEYS, VALUES) if value] + [
        {key: "1"} for key in STATIC_KEYS
    ]
    kafka = recorded.of(f"brokers {name}", lambda: changed(start("kafka"), _BROKER, name, asked))

    check(asked, changed(start("ours"), _BROKER, name, asked), kafka)


def test_settings_of_plugins_are_hidden(start: Start, recorded: RecordedAnswers) -> None:
    """They may be secrets."""

    def describe(kind: str) -> list[Any]:
        with DataClient(HOST, start(kind).port) as client:
            resource = {"resource_type": _BROKER, "resource_name": "1", "configuration_keys": None}
            [answer] = client.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results
        return sorted(
            [each.name, each.value, each.read_only, each.is_sensitive, each.config_source, each.config_type]
            for each in answer.configs
            if each.name.startswith(("rsm.config.", "rlmm.config."))
        )

    assert describe("ours") == recorded.of("plugins", lambda: describe("kafka"))


def test_metadata_topic(start: Start, recorded: RecordedAnswers) -> None:
    """Its configuration, and that clients may use it as any other topic: Kafka does not count it as internal."""

    def describe(kind: str) -> dict[str, Any]:
        broker = start(kind)
        wait_for_topic(broker, METADATA_TOPIC, 5)
        with DataClient(HOST, broker.port) as client:
            [topic] = client.call(METADATA, 12, topics=[{"topic_id": bytes(16), "name": METADATA_TOPIC}]).topics
            resource = {"resource_type": _TOPIC, "resource_name": METADATA_TOPIC, "configuration_keys": None}
            [answer] = client.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results
            new = {"name": METADATA_TOPIC, "num_partitions": 1, "replication_factor": 1}
            [again] = client.call(CREATE_TOPICS, 7, topics=[new], timeout_ms=60_000, validate_only=True).topics
            produced = client.produce(METADATA_TOPIC, batch(b""), 4)
        return {
            "internal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replicas": [len(each.replica_nodes) for each in topic.partitions],
            "own settings": sorted([each.name, each.value] for each in answer.configs if each.config_source == 1),
            "created again": _error(again),
            "changed": changed(broker, _TOPIC, METADATA_TOPIC, [{ENABLE: "true"}, {"cleanup.policy": "compact"}]),
            "produced": produced >= 0,
        }

    assert describe("ours") == recorded.of("metadata", lambda: describe("kafka"))


def test_changes_while_the_system_is_off(tmp_path_factory: pytest.TempPathFactory, recorded: RecordedAnswers) -> None:
    """A tiered topic of an earlier start: the broker serves it, and accepts only that it is turned off."""

    def ask(kind: str) -> list[str]:
        directory = tmp_path_factory.mktemp(kind)
        with TIERED[kind](directory) as broker, DataClient(HOST, broker.port) as client:
            client.create_topic("tiered", configs={ENABLE: "true"})
            wait_for_changes(broker)
        with TIERED[kind](directory, {"remote.log.storage.system.enable": "false"}) as broker:
            wait_for_topic(broker, "tiered", 1)
            with DataClient(HOST, broker.port) as client:
                served = client.produce("tiered", batch(b"a"))
            new = created(broker, [{ENABLE: "true"}, {"local.retention.ms": "9", "retention.ms": "8"}])
            return [str(served), *new, *changed(broker, _TOPIC, "tiered", CHANGES)]

    check(["produced", "tiered", "not", *CHANGES], ask("ours"), recorded.of("system is off", lambda: ask("kafka")))
