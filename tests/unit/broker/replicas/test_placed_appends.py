"""A thread writes very large batches. Later appends to the partition wait, and other partitions continue."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.records.batch import TIMESTAMP_TYPE_BIT, patch_timestamp
from runtime.deferred import Deferred
from storage.append.placing import AT_ONCE_BYTES
from storage.fs import FileSystem
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.data_broker import DataBroker
from tests.support.held_appends import NOW_MS, answer, answer_is_there, batch, send, stored

CONFIG = LogConfig(max_message_bytes=100_000_000)
HUGE = bytes(AT_ONCE_BYTES)


class HeldPool:
    """Threads that do nothing until the test releases them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Deferred[Any], Callable[[], Any]]] = []

    def __call__(self, function: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self.calls.append((done, function))
        return done

    def run_one(self) -> None:
        done, function = self.calls.pop(0)
        try:
            value = function()
        except OSError as error:
            done.fail(error)
        else:
            done.resolve(value)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    made.offload = HeldPool()
    made.topic(partitions=2, config=CONFIG)
    yield made
    made.close()


def pool(broker: DataBroker) -> HeldPool:
    assert isinstance(broker.offload, HeldPool)
    return broker.offload


def log_file(broker: DataBroker) -> Path:
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    return Path(partition.log.path) / f"{partition.log.active_segment.base_offset:020d}.log"


def test_large_batch_keeps_its_place_and_others_continue(broker: DataBroker) -> None:
    """Responses keep the order of arrival, and each byte is where it belongs."""
    before, huge, behind = batch(2), batch(3, value=HUGE), batch(1)
    partition = broker.partitions.get("t", 0)
    assert partition is not None

    assert answer(send(broker, before)).base_offset == 0
    large, small = send(broker, huge), send(broker, behind)
    assert not answer_is_there(large)
    assert not answer_is_there(small)
    assert partition.log.log_end_offset == 2
    assert answer(send(broker, batch(1), index=1)).base_offset == 0

    pool(broker).run_one()
    assert answer(large).base_offset == 2
    assert answer(small).base_offset == 5
    assert partition.queue is None
    assert broker.held_bytes == 0
    assert [each.size_bytes for each in stored(partition)] == [len(before), len(huge), len(behind)]
    there = log_file(broker).read_bytes()
    assert there[len(before) + 16 : len(before) + len(huge)] == huge[16:]
    assert len(there) == len(before + huge + behind)


def test_a_partial_write_is_no_batch(broker: DataBroker, tmp_path: Path) -> None:
    """A broker that is killed then finds nothing of it."""
    assert answer(send(broker, batch(2))).base_offset == 0
    reply = send(broker, batch(3, value=HUGE))
    (_, write) = pool(broker).calls[0]
    write()
    shutil.copytree(Path(log_file(broker)).parents[1], tmp_path / "copy")
    (tmp_path / "copy" / ".lock").unlink(missing_ok=True)
    logs = LogManager([str(tmp_path / "copy")])
    logs.lock()
    logs.load(lambda topic: CONFIG, NOW_MS)
    (found,) = (log for log in logs.logs.values() if log.partition == 0)
    assert found.log_end_offset == 2
    logs.close(NOW_MS)
    assert not answer_is_there(reply)
    pool(broker).run_one()
    assert answer(reply).base_offset == 2


def test_a_coordinators_log_is_appended_to_at_once(broker: DataBroker) -> None:
    """The coordinator does not wait for clients' batches, and a thread would write to the same position."""
    broker.topic("__consumer_offsets", topic_id=bytes(15) + b"\7", config=CONFIG)
    partition = broker.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    result = broker.appends.append(partition, memoryview(bytearray(batch(1, value=HUGE))), NOW_MS)
    assert not isinstance(result, Deferred)
    assert not pool(broker).calls
    assert partition.log.log_end_offset == 1


def damaged() -> bytes:
    records = bytearray(batch(1, value=HUGE))
    records[-1] ^= 1
    return bytes(records)


def test_a_rejected_one_is_not_even_written(broker: DataBroker) -> None:
    """No append behind it waits for ever."""
    assert answer(send(broker, damaged())).error_code == ErrorCode.CORRUPT_MESSAGE
    assert not pool(broker).calls
    assert answer(send(broker, batch(1))).base_offset == 0


def test_a_batch_over_the_limit_is_too_large(broker: DataBroker) -> None:
    broker.topic("small", topic_id=bytes(15) + b"\7", config=LogConfig())
    partition = broker.partitions.get("small", 0)
    assert partition is not None
    reply = broker.appends.append  # as a request does
    done = reply(partition, memoryview(bytearray(batch(1, value=HUGE))), NOW_MS)
    assert isinstance(done, Deferred)
    with pytest.raises(Exception, match="max") as raised:
        done.result()
    assert type(raised.value).__name__ == "RecordTooLarge"


def test_a_duplicate_leaves_nothing_behind(broker: DataBroker) -> None:
    """A retry of an idempotent producer gets the first response, and the file stays as long as before."""
    records = batch(1, value=HUGE, producer_id=7, producer_epoch=0, base_sequence=0)
    first = send(broker, records)
    pool(broker).run_one()
    assert answer(first).base_offset == 0
    size = log_file(broker).stat().st_size

    again = send(broker, records)
    pool(broker).run_one()

    assert answer(again).base_offset == 0
    assert log_file(broker).stat().st_size == size == len(records)


def test_segment_rolled_meanwhile_has_no_bytes_of_it(broker: DataBroker) -> None:
    """Retention may roll it. The batch is written again, into the new segment."""
    assert answer(send(broker, batch(2))).base_offset == 0
    old, partition = log_file(broker), broker.partitions.get("t", 0)
    assert partition is not None
    size = old.stat().st_size
    reply = send(broker, batch(1, value=HUGE))
    partition.log.roll(2, NOW_MS)
    pool(broker).run_one()
    assert not answer_is_there(reply)
    assert old.stat().st_size == size

    pool(broker).run_one()
    assert answer(reply).base_offset == 2
    assert log_file(broker) != old
    assert [each.base_offset for each in stored(partition)] == [0, 2]


def test_a_wrong_timestamp_type_is_corrected(broker: DataBroker) -> None:
    """The bit for LogAppendTime is set, as in a small batch."""
    records = bytearray(batch(1, value=HUGE))
    patch_timestamp(memoryview(records), 0, len(records), 1, NOW_MS)
    reply = send(broker, bytes(records))
    pool(broker).run_one()
    assert answer(reply).error_code == 0
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    assert stored(partition)[0].attributes & TIMESTAMP_TYPE_BIT == 0


def test_a_write_that_fails_takes_the_directory_offline(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as for any other write."""
    reply = send(broker, batch(1, value=HUGE))
    monkeypatch.setattr(FileSystem, "write_at", _no_space)
    pool(broker).run_one()
    assert answer(reply).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")
