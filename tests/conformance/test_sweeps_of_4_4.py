"""Requests of the versions that are new in Apache Kafka 4.4, sent again in their order: every answer equals Kafka's.

tests/data/wire/sweep-4.4*.tsv have them, each from a fresh broker at the feature levels of 4.4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from tests.conformance.sweep_rules import sweep_rules
from tests.support.answers import Names
from tests.support.brokers import HOST
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.replay import Replay
from tests.support.wire import served_versions
from tests.support.wire_frames import recorded_exchanges

TOPIC = "t1"
#: The member of the consumer group cg, and its epoch once it has joined.
MEMBER = "AAAAAAAAAAAAAAAAAAAAAg"
COORDINATORS = {0: "g1", 1: "tx1"}
IN_MEMORY = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
PLUGIN = {
    "group.streams.topology.description.plugin.class": IN_MEMORY,
    "group.streams.initial.rebalance.delay.ms": "0",
}

pytestmark = needs_4_4


def prepare(client: DataClient) -> bytes:
    """Do what the recording client had done: a topic, coordinators, a producer id, a group. Return the topic's id."""
    topic_id = client.create_topic(TOPIC)

    def found() -> bool:
        answers = [
            client.call(FIND_COORDINATOR, 3, key=key, key_type=kind).error_code for kind, key in COORDINATORS.items()
        ]
        return not any(answers)

    eventually(found, "coordinators")
    started = {"transactional_id": "tx1", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    eventually(lambda: client.call(INIT_PRODUCER_ID, 5, **started).error_code == 0, "a producer id")

    def joined() -> bool:
        answer = client.call(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id="cg",
            member_id=MEMBER,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        return bool(answer.error_code == 0)

    eventually(joined, "a member of a consumer group")
    return topic_id


@pytest.mark.parametrize("sweep", ["sweep-4.4", "sweep-4.4-topology-plugin"])
@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_answers_are_as_recorded(kind: str, sweep: str, tmp_path: Path) -> None:
    """Field by field, except for ids; DeleteGroups lists its groups in any order."""
    properties = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    plugin = PLUGIN if sweep.endswith("plugin") else {"group.streams.initial.rebalance.delay.ms": "30000"}
    broker = BROKERS_OF_4_4[kind](tmp_path, {**properties, **plugin})
    try:
        with DataClient(HOST, broker.port) as client:
            topic_id = prepare(client)
            recorded_id = next(
                each.topic_id
                for exchange in recorded_exchanges("sweep-4.4.tsv")
                for each in getattr(exchange.decode_request(), "topics", ())
                if any(each.topic_id)
            )
            names = Names(topic={recorded_id: topic_id}, port={29192: broker.port})
            rules = sweep_rules(served_versions(client))
            replay = Replay(broker, rules, names)
            found = [
                f"{exchange.source} v{exchange.version} {each}"
                for exchange in recorded_exchanges(f"{sweep}.tsv")
                for each in replay.differences(exchange)
            ]
            replay.close()
    finally:
        broker.kill()
    assert found == []
