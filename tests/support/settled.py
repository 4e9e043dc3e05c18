"""Wait until Apache Kafka applies the changes that it has acknowledged.

Its controller answers when a change is in the metadata log; its broker applies it a moment later, on a busy machine
much later. Our broker applies it at once: for it nothing is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS
from protocol.messages.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.list_offsets import LIST_OFFSETS
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually, succeeds
from tests.support.wire import WireClient

T = TypeVar("T")


def settled(broker: RunningBroker, check: Callable[[], T], timeout_s: float = 60) -> T:
    """Return the result of `check`, which may raise for a while if the broker is Apache Kafka."""
    if broker.kind != "kafka":
        return check()
    return eventually(check, retried=Exception, until=succeeds, timeout_s=timeout_s)


def await_coordinator(client: WireClient, key: str, key_type: int = 0) -> None:
    """Wait for the coordinator of a group (key type 0) or transactional id (1); the first request makes its topic."""
    eventually(lambda: client.call(FIND_COORDINATOR, 3, key=key, key_type=key_type).error_code, equal_to=0)


def wait_for_topic(broker: RunningBroker, topic: str, partitions: int) -> None:
    """Wait until the broker leads each partition of `topic`: it answers for its offsets."""
    if broker.kind != "kafka":
        return
    wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]

    def answers() -> None:
        with WireClient(HOST, broker.port) as client:
            topics = [{"name": topic, "partitions": wanted}]
            listed = client.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics)
        assert {p.error_code for t in listed.topics for p in t.partitions} == {ErrorCode.NONE}

    settled(broker, answers)


def wait_for_coordinator(broker: RunningBroker, group: str = "any") -> None:
    """Wait until the group's coordinator has loaded its whole log: it describes the group.

    One group stands for all groups in its partition of the groups' topic. An answer to FindCoordinator is not enough:
    it may name a coordinator that still loads.
    """

    def describes() -> None:
        with WireClient(HOST, broker.port) as client:
            client.call(FIND_COORDINATOR, 3, key=group)  # creates the topic of the groups
            [described] = client.call(DESCRIBE_GROUPS, 5, groups=[group]).groups
        assert described.error_code == ErrorCode.NONE, described

    settled(broker, describes)


def wait_for_changes(broker: RunningBroker) -> None:
    """Wait until all earlier changes, of topics, configurations and others, are in force.

    Apache Kafka's broker applies changes one after the other, and describes a change one step before it is applied. So
    this makes two changes: it sets and removes a quota of an unused client id.
    """
    if broker.kind != "kafka":
        return
    entity = [{"entity_type": "client-id", "entity_name": "nobody"}]
    asked = [{"entity_type": "client-id", "match_type": 0, "match": "nobody"}]
    with WireClient(HOST, broker.port) as client:
        for remove in (False, True):
            ops = [{"key": "producer_byte_rate", "value": 1e12, "remove": remove}]
            [entry] = client.call(ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}]).entries
            assert entry.error_code == ErrorCode.NONE, entry

            def told(remove: bool = remove) -> None:
                found = client.call(DESCRIBE_CLIENT_QUOTAS, 1, components=asked, strict=True).entries
                assert bool(found) is not remove

            settled(broker, told)
