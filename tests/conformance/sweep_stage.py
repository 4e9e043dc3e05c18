"""Bring a broker into the state of the broker that the sweeps were recorded from."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.create_partitions import CREATE_PARTITIONS
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.messages.delete_topics import DELETE_TOPICS
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.end_txn import END_TXN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually
from tests.support.settled import wait_for_topic
from tests.support.wire import WireClient, served_versions
from tests.support.wire_frames import Exchange

CHANGES = (CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)
TOPIC = 2  # a type of resource

COMPACTED = ("comp", "__consumer_offsets", "__transaction_state", "__share_group_state")
TOPICS_BEFORE = {"demo": 4, "my.topic_x": 1, **dict.fromkeys(COMPACTED, 1)}
PRODUCER_IDS_BEFORE = 7
_RECORDED_STATE = "the state that was recorded"

# Retention deleted records during the recording: new start of partition 0 before an exchange
RETENTION = {228: 12, 303: 22, 503: 23}
FIRST_OF_DATA = 221
AUTO_CREATED = 119  # from here on the topic exists that an earlier Metadata asked for
RESOLVED = 477  # from here on the subscribed expression is known to match a topic


class SweepStage:
    """Brings a broker into the state in which the recorded one was."""

    def __init__(self, broker: RunningBroker, client: WireClient) -> None:
        self._broker = broker
        self._client = client
        self._changes = 0
        self._served = served_versions(client)
        self._ended: str | None = None

    def plays(self, exchange: Exchange) -> bool:
        """Return whether the broker serves the exchange's API, or no broker does."""
        versions = self._served.get(exchange.api.key)
        if versions is None:
            return False
        return exchange.version in versions or exchange.closed or exchange.answer_version != exchange.version

    def before_all(self) -> None:
        """Do what other clients had done to the recorded broker: topics, coordinators, producer ids."""
        policy = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        topics = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=policy * (name in COMPACTED))
            for name, count in TOPICS_BEFORE.items()
        ]
        created = self._client.call(CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE] * len(topics)
        self._settle()
        eventually(self._finds_coordinator, _RECORDED_STATE)
        for _ in range(PRODUCER_IDS_BEFORE):
            eventually(self._gives_producer_id, _RECORDED_STATE)

    def after(self, exchange: Exchange) -> None:
        """Wait after a change: Kafka's controller answers before its broker applies it, and the recording waited."""
        if exchange.api in CHANGES:
            self._settle()

    def _settle(self) -> None:
        """Change an unused configuration: when the broker knows that, it knows all earlier changes."""
        self._changes += 1
        value = str(60_000 + self._changes)
        setting = AlterableConfig(name="file.delete.delay.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="demo", configs=[setting])
        self._client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        asked = DescribeConfigsResource(
            resource_type=TOPIC, resource_name="demo", configuration_keys=["file.delete.delay.ms"]
        )

        def is_known() -> bool:
            described = self._client.call(DESCRIBE_CONFIGS, 4, resources=[asked])
            return bool(described.results[0].configs[0].value == value)

        eventually(is_known, _RECORDED_STATE)

    def before(self, exchange: Exchange) -> None:
        """Repeat what the recorded broker did by itself before an exchange."""
        if exchange.correlation_id in RETENTION:
            cut = DeleteRecordsPartition(partition_index=0, offset=RETENTION[exchange.correlation_id])
            topics = [DeleteRecordsTopic(name="sweep", partitions=[cut])]
            self._client.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=5_000)
        if exchange.correlation_id == AUTO_CREATED:
            eventually(self._nope_is_there, _RECORDED_STATE)
        if exchange.correlation_id == RESOLVED:
            eventually(self._expression_is_resolved, _RECORDED_STATE)
        if exchange.correlation_id == FIRST_OF_DATA:
            wait_for_topic(self._broker, "sweep", 2)
            wait_for_topic(self._broker, "sweep2", 5)
        if self._ended is not None:
            eventually(self._has_written_markers, _RECORDED_STATE)
        self._ended = _transactional_id(exchange) if exchange.api is END_TXN else None

    def _finds_coordinator(self) -> bool:
        return bool(self._client.call(FIND_COORDINATOR, 3, key="gs").error_code == ErrorCode.NONE)

    def _gives_producer_id(self) -> bool:
        return bool(self._client.call(INIT_PRODUCER_ID, 4, transactional_id=None).error_code == ErrorCode.NONE)

    def _expression_is_resolved(self) -> bool:
        described = self._client.call(CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g848-1"])
        return bool(described.groups[0].group_epoch == 3)

    def _nope_is_there(self) -> bool:
        topics = [MetadataRequestTopic(name="nope")]
        metadata = self._client.call(METADATA, 12, topics=topics, allow_auto_topic_creation=False)
        return bool(metadata.topics[0].error_code == ErrorCode.NONE)

    def _has_written_markers(self) -> bool:
        described = self._client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self._ended])
        return described.transaction_states[0].transaction_state not in ("PrepareCommit", "PrepareAbort")


def _transactional_id(exchange: Exchange) -> str | None:
    request = exchange.decode_request()
    return getattr(request, "transactional_id", None) if request is not None and not exchange.closed else None
