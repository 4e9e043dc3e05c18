"""Error codes while a coordinator loads its log after a start.

The codes are those of Apache Kafka. No request waits: COORDINATOR_LOAD_IN_PROGRESS makes the client retry.
Clients that do not know that code get another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.runtime import CoordinatorRuntime
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.alter_share_group_offsets import ALTER_SHARE_GROUP_OFFSETS
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_share_group_offsets import DELETE_SHARE_GROUP_OFFSETS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.end_txn import END_TXN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.list_transactions import LIST_TRANSACTIONS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.messages.sync_group import SYNC_GROUP
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS, WritableTxnMarker, WritableTxnMarkerTopic
from protocol.schema import Api, Struct
from tests.support.data_client import batch
from tests.support.groups import subscription
from tests.support.share_broker import ShareBroker

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
#: Codes that replace LOADING for some clients.
IN_OTHER_WORDS = {NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS}

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the error codes of its response in their order."""

    api: Api
    version: int
    codes: tuple[ErrorCode, ...]
    fields: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version}"


def asked(api: Api, version: int, *codes: ErrorCode, **fields: Any) -> Asked:
    return Asked(api, version, codes, fields)


G = {"group_id": "g"}
X = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
OFFSET = [
    OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)])
]
TXN_OFFSET = [
    TxnOffsetCommitRequestTopic(
        name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
]
T0 = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
MARKER = WritableTxnMarker(
    producer_id=0,
    producer_epoch=0,
    transaction_result=True,
    topics=[WritableTxnMarkerTopic(name=CONSUMER_OFFSETS, partition_indexes=[0])],
)


def added(*, verify_only: bool) -> list[Struct]:
    return [AddPartitionsToTxnTransaction(**X, verify_only=verify_only, topics=T0)]


def first_batch() -> list[Struct]:
    """Return the first batch of a transaction that partition 1 of t does not know."""
    records = batch(b"v", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
    return [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=records)])]


WHILE_GROUPS_ARE_LOADED = [
    asked(FIND_COORDINATOR, 6, NONE, key_type=0, coordinator_keys=["g"]),
    asked(
        JOIN_GROUP, 9, LOADING, **G, session_timeout_ms=10_000, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    ),
    asked(SYNC_GROUP, 5, LOADING, **G, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"),
    asked(HEARTBEAT, 4, NONE, **G, generation_id=1, member_id="m"),  # nothing better is known
    asked(LEAVE_GROUP, 2, LOADING, **G, member_id="m"),
    asked(LEAVE_GROUP, 5, LOADING, **G, members=[MemberIdentity(member_id="m")]),
    asked(OFFSET_COMMIT, 9, LOADING, **G, topics=OFFSET),
    asked(OFFSET_FETCH, 1, LOADING, **G, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]),
    asked(OFFSET_FETCH, 7, LOADING, **G, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]),
    asked(OFFSET_FETCH, 7, LOADING, **G, topics=None),
    asked(
        OFFSET_FETCH, 9, LOADING,
        groups=[OffsetFetchRequestGroup(**G, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])],
    ),
    asked(
        OFFSET_DELETE, 0, LOADING, **G,
        topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    ),
    asked(DESCRIBE_GROUPS, 5, LOADING, groups=["g"]),
    asked(LIST_GROUPS, 5, LOADING),
    asked(DELETE_GROUPS, 2, LOADING, groups_names=["g"]),
    asked(CONSUMER_GROUP_HEARTBEAT, 1, LOADING, **G, member_id="m", member_epoch=1),
    asked(CONSUMER_GROUP_DESCRIBE, 1, LOADING, group_ids=["g"]),
    asked(SHARE_GROUP_HEARTBEAT, 1, LOADING, **G, member_id="m", member_epoch=1),
    asked(SHARE_GROUP_DESCRIBE, 1, LOADING, group_ids=["g"]),
    asked(
        DESCRIBE_SHARE_GROUP_OFFSETS, 1, LOADING, groups=[DescribeShareGroupOffsetsRequestGroup(**G, topics=None)]
    ),
    asked(ALTER_SHARE_GROUP_OFFSETS, 0, LOADING, **G),
    asked(DELETE_SHARE_GROUP_OFFSETS, 0, LOADING, **G),
    asked(STREAMS_GROUP_HEARTBEAT, 0, LOADING, **G, member_id="m", member_epoch=1),
    asked(STREAMS_GROUP_DESCRIBE, 0, LOADING, group_ids=["g"]),
    # The partition of the offsets topic that joins is known without loading it.
    asked(ADD_OFFSETS_TO_TXN, 4, NONE, **X, **G),
    # Producers before 2.0 fail at LOADING.
    asked(TXN_OFFSET_COMMIT, 1, NOT_AVAILABLE, **X, **G, topics=TXN_OFFSET),
    asked(TXN_OFFSET_COMMIT, 3, LOADING, **X, **G, topics=TXN_OFFSET),
    # The transaction coordinator does not expect errors of other coordinators.
    asked(WRITE_TXN_MARKERS, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, markers=[MARKER]),
]  # fmt: skip

WHILE_TRANSACTIONS_ARE_LOADED = [
    asked(FIND_COORDINATOR, 6, NONE, key_type=1, coordinator_keys=["x"]),
    asked(INIT_PRODUCER_ID, 5, LOADING, transactional_id="x", transaction_timeout_ms=60_000),
    asked(INIT_PRODUCER_ID, 5, NONE, transactional_id=None, transaction_timeout_ms=60_000),
    asked(
        ADD_PARTITIONS_TO_TXN, 3, LOADING, v3_and_below_transactional_id="x", v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0, v3_and_below_topics=T0,
    ),
    asked(ADD_PARTITIONS_TO_TXN, 5, NONE, LOADING, transactions=added(verify_only=False)),
    asked(ADD_PARTITIONS_TO_TXN, 5, NONE, LOADING, transactions=added(verify_only=True)),
    asked(ADD_OFFSETS_TO_TXN, 4, LOADING, **X, **G),
    asked(TXN_OFFSET_COMMIT, 1, NOT_AVAILABLE, **X, **G, topics=TXN_OFFSET),
    asked(TXN_OFFSET_COMMIT, 3, LOADING, **X, **G, topics=TXN_OFFSET),
    asked(TXN_OFFSET_COMMIT, 5, LOADING, **X, **G, topics=TXN_OFFSET),
    asked(END_TXN, 4, LOADING, **X, committed=True),
    asked(END_TXN, 5, LOADING, **X, committed=True),
    asked(DESCRIBE_TRANSACTIONS, 0, LOADING, transactional_ids=["x"]),
    asked(LIST_TRANSACTIONS, 2, LOADING),
    # Producers do not expect coordinator errors: this code makes them retry without new metadata.
    asked(PRODUCE, 11, ErrorCode.NOT_ENOUGH_REPLICAS, transactional_id="x", acks=-1, topic_data=first_batch()),
    asked(PRODUCE, 12, ErrorCode.NOT_ENOUGH_REPLICAS, transactional_id="x", acks=-1, topic_data=first_batch()),
]  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShareBroker]:
    """A restarted broker: each coordinator has read one batch of its log, and continues with `load`."""
    made = ShareBroker(tmp_path, SETTINGS)
    made.create("t", 2)
    client, member = made.client, made.member()
    client.find_coordinator("g")
    assert client.init("x") == "NONE P0 0"
    assert client.add("x", ("P0", 0), ("t", 0)) == "t-0 NONE"
    for number in range(3):
        client.commit("g", {("t", 0): number})
    member.wait_for_group()
    assert member.initialize(1, 0) == "NONE"
    assert member.write(1, 0, 5) == "NONE"
    monkeypatch.setattr("broker.coordinators.runtime.LOAD_AT_START_MS", 0)
    monkeypatch.setattr(CoordinatorRuntime, "_load_soon", lambda runtime: None)
    made.restart()
    yield made
    made.close()


def load(runtime: CoordinatorRuntime[Any, Any, Any]) -> None:
    """Load the whole log."""
    runtime._load(60_000)


def codes_in(answer: Any, version: int) -> Iterator[ErrorCode]:
    """Return all error codes of a response in order."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes_in(each, version)
    elif isinstance(answer, Struct):
        for field in answer.struct_type.fields:
            value = getattr(answer, field.name)
            if not field.name.endswith("error_code"):
                yield from codes_in(value, version)
            elif version in field.versions:
                yield ErrorCode(value)


def codes_of(broker: ShareBroker, request: Asked) -> tuple[ErrorCode, ...]:
    """Return the codes of the response, which must not wait for the coordinator."""
    answer = broker.call(request.api, request.version, **request.fields)
    return tuple(codes_in(answer, request.version))


@pytest.mark.parametrize("case", WHILE_GROUPS_ARE_LOADED, ids=str)
def test_group_requests_get_retriable_errors(broker: ShareBroker, case: Asked) -> None:
    load(broker.transactions)
    load(broker.share_states)
    assert codes_of(broker, case) == case.codes
    load(broker.groups)
    assert not {LOADING, *IN_OTHER_WORDS}.intersection(codes_of(broker, case))


@pytest.mark.parametrize("case", WHILE_TRANSACTIONS_ARE_LOADED, ids=str)
def test_transaction_requests_get_retriable_errors(broker: ShareBroker, case: Asked) -> None:
    load(broker.groups)
    assert codes_of(broker, case) == case.codes
    load(broker.transactions)
    assert not {LOADING, *IN_OTHER_WORDS}.intersection(codes_of(broker, case))


def test_share_state_requests_get_retriable_errors(broker: ShareBroker) -> None:
    """All five APIs of the share coordinator."""
    member = broker.member()

    def codes() -> set[str]:
        answers = member.read(), member.summarize(), member.write(1, 0, 6), member.initialize(2, 0), member.delete()
        return {text.split()[0] for text in answers}

    assert codes() == {"COORDINATOR_LOAD_IN_PROGRESS"}
    load(broker.share_states)
    assert codes() == {"NONE"}
