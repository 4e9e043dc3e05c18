"""Requests that need more than 10,000 records of metadata, at pybroker and at Apache Kafka: nothing of them is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.schema import Api
from tests.support.pairs import Pair
from tests.support.recorded_answers import RecordedAnswers

#: Kafka's MAX_RECORDS_PER_USER_OP.
LIMIT = 10_000
POLICY_VIOLATION = 44
CLIENT_METRICS, GROUP = 16, 32
_SCRAM_256 = 1


def topics(count: int, *, validate_only: bool = False) -> dict[str, Any]:
    """Return a request for topics of four records each: the topic, its partition, and two settings."""
    configs = [{"name": name, "value": "7000"} for name in ("retention.ms", "flush.ms")]
    new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    each = [{"name": f"t{number}", **new} for number in range(count)]
    return {"topics": each, "timeout_ms": 60_000, "validate_only": validate_only}


def settings(resource_type: int, count: int, **setting: object) -> dict[str, Any]:
    """Return a request for one setting of each of `count` resources."""
    each = [
        {"resource_type": resource_type, "resource_name": f"r{count}-{number}", "configs": [setting]}
        for number in range(count)
    ]
    return {"resources": each, "validate_only": False}


def quotas(count: int) -> dict[str, Any]:
    """Return a request for a quota of each of `count` users."""
    ops = [{"key": "producer_byte_rate", "value": 9.0, "remove": False}]
    users = [[{"entity_type": "user", "entity_name": f"u{count}-{number}"}] for number in range(count)]
    return {"entries": [{"entity": each, "ops": ops} for each in users], "validate_only": False}


def users(count: int) -> dict[str, Any]:
    """Return a request for credentials of `count` users."""
    password = {"mechanism": _SCRAM_256, "iterations": 4096, "salt": b"1", "salted_password": bytes(32)}
    return {"deletions": [], "upsertions": [{"name": f"u{count}-{number}", **password} for number in range(count)]}


INTERVAL = {"config_operation": 0, "name": "interval.ms", "value": "5000"}
TIMEOUT = {"name": "consumer.session.timeout.ms", "value": "50000"}
#: API, version, fields, and the array of the results.
REQUESTS: dict[str, tuple[Api, int, dict[str, Any], str]] = {
    "topics": (CREATE_TOPICS, 7, topics(LIMIT // 4 + 1), "topics"),
    "topics, validated": (CREATE_TOPICS, 7, topics(LIMIT // 4 + 1, validate_only=True), "topics"),
    "most client metrics": (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        settings(CLIENT_METRICS, LIMIT, **INTERVAL),
        "responses",
    ),
    "client metrics": (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        settings(CLIENT_METRICS, LIMIT + 1, **INTERVAL),
        "responses",
    ),
    "groups": (ALTER_CONFIGS, 2, settings(GROUP, LIMIT + 1, **TIMEOUT), "responses"),
    "most quotas": (ALTER_CLIENT_QUOTAS, 1, quotas(LIMIT), "entries"),
    "quotas": (ALTER_CLIENT_QUOTAS, 1, quotas(LIMIT + 1), "entries"),
    "most users": (ALTER_USER_SCRAM_CREDENTIALS, 0, users(LIMIT), "results"),
    "users": (ALTER_USER_SCRAM_CREDENTIALS, 0, users(LIMIT + 1), "results"),
}
#: Kafka has no code for these users: UNKNOWN_SERVER_ERROR, as after a failure of the broker.
BETTER = {"users": [[POLICY_VIOLATION, LIMIT + 1]]}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, recorded: RecordedAnswers) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("limits"), {}, with_kafka=recorded.must_ask)
    yield made
    made.close()


@pytest.mark.parametrize("name", REQUESTS)
def test_large_request_is_done_as_a_whole_or_not_at_all(name: str, pair: Pair, recorded: RecordedAnswers) -> None:
    """One request is one batch. The errors are those of all its items."""
    api, version, fields, results = REQUESTS[name]
    found = {}
    for broker in pair.brokers:
        answer = pair.client(broker).call(api, version, **fields)
        codes = [each.error_code for each in getattr(answer, results)]
        found[broker.kind] = [[code, codes.count(code)] for code in sorted(set(codes))]
    kafka = recorded.of(name, lambda: found["kafka"])
    assert found["ours"] == BETTER.get(name, kafka)
