"""All brokers of a cluster are fenced for a while: their clients find them again."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.history_clients import RDKAFKA
from tests.support.wire import WireClient

#: After each heartbeat the only broker is unfenced for a session, and then fenced until the next heartbeat.
_SESSION_MS, _HEARTBEAT_MS = 700, 2500


def metadata(member: MemberBroker) -> Struct:
    with WireClient(HOST, member.port) as client:
        return client.call(METADATA, 12, topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)


def test_clients_keep_brokers_while_all_are_fenced(tmp_path: Path) -> None:
    """An answer without brokers would make this client forget all addresses for good."""
    times = {"broker.heartbeat.interval.ms": str(_HEARTBEAT_MS)}
    with (
        OwnController(tmp_path / "controller", {"broker.session.timeout.ms": str(_SESSION_MS)}) as controller,
        MemberBroker(tmp_path / "member", controller.port, times) as member,
    ):
        producer = Producer({**RDKAFKA, "bootstrap.servers": member.bootstrap})
        producer.produce("t", "first")
        assert producer.flush(60) == 0
        eventually(lambda: metadata(member).topics[0].partitions[0].leader_id, equal_to=-1, interval_s=0.02)
        assert [each.node_id for each in metadata(member).brokers] == [member.node_id]
        assert [*producer.list_topics(timeout=30).brokers] == [member.node_id]
        producer.produce("t", "second")
        assert producer.flush(60) == 0
