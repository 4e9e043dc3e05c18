"""AlterClientQuotas, DescribeClientQuotas, and the requests that the controller mutation quota rejects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.access.quotas.client_quotas import ClientLimits
from broker.access.quotas.rate import TokenBucket
from broker.access.quotas.throttling import Charge
from broker.handlers.alter_client_quotas import alter_client_quotas
from broker.handlers.create_partitions import create_partitions
from broker.handlers.create_topics import create_topics
from broker.handlers.delete_topics import delete_topics
from broker.handlers.describe_client_quotas import describe_client_quotas
from broker.handlers.metadata import CREATION_MS, metadata
from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, OpData, RequestEntryData
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS, ComponentData
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.controllers import ControllerHarness

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
RATE = "producer_byte_rate"


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness()
    harness.broker.dns_threads = lambda function, *args: Deferred.resolved(function(*args))
    return harness


def alter(harness: ControllerHarness, kind: str, name: str | None, key: str, value: float | None, **of: Any) -> Struct:
    ops = [OpData(key=key, value=value or 0.0, remove=value is None)]
    entry = RequestEntryData(entity=[EntityData(entity_type=kind, entity_name=name)], ops=ops)
    reply = harness.ask(alter_client_quotas, ALTER_CLIENT_QUOTAS, 1, entries=[entry], **of)
    (answer,) = reply.entries
    assert [(each.entity_type, each.entity_name) for each in answer.entity] == [(kind, name)]
    return answer


def described(harness: ControllerHarness, kind: str) -> dict[str | None, dict[str, float]]:
    """Return the quotas by the names of the entities of that kind."""
    filters = [ComponentData(entity_type=kind, match_type=2, match=None)]
    reply = harness.ask(describe_client_quotas, DESCRIBE_CLIENT_QUOTAS, 1, components=filters, strict=True)
    assert (reply.error_code, reply.error_message) == (0, "")
    return {each.entity[0].entity_name: {value.key: value.value for value in each.values} for each in reply.entries}


def test_quotas_are_set_described_and_removed(harness: ControllerHarness) -> None:
    assert alter(harness, "user", None, RATE, 5.0).error_code == 0
    assert alter(harness, "user", "alice", RATE, 7.0).error_code == 0
    assert described(harness, "user") == {None: {RATE: 5.0}, "alice": {RATE: 7.0}}
    assert described(harness, "client-id") == {}
    alter(harness, "user", None, RATE, None)
    assert described(harness, "user") == {"alice": {RATE: 7.0}}


def test_validate_only_changes_no_quota(harness: ControllerHarness) -> None:
    assert alter(harness, "user", "alice", RATE, 7.0, validate_only=True).error_code == 0
    assert alter(harness, "user", "alice", "rate", 7.0, validate_only=True).error_code == ErrorCode.INVALID_REQUEST
    assert described(harness, "user") == {}


def test_an_ip_entity_may_be_a_host_name(harness: ControllerHarness) -> None:
    key = "connection_creation_rate"
    assert alter(harness, "ip", "localhost", key, 7.0).error_code == 0
    assert alter(harness, "ip", "::1", key, 7.0).error_code == 0
    refused = alter(harness, "ip", "no such host", key, 7.0)
    assert refused.error_message == "no such host is not a valid IP or resolvable host."
    assert described(harness, "ip") == {"localhost": {key: 7.0}, "::1": {key: 7.0}}


def test_only_hosts_that_may_have_quotas_are_resolved(harness: ControllerHarness) -> None:
    """A request resolves only a few host names."""
    key = "connection_creation_rate"
    asked: list[str] = []
    harness.broker.dns_threads = lambda function, hosts: (
        asked.extend(hosts) or Deferred.resolved(dict.fromkeys(hosts, ""))
    )

    def errors(*entities: list[EntityData]) -> set[int]:
        entries = [RequestEntryData(entity=entity, ops=[OpData(key=key, value=1.0)]) for entity in entities]
        reply = harness.ask(alter_client_quotas, ALTER_CLIENT_QUOTAS, 1, entries=entries)
        return {each.error_code for each in reply.entries}

    host = EntityData(entity_type="ip", entity_name="host")
    assert errors([host, EntityData(entity_type="user", entity_name="u")]) == {ErrorCode.INVALID_REQUEST}
    assert asked == []
    many = [[EntityData(entity_type="ip", entity_name=f"host{number}")] for number in range(21)]
    assert errors(*many) == {ErrorCode.INVALID_REQUEST}
    assert (asked, described(harness, "ip")) == ([], {})
    assert errors(*many[1:]) == {0}
    assert len(asked) == len(described(harness, "ip")) == 20


def test_an_invalid_filter_is_rejected(harness: ControllerHarness) -> None:
    filters = [ComponentData(entity_type="group", match_type=2, match=None)]
    reply = harness.ask(describe_client_quotas, DESCRIBE_CLIENT_QUOTAS, 1, components=filters, strict=False)
    assert (reply.error_code, reply.error_message) == (ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group")
    assert reply.entries is None


class Mutations:
    """Requests of a client with a quota of two mutations a second, with windows of one second: two at once pass."""

    def __init__(self, harness: ControllerHarness) -> None:
        self.harness = harness
        self.waits: list[int] = []
        self.limits = ClientLimits(None, None, None, TokenBucket(2.0, 1, 1000))

    def ask(self, handler: Any, api: Any, version: int, **fields: Any) -> list[int]:
        """Return the names of the errors."""
        connection: Any = SimpleNamespace(throttle=self.waits.append)
        charge = self.harness.charge = Charge(self.harness.loop.clock, connection, self.limits, api, 1)
        reply = self.harness.ask(handler, api, version, timeout_ms=1000, **fields)
        charge.settle(reply)
        items = getattr(reply, {CREATE_TOPICS: "topics", DELETE_TOPICS: "responses"}.get(api, "results"))
        assert all(each.error_message is None for each in items if each.error_code == EXCEEDED and version >= 5)
        return [each.error_code for each in sorted(items, key=lambda each: each.name)]

    def create(self, version: int, *names: str, partitions: int = 2) -> list[int]:
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        return self.ask(create_topics, CREATE_TOPICS, version, topics=topics)


def test_mutations_beyond_the_quota_are_refused(harness: ControllerHarness) -> None:
    """The mutation that exceeds the quota is still done. The next one is rejected until the debt is paid off."""
    mutations = Mutations(harness)
    assert mutations.create(7, "a", "b", "c") == [0, 0, EXCEEDED]
    assert mutations.waits == [1000]
    more = [CreatePartitionsTopic(name="a", count=3, assignments=None)]
    assert mutations.ask(create_partitions, CREATE_PARTITIONS, 3, topics=more) == [EXCEEDED]
    gone = [DeleteTopicState(name="a")]
    assert mutations.ask(delete_topics, DELETE_TOPICS, 6, topics=gone) == [EXCEEDED]
    harness.advance(1000)
    assert mutations.ask(delete_topics, DELETE_TOPICS, 6, topics=gone) == [0]
    assert mutations.waits == [1000, 1000, 1000]


def test_old_clients_are_throttled_instead(harness: ControllerHarness) -> None:
    mutations = Mutations(harness)
    assert mutations.create(5, "a", "b", "c") == [0, 0, 0]
    more = [CreatePartitionsTopic(name="a", count=3, assignments=None)]
    assert mutations.ask(create_partitions, CREATE_PARTITIONS, 2, topics=more) == [0]
    assert mutations.ask(delete_topics, DELETE_TOPICS, 4, topic_names=["a"]) == [0]
    assert mutations.waits == [2000, 2500, 4000]


def test_auto_created_topics_count_as_mutations(harness: ControllerHarness) -> None:
    """They are not created while the client is over its quota."""
    mutations = Mutations(harness)
    for name in ("a", "b", "c", "d"):
        harness.charge = Charge(harness.loop.clock, SimpleNamespace(), mutations.limits, METADATA, 1)  # type: ignore[arg-type]
        topics = [MetadataRequestTopic(name=name)]
        harness.ask(metadata, METADATA, 12, topics=topics, allow_auto_topic_creation=True)
        harness.advance(CREATION_MS)
    assert [harness.controller.image.topic(name) is not None for name in "abcd"] == [True, True, True, False]


def test_a_creation_that_fails_uses_no_quota(harness: ControllerHarness) -> None:
    mutations = Mutations(harness)
    assert mutations.create(7, "a", partitions=-5) == [ErrorCode.INVALID_PARTITIONS]
    assert mutations.create(7, "a", "b") == [0, 0]
