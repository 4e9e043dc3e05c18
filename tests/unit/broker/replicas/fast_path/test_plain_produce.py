"""The fast path for Produce returns what the handler would return, or leaves the request to the handler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.replicas.fast_path.plain_produce import plain_produce
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from storage.errors import LogOffline
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.network import answers_in, request_frame
from tests.support.offered import dispatcher_for, fast_path_of

VERSIONS = range(3, 14)
OTHER_ID = b"other-topic-id-b"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    yield made
    made.close()


def batch(broker: DataBroker, **of: Any) -> bytes:
    builder = BatchBuilder(**of)
    builder.append(broker.clock.now_ms(), b"key", b"value", ())
    return bytes(builder.build())


def topic_data(version: int, topic: str, topic_id: bytes, data: Sequence[tuple[int, bytes]]) -> Struct:
    named = {"name": topic} if version < 13 else {"topic_id": topic_id}
    return TopicProduceData(
        **named, partition_data=[PartitionProduceData(index=index, records=records) for index, records in data]
    )


def fields_of(
    version: int, records: bytes, *, topic: str = "t", index: int = 0, acks: int = 1, topic_id: bytes = TOPIC_ID
) -> dict[str, Any]:
    topics = [topic_data(version, topic, topic_id, [(index, records)])]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": topics}


def ask_short_way(broker: DataBroker, version: int, **fields: Any) -> Struct | None:
    """Return the fast path's response, or None if it leaves the request to the handler. Some versions have none."""
    serve = fast_path_of(broker, plain_produce, version)
    assert (serve is None) == (version < 9)
    if serve is None:
        return None
    frame = bytearray(b"header" + PRODUCE.request.encode(version, PRODUCE.request(**fields)))
    return _answered(serve(None, memoryview(frame), 6, 77), version)


def dispatched(broker: DataBroker, version: int, **fields: Any) -> Struct:
    """Return the response of the dispatcher, which has both ways."""
    frame = bytearray(request_frame(PRODUCE, version, 77, **fields)[4:])
    answer = _answered(dispatcher_for(broker).dispatch(None, memoryview(frame)), version)  # type: ignore[arg-type]
    assert answer is not None
    return answer


def _answered(found: Any, version: int) -> Struct | None:
    if found is None:
        return None
    ((correlation_id, answer),) = answers_in(found if type(found) is bytes else b"".join(found), [(PRODUCE, version)])
    assert correlation_id == 77
    return answer


def ask(broker: DataBroker, version: int, records: bytes, **of: Any) -> tuple[Struct | None, Struct | None]:
    """Return the response of the fast path, and the handler's response after it."""
    fields = fields_of(version, records, **of)
    answer = ask_short_way(broker, version, **fields)
    reply = broker.send(PRODUCE, version, **fields)
    broker.settle()
    return answer, None if reply is None else broker.received(PRODUCE, version, reply)


def answered_partitions(response: Struct) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name or topic.topic_id, each.index, each.error_code, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_appended_records_are_answered_as_by_the_handler(broker: DataBroker, version: int, acks: int) -> None:
    """Except for the base offset, which continues. Older versions go to the handler."""
    partition = broker.topic(partitions=2)
    by_short_way, by_handler = ask(broker, version, batch(broker), acks=acks)
    if version < 9:
        assert by_short_way is None
        assert partition.log_end_offset == 1
        return

    assert partition.log_end_offset == 2
    assert by_short_way is not None
    by_short_way.responses[0].partition_responses[0].base_offset += 1
    assert by_handler == by_short_way


@pytest.mark.parametrize("version", range(9, 14))
def test_many_partitions_of_several_topics_are_answered_in_order(broker: DataBroker, version: int) -> None:
    broker.topic(partitions=200)
    broker.topic("other", 2, topic_id=OTHER_ID)
    topics = [
        topic_data(version, "other", OTHER_ID, [(1, batch(broker))]),
        topic_data(version, "t", TOPIC_ID, [(index, batch(broker)) for index in reversed(range(200))]),
    ]
    by_short_way = ask_short_way(broker, version, acks=-1, timeout_ms=1000, topic_data=topics)
    by_handler = broker.call(PRODUCE, version, acks=-1, timeout_ms=1000, topic_data=topics)

    assert by_short_way is not None
    for topic in by_short_way.responses:
        for each in topic.partition_responses:
            each.base_offset += 1
    assert by_handler == by_short_way
    assert {partition.log_end_offset for partition in broker.partitions} == {0, 2}  # "other" has one without records


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_rejected_batch_is_reported_and_others_stay(broker: DataBroker, version: int, refused: int) -> None:
    """The batches before it are not appended again. Those behind it are appended."""
    broker.topic(partitions=3)
    damaged = bytearray(batch(broker))
    damaged[-1] ^= 1
    data = [(index, bytes(damaged) if index == refused else batch(broker)) for index in range(3)]
    topics = [topic_data(version, "t", TOPIC_ID, data)]
    answer = dispatched(broker, version, acks=1, timeout_ms=1000, topic_data=topics)

    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.CORRUPT_MESSAGE if index == refused else 0 for index in range(3)]
    ends = [broker.partitions.get("t", index).log_end_offset for index in range(3)]  # type: ignore[union-attr]
    assert ends == [int(index != refused) for index in range(3)]


def test_a_disk_that_fails_in_the_middle_is_reported(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions before it are acknowledged, because their records were written."""
    broker.topic(partitions=3)
    second = broker.partitions.get("t", 1)
    assert second is not None

    def fail(*_: object) -> None:
        raise LogOffline("/d", "broken")

    monkeypatch.setattr(type(second.log), "_write", _only_for(second.log, fail))
    topics = [topic_data(9, "t", TOPIC_ID, [(index, batch(broker)) for index in range(3)])]
    answer = dispatched(broker, 9, acks=1, timeout_ms=1000, topic_data=topics)

    assert [each.error_code for each in answer.responses[0].partition_responses] == [
        0,
        ErrorCode.KAFKA_STORAGE_ERROR,
        0,
    ]
    assert [each.log_end_offset for each in broker.partitions] == [1, 0, 1]


def _only_for(log: object, fail: Any) -> Any:
    write = type(log)._write  # type: ignore[attr-defined]
    return lambda self, *args: (fail if self is log else partial_write(write, self))(*args)


def partial_write(write: Any, log: object) -> Any:
    return lambda *args: write(log, *args)


@pytest.mark.parametrize("in_one_topic", [True, False])
def test_batches_for_the_same_partition_are_left_to_the_handler(broker: DataBroker, in_one_topic: bool) -> None:
    """The handler takes the last of them. The fast path appends nothing."""
    partition = broker.topic()
    data = [(0, batch(broker)), (0, batch(broker))]
    sets = [data] if in_one_topic else [data[:1], data[1:]]
    topics = [topic_data(9, "t", TOPIC_ID, each) for each in sets]

    assert ask_short_way(broker, 9, acks=1, timeout_ms=1000, topic_data=topics) is None
    assert partition.log_end_offset == 0


@pytest.mark.parametrize("bad", ["unknown", "internal", "transactional", "two batches", "magic"])
def test_one_partition_for_the_handler_takes_all_there(broker: DataBroker, bad: str) -> None:
    """Before anything has changed: some of these fail the whole request."""
    partition = broker.topic(partitions=2)
    broker.topic("__consumer_offsets", topic_id=OTHER_ID)
    good = batch(broker)
    magic = bytearray(good)
    magic[16] = 1
    last = {
        "unknown": topic_data(9, "t", TOPIC_ID, [(7, good)]),
        "internal": topic_data(9, "__consumer_offsets", OTHER_ID, [(0, good)]),
        "transactional": topic_data(
            9,
            "t",
            TOPIC_ID,
            [(1, batch(broker, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))],
        ),
        "two batches": topic_data(9, "t", TOPIC_ID, [(1, good + good)]),
        "magic": topic_data(9, "t", TOPIC_ID, [(1, bytes(magic))]),
    }[bad]
    topics = [topic_data(9, "t", TOPIC_ID, [(0, good)]), last]

    assert ask_short_way(broker, 9, acks=1, timeout_ms=1000, topic_data=topics) is None
    assert partition.log_end_offset == 0


@pytest.mark.parametrize("version", range(9, 14))
def test_a_duplicate_of_an_idempotent_producer_has_its_offset(broker: DataBroker, version: int) -> None:
    """Sequences are checked as usual."""
    partition = broker.topic()
    records = batch(broker, producer_id=5, producer_epoch=0, base_sequence=0)
    ask(broker, version, records)
    by_short_way, by_handler = ask(broker, version, records)

    assert partition.log_end_offset == 1
    assert by_handler == by_short_way


def test_rejected_records_are_left_to_the_handler(broker: DataBroker) -> None:
    """Before anything has changed."""
    partition = broker.topic()
    good = batch(broker)
    damaged = bytearray(good)
    damaged[-1] ^= 1
    cases = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ask(broker, 9, good, topic="unknown"),
        ErrorCode.UNKNOWN_TOPIC_ID: ask(broker, 13, good, topic_id=b"another topic id"),
        ErrorCode.CORRUPT_MESSAGE: ask(broker, 9, bytes(damaged)),
        ErrorCode.INVALID_RECORD: ask(broker, 9, good + good),
        ErrorCode.INVALID_REQUIRED_ACKS: ask(broker, 9, good, acks=2),
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (None, None),
    }
    ask(broker, 9, batch(broker, producer_id=5, producer_epoch=0, base_sequence=0))
    cases[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] = ask(
        broker, 9, batch(broker, producer_id=5, producer_epoch=0, base_sequence=7)
    )
    for code, (by_short_way, by_handler) in cases.items():
        assert by_short_way is None
        assert by_handler is not None
        assert by_handler.responses[0].partition_responses[0].error_code == code
    assert partition.log_end_offset == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_offline_log_is_left_to_the_handler(broker: DataBroker, acks: int) -> None:
    partition = broker.topic()
    partition.log.directory.fail("broken")
    broker.partitions.take_offline(broker.logs.directories[0])
    by_short_way, by_handler = ask(broker, 9, batch(broker), acks=acks)

    assert by_short_way is None
    assert by_handler is not None
    assert by_handler.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_special_requests_are_left_to_the_handler(broker: DataBroker) -> None:
    """acks=0, __consumer_offsets, flush.messages, and LogAppendTime, which is patched into the request's bytes."""
    broker.topic("__consumer_offsets", topic_id=b"offsets-topic-id")
    broker.topic("flushed", topic_id=b"flushed-topic-id", config=LogConfig(flush_messages=1))
    broker.topic("stamped", topic_id=b"stamped-topic-id", config=LogConfig(message_timestamp_type="LogAppendTime"))
    broker.topic()

    assert ask(broker, 9, batch(broker), acks=0) == (None, None)
    assert ask(broker, 9, batch(broker), topic="stamped")[0] is None
    assert ask(broker, 9, batch(broker), topic="__consumer_offsets")[0] is None
    assert ask(broker, 9, batch(broker), topic="flushed")[0] is None
    transactional = batch(broker, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert ask(broker, 9, transactional)[0] is None
