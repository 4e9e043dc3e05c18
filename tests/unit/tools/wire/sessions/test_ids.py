"""Ids of the recorded session are replaced by current ones."""

from __future__ import annotations

from protocol.id_text import id_text
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.list_transactions import LIST_TRANSACTIONS
from protocol.messages.produce import PRODUCE
from protocol.messages.sync_group import SYNC_GROUP
from protocol.records.batch import parse_header, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.schema import Api, Struct
from tools.wire.sessions.ids import Ids

OLD, NEW = b"o" * 16, b"n" * 16


def received(api: Api, version: int, **fields: object) -> Struct:
    """Return a request as it is decoded."""
    return api.request.decode(version, memoryview(api.request.encode(version, api.request(**fields))))[0]


def element(api: Api, name: str, /, **fields: object) -> Struct:
    """Return an element of a list of a request."""
    (field,) = (each for each in api.request.fields if each.name == name)
    return field.type.element(**fields)  # type: ignore[union-attr, operator, no-any-return]


def test_topic_and_session_ids_are_replaced() -> None:
    """Leader epochs are replaced by -1."""
    ids = Ids()
    ids.learn("topic_id", "", id_text(OLD), id_text(NEW))
    ids.learn("session_id", "", 11, 22)
    partition = FetchPartition(partition=0, current_leader_epoch=4, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic_id=OLD, partitions=[partition])]
    fetch = received(FETCH, 13, session_id=11, topics=topics, max_wait_ms=1, min_bytes=1)
    assert ids.replace_in(fetch)
    assert (fetch.session_id, fetch.topics[0].topic_id) == (22, NEW)
    assert fetch.topics[0].partitions[0].current_leader_epoch == -1


def test_generations_are_replaced_by_group() -> None:
    """Member ids at any depth."""
    ids = Ids()
    ids.learn("generation_id", "g", 1, 5)
    ids.learn("member_id", "", "a", "b")
    assignments = [element(SYNC_GROUP, "assignments", member_id=each) for each in ("a", "c")]
    sync = received(SYNC_GROUP, 5, group_id="g", generation_id=1, member_id="a", assignments=assignments)
    assert ids.replace_in(sync)
    assert (sync.generation_id, sync.member_id) == (5, "b")
    assert [each.member_id for each in sync.assignments] == ["b", "c"]
    other = received(HEARTBEAT, 4, group_id="h", generation_id=1, member_id="x")
    assert not ids.replace_in(other)
    assert other.generation_id == 1


def test_producer_epochs_are_replaced_by_producer() -> None:
    """By the recorded producer id of the same struct."""
    ids = Ids()
    ids.learn("producer_id", "", 1000, 7)
    ids.learn("producer_epoch", "1000", 0, 3)
    old = received(ADD_PARTITIONS_TO_TXN, 3, v3_and_below_producer_id=1000, v3_and_below_producer_epoch=0)
    assert ids.replace_in(old)
    assert (old.v3_and_below_producer_id, old.v3_and_below_producer_epoch) == (7, 3)
    listed = received(LIST_TRANSACTIONS, 0, producer_id_filters=[1000, 2000])
    assert ids.replace_in(listed)
    assert listed.producer_id_filters == [7, 2000]


def test_producer_ids_in_batches_are_replaced() -> None:
    """With new checksums. Batches without a producer stay unchanged."""
    ids = Ids()
    ids.learn("producer_id", "", 1000, 7)
    ids.learn("producer_epoch", "1000", 0, 3)
    builder = BatchBuilder(producer_id=1000, producer_epoch=0, base_sequence=9)
    builder.append(5, b"k", b"v")
    plain = BatchBuilder()
    plain.append(5, b"k", b"v")
    data = element(PRODUCE, "topic_data", name="t")
    (field,) = (each for each in data.struct_type.fields if each.name == "partition_data")
    data.partition_data = [field.type.element(index=0, records=builder.build() + plain.build())]  # type: ignore[union-attr, operator]
    produce = received(PRODUCE, 9, acks=-1, timeout_ms=1, topic_data=[data])
    assert ids.replace_in(produce)
    records = produce.topic_data[0].partition_data[0].records
    header = parse_header(records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 9)
    assert verify_crc(records, 0, header.size_bytes)
    assert bytes(records[header.size_bytes :]) == plain.build()


def test_request_without_known_ids_is_unchanged() -> None:
    ids = Ids()
    ids.learn("producer_id", "", -1, 7)
    ids.learn("member_id", "", "", "x")
    heartbeat = received(HEARTBEAT, 4, group_id="g", generation_id=1, member_id="")
    assert not ids.replace_in(heartbeat)
    assert ids.now("producer_id", "", -1) == -1
