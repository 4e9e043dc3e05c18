"""A transaction gets all of its partitions or none. Its description leaves out hidden topics."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnTopic
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS, TopicData, TransactionState
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from tests.support.guarded import Guarded, allow


def added(answer: Struct) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def test_each_partition_has_the_reason_it_is_not_added() -> None:
    """An existing, authorized partition fails because of another one."""
    guarded = Guarded(
        allow(ResourceType.TRANSACTIONAL_ID, "t", Operation.WRITE),
        *(allow(ResourceType.TOPIC, name, Operation.WRITE) for name in ("open", "missing")),
    )
    asked = {"open": [0, 1], "secret": [0], "missing": [0]}
    topics = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in asked.items()]
    fields = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": topics}
    found = added(guarded.ask(ADD_PARTITIONS_TO_TXN, 3, None, **fields))
    assert guarded.asked is None
    assert found == {
        ("open", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("open", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("secret", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_the_transactional_id_is_checked_first() -> None:
    topics = [AddPartitionsToTxnTopic(name="open", partitions=[0])]
    fields = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": topics}
    found = added(Guarded().ask(ADD_PARTITIONS_TO_TXN, 3, None, **fields))
    assert found == {("open", 0): ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def test_a_description_leaves_out_hidden_topics() -> None:
    """Only topics that the client may describe are listed."""
    guarded = Guarded(
        allow(ResourceType.TRANSACTIONAL_ID, "t", Operation.DESCRIBE),
        allow(ResourceType.TOPIC, "open", Operation.DESCRIBE),
    )
    topics = [TopicData(topic=name, partitions=[0]) for name in ("open", "secret")]
    states = [TransactionState(transactional_id="t", topics=topics)]
    reply = DESCRIBE_TRANSACTIONS.response(transaction_states=states)
    (state,) = guarded.ask(DESCRIBE_TRANSACTIONS, 0, reply, transactional_ids=["t"]).transaction_states
    assert (state.transactional_id, [topic.topic for topic in state.topics]) == ("t", ["open"])


def test_two_phase_commit_needs_a_permission_of_its_own() -> None:
    """KIP-939's operation, on the transactional id."""
    write, two_phases = (
        allow(ResourceType.TRANSACTIONAL_ID, "t", each) for each in (Operation.WRITE, Operation.TWO_PHASE_COMMIT)
    )
    for entries, enable2_pc, passes in (
        ([write], False, True),
        ([write], True, False),
        ([two_phases], True, False),
        ([write, two_phases], True, True),
    ):
        guarded = Guarded(*entries)
        reply = INIT_PRODUCER_ID.response()
        answer = guarded.ask(INIT_PRODUCER_ID, 6, reply, transactional_id="t", enable2_pc=enable2_pc)
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (guarded.asked is not None, answer.error_code) == (passes, 0 if passes else refused)
