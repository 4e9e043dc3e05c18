"""ListOffsets: first offset, last offset, by timestamp, and what special timestamps mean in which version."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.schema import Struct
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker

START_MS = 1_700_000_000_000


def append(broker: DataBroker, timestamps: list[int], *, codec: int = 0, index: int = 0, **fields: object) -> None:
    builder = BatchBuilder(codec=codec, **fields)  # type: ignore[arg-type]
    for timestamp in timestamps:
        builder.append(START_MS + timestamp, b"k", b"v" * 100)
    partition = broker.partitions.get("t", index)
    assert partition is not None
    partition.append(builder.build(), broker.clock.now_ms())


@pytest.fixture
def filled(broker: DataBroker) -> DataBroker:
    """Partition 0 has five batches of three, at 0, 1, 2, then 10, 11, 12 ms and so on. Partition 1 is empty."""
    broker.topic(partitions=2)
    for number in range(5):
        append(broker, [number * 10 + each for each in range(3)])
    return broker


def ask(
    broker: DataBroker, timestamp: int, *, version: int = 11, index: int = 0, topic: str = "t", epoch: int = -1,
    times: int = 1, **fields: int,
) -> tuple[ErrorCode, int, int, int]:  # fmt: skip
    """Return (error code, timestamp, offset, leader epoch) of the response."""
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    response = broker.call(
        LIST_OFFSETS,
        version,
        **{"replica_id": -1, **fields},
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted] * times)],
    )
    answers: list[Struct] = response.topics[0].partitions
    assert len(answers) == 1
    answer = answers[0]
    assert answer.partition_index == index
    return ErrorCode(answer.error_code), answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
def test_latest_and_earliest(filled: DataBroker, version: int) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.delete_records(4)
    epoch = 0 if version >= 4 else -1

    assert ask(filled, -1, version=version) == (ErrorCode.NONE, -1, 15, epoch)
    assert ask(filled, -2, version=version) == (ErrorCode.NONE, -1, 4, epoch)


@pytest.mark.parametrize(
    ("special", "since", "answer"),
    [
        (-3, 7, (START_MS + 42, 14, 0)),
        (-4, 8, (-1, 0, 0)),
        (-5, 9, (-1, -1, -1)),
        (-6, 11, (-1, -1, -1)),
        (-7, 12, None),
    ],
)
@pytest.mark.parametrize("version", range(1, 12))
def test_special_timestamps_have_their_versions(
    filled: DataBroker, version: int, special: int, since: int, answer: tuple[int, int, int]
) -> None:
    """Older versions get UNSUPPORTED_VERSION, as in Kafka. Without tiered storage -5 and -6 find nothing."""
    expected = (ErrorCode.NONE, *answer) if version >= since else (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)

    assert ask(filled, special, version=version) == expected


@pytest.mark.parametrize(
    ("timestamp", "found"), [(-START_MS, (0, 0)), (0, (0, 0)), (1, (1, 1)), (3, (10, 3)), (13, (20, 6)), (42, (42, 14))]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_first_record_at_or_after_a_time(
    broker: DataBroker, codec: Codec, timestamp: int, found: tuple[int, int]
) -> None:
    """Exact to the record, also inside compressed batches and across segments."""
    broker.topic(config=LogConfig(segment_bytes=800))
    for number in range(5):
        append(broker, [number * 10 + each for each in range(3)], codec=codec)

    assert ask(broker, START_MS + timestamp) == (ErrorCode.NONE, START_MS + found[0], found[1], 0)
    assert ask(broker, START_MS + 43) == (ErrorCode.NONE, -1, -1, -1)


def test_deleted_records_are_not_found(filled: DataBroker) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.delete_records(4)
    assert ask(filled, START_MS) == (ErrorCode.NONE, START_MS + 11, 4, 0)
    partition.delete_records(15)
    assert ask(filled, START_MS) == (ErrorCode.NONE, -1, -1, -1)


def test_an_empty_partition(filled: DataBroker) -> None:
    assert ask(filled, -1, index=1) == (ErrorCode.NONE, -1, 0, 0)
    assert ask(filled, -2, index=1) == (ErrorCode.NONE, -1, 0, 0)
    assert ask(filled, -3, index=1) == (ErrorCode.NONE, -1, -1, -1)
    assert ask(filled, START_MS, index=1) == (ErrorCode.NONE, -1, -1, -1)


def test_the_largest_timestamp_need_not_be_the_last(filled: DataBroker) -> None:
    """KIP-734."""
    append(filled, [100, 200, 150])
    append(filled, [-1000, -999])

    assert ask(filled, -3) == (ErrorCode.NONE, START_MS + 200, 16, 0)


def test_committed_readers_see_the_last_stable_offset(filled: DataBroker) -> None:
    append(filled, [500], transactional=True, producer_id=3, producer_epoch=0, base_sequence=0)

    assert ask(filled, -1, isolation_level=1)[2] == 15
    assert ask(filled, -1, isolation_level=0)[2] == 16
    assert ask(filled, -1, isolation_level=1, replica_id=-2)[2] == 16
    assert ask(filled, START_MS + 500, isolation_level=1) == (ErrorCode.NONE, -1, -1, -1)
    assert ask(filled, START_MS + 500, isolation_level=0)[2] == 15
    assert ask(filled, -3, isolation_level=1) == (ErrorCode.NONE, -1, -1, -1)
    assert ask(filled, -1, isolation_level=5)[0] == ErrorCode.UNKNOWN_SERVER_ERROR


def test_errors(filled: DataBroker) -> None:
    partition = filled.partitions.get("t", 0)
    assert partition is not None
    partition.lead(2)

    assert ask(filled, -1, topic="nope")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(filled, -1, index=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(filled, -1, epoch=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(filled, -1, epoch=1)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(filled, -1, epoch=2) == (ErrorCode.NONE, -1, 15, 2)
    assert ask(filled, -1, times=2)[0] == ErrorCode.INVALID_REQUEST
    partition.log.directory.fail("disk on fire")
    assert ask(filled, START_MS)[0] == ErrorCode.KAFKA_STORAGE_ERROR
