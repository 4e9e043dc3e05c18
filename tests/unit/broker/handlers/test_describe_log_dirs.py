"""DescribeLogDirs: directories, volumes, sizes."""

import os
import shutil
from pathlib import Path

import pytest

from metadata.features import CORDONED_DIRECTORIES_LEVEL
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribableLogDirTopic
from protocol.records.builder import BatchBuilder
from tests.support.data_broker import DataBroker


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    made = DataBroker(tmp_path, directories=2)
    made.topic("a", 2)
    made.topic("b", 1, topic_id=b"b" * 16)
    made.logs.directories[1].is_cordoned = True
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    partition = made.partitions.get("a", 0)
    assert partition is not None
    partition.append(builder.build(), made.clock.now_ms())
    return made


@pytest.mark.parametrize("version", range(1, 6))
def test_all_partitions_with_their_sizes(broker: DataBroker, tmp_path: Path, version: int) -> None:
    """A new partition goes to the directory with the fewest.

    Sizes are those of the records. v4 added the volume's bytes.
    """
    response = broker.call(DESCRIBE_LOG_DIRS, version, topics=None)
    first, second = response.results
    log = tmp_path / "data0" / "a-0" / "00000000000000000000.log"

    assert [first.log_dir, second.log_dir] == [str(tmp_path / "data0"), str(tmp_path / "data1")]
    assert {
        (topic.name, each.partition_index): (each.partition_size, each.offset_lag, each.is_future_key)
        for topic in first.topics
        for each in topic.partitions
    } == {("a", 0): (os.path.getsize(log), 0, False), ("b", 0): (0, 0, False)}
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in second.topics] == [
        ("a", [1])
    ]
    total = shutil.disk_usage(tmp_path).total
    assert (first.total_bytes, 0 <= first.usable_bytes <= total) == ((total, True) if version >= 4 else (-1, False))
    assert (first.is_cordoned, second.is_cordoned) == (False, version >= 5)


def test_no_directory_is_cordoned_before_metadata_version_4_3(broker: DataBroker) -> None:
    broker.controller.image.metadata_version = CORDONED_DIRECTORIES_LEVEL - 1
    first, second = broker.call(DESCRIBE_LOG_DIRS, 5, topics=None).results

    assert (first.is_cordoned, second.is_cordoned) == (False, False)


def test_only_the_requested_partitions(broker: DataBroker) -> None:
    response = broker.call(
        DESCRIBE_LOG_DIRS, 5,
        topics=[
            DescribableLogDirTopic(topic="a", partitions=[1, 7]), DescribableLogDirTopic(topic="nope", partitions=[0]),
        ],
    )  # fmt: skip

    assert [[topic.name for topic in result.topics] for result in response.results] == [[], ["a"]]
    response = broker.call(DESCRIBE_LOG_DIRS, 5, topics=[])
    assert [result.topics for result in response.results] == [[], []]


def test_a_directory_that_failed(broker: DataBroker) -> None:
    broker.logs.directories[0].fail("disk on fire")
    first, second = broker.call(DESCRIBE_LOG_DIRS, 5, topics=None).results

    assert (first.error_code, first.topics, first.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, [], -1)
    assert second.error_code == ErrorCode.NONE


def after_a_clean_stop(broker: DataBroker, tmp_path: Path) -> DataBroker:
    """The same partitions, none of them open."""
    broker.close()
    again = DataBroker(tmp_path, {"cordoned.log.dirs": ()}, directories=2, may_wait=True)
    again.topic("a", 2, is_new=False)
    again.topic("b", 1, topic_id=b"b" * 16, is_new=False)
    assert len(again.logs.unopened) == 3
    return again


@pytest.mark.parametrize("wanted", [None, [DescribableLogDirTopic(topic="a", partitions=[0, 1])]])
def test_unopened_logs_are_reported_and_stay_unopened(
    broker: DataBroker, tmp_path: Path, wanted: list[DescribableLogDirTopic] | None
) -> None:
    """Opening ten thousand logs would block the loop for seconds."""

    def sizes(of: DataBroker) -> set[tuple[str, str, int, int]]:
        return {
            (result.log_dir, topic.name, each.partition_index, each.partition_size)
            for result in of.call(DESCRIBE_LOG_DIRS, 1, topics=wanted).results
            for topic in result.topics
            for each in topic.partitions
        }

    before = sizes(broker)
    again = after_a_clean_stop(broker, tmp_path)
    assert sizes(again) == before
    assert len(again.logs.unopened) == 3
    again.logs.open("a", 0)
    assert sizes(again) == before
    again.close()


def test_a_removed_directory_does_not_fail_the_others(broker: DataBroker, tmp_path: Path) -> None:
    """Somebody removed the partition's directory while its log was unopened. The other partitions are reported."""
    again = after_a_clean_stop(broker, tmp_path)
    shutil.rmtree(tmp_path / "data0/a-0")
    first, second = again.call(DESCRIBE_LOG_DIRS, 5, topics=None).results

    assert first.error_code == second.error_code == ErrorCode.NONE
    assert [topic.name for topic in first.topics] == ["b"]
    assert again.logs.directories[0].is_online
    again.close()


def test_a_directory_that_fails_during_the_request(broker: DataBroker, tmp_path: Path) -> None:
    """The response has the error, and not only a part of the partitions."""
    again = after_a_clean_stop(broker, tmp_path)
    (tmp_path / "data0").rename(tmp_path / "unmounted")
    (tmp_path / "data0").mkdir()
    first, second = again.call(DESCRIBE_LOG_DIRS, 5, topics=None).results

    assert (first.error_code, first.topics, first.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, [], -1)
    assert [topic.name for topic in second.topics] == ["a"]
    again.close()
