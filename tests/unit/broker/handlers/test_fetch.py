"""Fetch: which records are read, what sessions leave out, and how each error is reported."""

from types import SimpleNamespace

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, ForgottenTopic, ReplicaState
from protocol.records.control import build_end_transaction_marker
from protocol.schema import Struct
from storage.append.header_validation import AppendOrigin
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.fetching import BATCH_BYTES, append, fetch, fetch_one, read_offsets, send, wanted


@pytest.mark.parametrize("version", range(4, 19))
def test_records_from_an_offset_on(filled: DataBroker, version: int) -> None:
    """The response begins with the batch that holds the offset, and has the log's start and end offsets."""
    answer = fetch_one(filled, 4, version=version)

    assert read_offsets(answer) == list(range(3, 15))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 15, 15)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert answer.preferred_read_replica == -1
    assert answer.aborted_transactions is None


@pytest.mark.parametrize("version", [4, 9, 10])
def test_zstd_topics_are_served_from_the_first_version(filled: DataBroker, version: int) -> None:
    """Apache Kafka 4.3.1 rejects no version any more, though only v10 and later promise zstd support (KIP-110)."""
    filled.partitions.update_config("t", LogConfig(compression_type="zstd"))
    answer = fetch_one(filled, 4, version=version)

    assert (answer.error_code, read_offsets(answer)) == (0, list(range(3, 15)))


@pytest.mark.parametrize(
    ("limit", "size"), [(0, 391), (1, 391), (390, 391), (391, 391), (400, 400), (900, 900), (5000, 5 * BATCH_BYTES)]
)
def test_limits_cut_but_the_first_batch_is_whole(filled: DataBroker, limit: int, size: int) -> None:
    """The lower of the partition's and the request's limit counts. The first batch is always whole (S4.14)."""
    assert len(fetch_one(filled, max_bytes=limit).records) == size
    [topic] = fetch(filled, topics=wanted((0, 0), max_bytes=limit)).responses
    assert len(topic.partitions[0].records) == size


def test_only_the_first_records_may_exceed_the_limits(filled: DataBroker) -> None:
    append(filled, index=1)
    response = fetch(filled, max_bytes=500, topics=wanted((0, 15), (1, 0), (0, 3)))
    sizes = [len(answer.records) for answer in response.responses[0].partitions]

    assert sizes == [BATCH_BYTES, BATCH_BYTES] or sizes == [500, 0]
    response = fetch(filled, max_bytes=400, topics=wanted((1, 0), (0, 3)))
    assert [len(answer.records) for answer in response.responses[0].partitions] == [BATCH_BYTES, 0]


def test_fetch_max_bytes_of_the_broker_bounds_the_request(filled: DataBroker) -> None:
    filled.config.get_int = {"fetch.max.bytes": 800}.__getitem__

    assert len(fetch_one(filled).records) == 800


@pytest.mark.parametrize("fields", [{"max_bytes": -1}])
def test_negative_limits_are_an_error(filled: DataBroker, fields: dict[str, int]) -> None:
    """As in Kafka, which has no better code."""
    assert fetch_one(filled, **fields).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    [topic] = fetch(filled, topics=wanted((0, 0), **fields)).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("offset", [16, -1, 999_999])
def test_offsets_out_of_range(filled: DataBroker, offset: int) -> None:
    """OFFSET_OUT_OF_RANGE at once; all other fields are -1."""
    reply = send(filled, topics=wanted((0, offset)))
    assert reply.done
    answer = filled.received(FETCH, 12, reply).responses[0].partitions[0]

    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert answer.aborted_transactions is None
    assert len(answer.records) == 0


def test_deleted_records_are_out_of_range(filled: DataBroker) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.delete_records(4)

    assert fetch_one(filled, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch_one(filled, 4).log_start_offset == 4


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"topic": "nope"}, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": ""}, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic_id": b"?" * 16}, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"topic_id": bytes(16)}, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"index": 44}, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 44}, 13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 5}, 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": 1}, 12, ErrorCode.FENCED_LEADER_EPOCH),
        ({"replica_id": 1}, 12, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": 2, "current_leader_epoch": 2}, 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_state": ReplicaState(replica_id=2)}, 17, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_partitions_that_cannot_be_read(
    filled: DataBroker, fields: dict[str, object], version: int, code: ErrorCode
) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.lead(2)
    answer = fetch_one(filled, version=version, **fields)  # type: ignore[arg-type]

    assert answer.error_code == code
    assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)


def test_a_fenced_client_learns_the_leader(filled: DataBroker) -> None:
    """KIP-951, from v16 on."""
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.lead(2)
    for version, leader, hosts in ((15, (-1, -1), []), (16, (1, 2), [(1, "10.0.0.1", 9092, "r1")])):
        response = fetch(filled, version, topics=wanted((0, 0), version=version, current_leader_epoch=1))
        answer = response.responses[0].partitions[0]
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == leader
        assert [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints] == hosts


def test_a_recreated_topic_is_another_one_to_a_session(filled: DataBroker) -> None:
    session_id = fetch(filled, 13, session_epoch=0, topics=wanted((0, 0), version=13)).session_id
    filled.partitions.delete("t")
    filled.topic(topic_id=b"another-topic-id")
    response = fetch(filled, 13, session_id=session_id, session_epoch=1)

    assert response.responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_the_diverging_epoch_of_a_client_is_found(filled: DataBroker) -> None:
    """KIP-595: the client sends the epoch of its last record; the response says where that epoch ends here."""
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.lead(3)
    append(filled)
    for offset, epoch, diverging in (
        (15, 0, None),
        (18, 3, None),
        (17, 0, (0, 15)),
        (40, 3, (3, 18)),
        (16, 2, (0, 15)),
    ):
        answer = fetch_one(filled, offset, last_fetched_epoch=epoch)
        found = answer.diverging_epoch
        assert ((found.epoch, found.end_offset) if diverging else None) == diverging, offset
        assert found.epoch >= 0 or not diverging
        assert answer.error_code == 0
    assert fetch_one(filled, 3, last_fetched_epoch=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch_one(filled, -1, last_fetched_epoch=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_invalid_isolation_levels(filled: DataBroker) -> None:
    response = fetch(filled, isolation_level=2, topics=wanted((0, 0)))

    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert fetch(filled, 13, isolation_level=-1, topics=wanted((0, 0), version=13)).responses == []


def test_a_bad_isolation_level_does_not_reveal_a_topic(filled: DataBroker) -> None:
    """The response is the same whether the topic exists or not."""
    filled.guard = SimpleNamespace(
        reader=lambda ctx: lambda topic: False, asking=lambda operation, kind: lambda connection, name: False
    )
    response = fetch(filled, isolation_level=5, topics=wanted((0, 0)))
    assert response.error_code == ErrorCode.NONE
    assert response.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("replica_id", "code"), [(2, "replicas"), (-1, "topics"), (-2, "topics")])
def test_a_replica_fetch_must_come_from_a_replica(filled: DataBroker, replica_id: int, code: str) -> None:
    """The broker checks the replica role, not which topics it may read. All other clients are rejected."""
    asked: list[str] = []

    def note(what: str) -> object:
        return lambda ctx: asked.append(what) or (lambda topic: False)

    filled.guard = SimpleNamespace(
        reader=note("topics"),
        replica_reader=note("replicas"),
        asking=lambda operation, kind: lambda connection, name: False,
    )
    response = fetch(filled, replica_id=replica_id, topics=wanted((0, 0)))
    assert response.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert asked == [code]


def test_a_diverging_log_has_no_aborted_transactions(filled: DataBroker) -> None:
    """The field is null, not an empty list."""
    answer = fetch_one(filled, 99, last_fetched_epoch=0, isolation_level=1)
    assert answer.diverging_epoch.end_offset >= 0
    assert answer.aborted_transactions is None


def test_a_session_may_name_and_forget_all_its_partitions(filled: DataBroker) -> None:
    """The session ends, and the response is that of a fetch without a session."""
    session_id = fetch(filled, session_epoch=0, topics=wanted((0, 0))).session_id
    forgotten = [ForgottenTopic(topic="t", partitions=[0])]
    both: dict[str, object] = {"session_id": session_id, "topics": wanted((0, 0)), "forgotten_topics_data": forgotten}
    response = fetch(filled, session_epoch=1, **both)

    assert response.session_id == 0
    assert len(response.responses[0].partitions[0].records) > 0
    assert fetch(filled, session_epoch=2, **both).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_invalid_isolation_level_keeps_the_session(filled: DataBroker) -> None:
    """The response names the session, as in Apache Kafka."""
    session_id = fetch(filled, session_epoch=0, topics=wanted((0, 0))).session_id
    response = fetch(filled, session_id=session_id, session_epoch=1, isolation_level=7)

    assert (response.error_code, response.session_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, session_id)
    assert fetch(filled, session_id=session_id, session_epoch=2).error_code == ErrorCode.NONE


def test_read_committed_stops_at_open_transactions(broker: DataBroker) -> None:
    """KIP-98: read_committed sees up to the last stable offset, and skips the data of aborted transactions."""
    partition = broker.topic()

    def transactional(producer_id: int) -> None:
        append(broker, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0)

    transactional(7)
    append(broker)
    marker = build_end_transaction_marker(7, 0, commit=False, coordinator_epoch=0, timestamp_ms=broker.clock.now_ms())
    partition.append(marker, broker.clock.now_ms(), AppendOrigin.COORDINATOR)
    transactional(8)
    append(broker)

    answer = fetch_one(broker, isolation_level=1)
    assert read_offsets(answer) == list(range(7))
    assert (answer.high_watermark, answer.last_stable_offset) == (13, 7)
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [(7, 0)]
    beyond = fetch_one(broker, 7, isolation_level=1)
    assert (beyond.error_code, len(beyond.records), beyond.aborted_transactions) == (0, 0, [])
    assert read_offsets(fetch_one(broker, isolation_level=0)) == list(range(13))


def test_debugging_consumers_read_to_the_log_end(filled: DataBroker) -> None:
    assert read_offsets(fetch_one(filled, replica_id=-2)) == list(range(15))


def test_reads_continue_over_segments(broker: DataBroker) -> None:
    """One response comes from one segment. A reader gets everything in the end."""
    broker.topic(config=LogConfig(segment_bytes=1000))
    for _ in range(9):
        append(broker)
    offset, found = 0, []
    while offset < 27:
        found += read_offsets(fetch_one(broker, offset))
        offset = found[-1] + 1

    assert found == list(range(27))


# -- sessions ----------------------------------------------------------------------------------------------------


def test_a_session_sends_only_changes(filled: DataBroker) -> None:
    """Apache Kafka answered the same steps in the same way."""
    first = fetch(filled, 13, session_epoch=0, topics=wanted((0, 13), (1, 0), version=13))
    session_id = first.session_id
    assert session_id > 0
    assert [answer.partition_index for answer in first.responses[0].partitions] == [0, 1]

    def follow(epoch: int, version: int = 13, **fields: object) -> Struct:
        return fetch(filled, version, session_id=session_id, session_epoch=epoch, **fields)

    second = follow(1, topics=wanted((0, 15), (1, 0), version=13))
    assert (second.error_code, second.session_id, second.responses) == (0, session_id, [])
    append(filled, index=1)
    third = follow(2)
    assert [read_offsets(answer) for answer in third.responses[0].partitions] == [[0, 1, 2]]
    assert follow(2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert follow(3, 12).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    last = follow(3, forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0, 1])])
    assert (last.error_code, last.session_id, last.responses) == (0, 0, [])
    assert follow(4).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_repeats_an_error_each_time(filled: DataBroker) -> None:
    session_id = fetch(filled, 13, session_epoch=0, topics=wanted((0, 99), version=13)).session_id
    for epoch in (1, 2):
        response = fetch(filled, 13, session_id=session_id, session_epoch=epoch)
        assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_finds_a_topic_that_is_created_later(filled: DataBroker) -> None:
    other = b"later-topic-id--"
    session_id = fetch(filled, 13, session_epoch=0, topics=wanted((0, 0), version=13, topic_id=other)).session_id
    filled.topic("later", topic_id=other)
    append(filled, topic="later")
    response = fetch(filled, 13, session_id=session_id, session_epoch=1)

    assert read_offsets(response.responses[0].partitions[0]) == [0, 1, 2]


def test_a_failed_disk_is_a_storage_error(filled: DataBroker) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.log.directory.fail("disk on fire")

    assert fetch_one(filled).error_code == ErrorCode.KAFKA_STORAGE_ERROR
