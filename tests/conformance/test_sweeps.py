"""The requests of tests/data/wire/sweep-*.tsv, sent again in their order: every answer is as Apache Kafka's was.

The sweeps ask for each version of each API, in good cases and bad. They build on one another (topics made by one file
are written to in the next), so all are replayed against one fresh broker, and a test looks at one file's answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.end_txn import END_TXN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.conformance.conftest import StartBroker
from tests.conformance.sweep_rules import LEFT_OUT, TRANSACTIONS_ALONE, sweep_rules
from tests.support.answers import Names
from tests.support.brokers import HOST, RunningBroker
from tests.support.exchanges import Exchange, recorded_exchanges
from tests.support.replay import Replay
from tests.support.wire import WireClient, served_versions

SWEEPS = ("admin", "data", "groups", "txn", "default")

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}

COMPACTED = ("comp", "__consumer_offsets", "__transaction_state", "__share_group_state")
TOPICS_BEFORE = {"demo": 4, "my.topic_x": 1, **dict.fromkeys(COMPACTED, 1)}
PRODUCER_IDS_BEFORE = 7

# Retention took records away while the sweeps were recorded: new start of partition 0 in front of an exchange
RETENTION = {228: 12, 303: 22, 503: 23}
AUTO_CREATED = 119  # from here on the topic that an earlier Metadata has asked for is there


class Stage:
    """Brings a broker into the state in which the recorded one was."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._served = served_versions(client)
        self._ended: str | None = None

    @property
    def has_transactions(self) -> bool:
        return ADD_PARTITIONS_TO_TXN.key in self._served

    def plays(self, exchange: Exchange) -> bool:
        """Whether the exchange is of an API that the broker serves, or of one that nobody does."""
        versions = self._served.get(exchange.api.key)
        if versions is None:
            return False
        if not self.has_transactions and (exchange.correlation_id in TRANSACTIONS_ALONE or _transactional_id(exchange)):
            return False
        return exchange.version in versions or exchange.closed or exchange.answer_version != exchange.version

    def before_all(self) -> None:
        """What other clients had done to the recorded broker: topics, coordinators, producer ids."""
        policy = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        topics = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=policy * (name in COMPACTED))
            for name, count in TOPICS_BEFORE.items()
        ]
        created = self._client.call(CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE] * len(topics)
        self._until(self._finds_coordinator)
        for _ in range(PRODUCER_IDS_BEFORE):
            self._until(self._gives_producer_id)

    def before(self, exchange: Exchange) -> None:
        """What happened at the recorded broker by itself in front of an exchange."""
        if exchange.correlation_id in RETENTION:
            cut = DeleteRecordsPartition(partition_index=0, offset=RETENTION[exchange.correlation_id])
            topics = [DeleteRecordsTopic(name="sweep", partitions=[cut])]
            self._client.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=5_000)
        if exchange.correlation_id == AUTO_CREATED:
            self._until(self._nope_is_there)
        if self._ended is not None:
            self._until(self._has_written_markers)
        self._ended = _transactional_id(exchange) if exchange.api is END_TXN else None

    def _finds_coordinator(self) -> bool:
        return bool(self._client.call(FIND_COORDINATOR, 3, key="gs").error_code == ErrorCode.NONE)

    def _gives_producer_id(self) -> bool:
        return bool(self._client.call(INIT_PRODUCER_ID, 4, transactional_id=None).error_code == ErrorCode.NONE)

    def _nope_is_there(self) -> bool:
        topics = [MetadataRequestTopic(name="nope")]
        metadata = self._client.call(METADATA, 12, topics=topics, allow_auto_topic_creation=False)
        return bool(metadata.topics[0].error_code == ErrorCode.NONE)

    def _has_written_markers(self) -> bool:
        described = self._client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self._ended])
        return described.transaction_states[0].transaction_state not in ("PrepareCommit", "PrepareAbort")

    def _until(self, condition: Callable[[], bool], timeout_s: float = 20) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "the broker does not get into the state that was recorded"
            time.sleep(0.02)


def _transactional_id(exchange: Exchange) -> str | None:
    request = exchange.decode_request()
    return getattr(request, "transactional_id", None) if request is not None and not exchange.closed else None


@pytest.fixture(scope="module", params=["ours", "kafka"])
def sweeps(request: pytest.FixtureRequest, start_broker: StartBroker) -> dict[str, list[str]]:
    """What is not as recorded in each file, after all of them were replayed against a fresh broker."""
    kafka_alone = AUTHORIZER if request.param == "kafka" else {}
    broker: RunningBroker = start_broker(request.param, {**PROPERTIES, **kafka_alone})
    names = Names(port={29192: broker.port}, path={"/var/lib/kafka-logs-0": str(broker.log_dir)})
    found: dict[str, list[str]] = {}
    with WireClient(HOST, broker.port) as client:
        stage = Stage(client)
        stage.before_all()
        replay = Replay(broker, sweep_rules(served_versions(client)), names)
        for sweep in SWEEPS:
            found[sweep] = []
            for exchange in filter(stage.plays, recorded_exchanges(f"sweep-{sweep}.tsv")):
                stage.before(exchange)
                differences = replay.differences(exchange)
                if exchange.correlation_id not in LEFT_OUT:
                    found[sweep] += [f"{exchange.source} v{exchange.version} {each}" for each in differences]
        replay.close()
    broker.stop()
    return found


@pytest.mark.parametrize("sweep", SWEEPS)
def test_answers_are_as_recorded(sweeps: dict[str, list[str]], sweep: str) -> None:
    """Field by field, but for the ids, times, counters and sizes of sweep_rules.py; closed connections are closed."""
    assert sweeps[sweep] == []
