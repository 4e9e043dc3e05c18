"""The end of a log as a system crash may leave it: exactly the whole and valid batches before the damage stay.

Everything else agrees with them: the log end offset, the producer's last sequence, the leader epochs, the group's
offsets. Each partition of the topic has a different end, so that one start sees all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.records.batch import iter_batches
from tests.fault.written_directory import GROUP, TOPIC, Written, write
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.scale import scaled

DICE = random.Random(16)


@dataclass(frozen=True)
class Place:
    """A batch in the last segment of a partition: its position in the file, and its size."""

    position: int
    size: int


Tear = Callable[[bytearray, Place, Place], int]  # changes the bytes; how many of the last two batches are lost


def cut(data: bytearray, before: Place, last: Place) -> int:
    del data[DICE.randrange(last.position + 1, last.position + last.size) :]
    return 1


def cut_in_header(data: bytearray, before: Place, last: Place) -> int:
    del data[last.position + DICE.randrange(1, 61) :]
    return 1


def cut_two(data: bytearray, before: Place, last: Place) -> int:
    del data[DICE.randrange(before.position + 1, last.position) :]
    return 2


def zeros_from(data: bytearray, before: Place, last: Place) -> int:
    """The file's length reached the disk, its last blocks did not."""
    start = DICE.randrange(last.position, last.position + last.size - 1)
    if not any(data[start:]):
        return 0
    data[start:] = bytes(len(data) - start)
    return 1


def zeros_behind(data: bytearray, before: Place, last: Place) -> int:
    data += bytes(DICE.randrange(1, 5000))
    return 0


def garbage_behind(data: bytearray, before: Place, last: Place) -> int:
    data += DICE.randbytes(DICE.randrange(1, 5000))
    return 0


def flip_a_bit(data: bytearray, before: Place, last: Place) -> int:
    """Damage in the last batch but one, within its checksum. The batch behind it is lost too."""
    data[DICE.randrange(before.position + 21, last.position)] ^= 1 << DICE.randrange(8)
    return 2


def wrong_offset(data: bytearray, before: Place, last: Place) -> int:
    """The checksum does not cover the base offset."""
    data[last.position : last.position + 8] = (1).to_bytes(8, "big")
    return 1


def another_copy(data: bytearray, before: Place, last: Place) -> int:
    data += data[last.position :]
    return 0


TEARS: list[Tear] = [
    *(cut, cut_in_header, cut_two, zeros_from, zeros_behind),
    *(garbage_behind, flip_a_bit, wrong_offset, another_copy),
]
CASES = TEARS * scaled(1)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write(tmp_path, len(CASES), clean=False)


def tear(path: Path, how: Tear) -> int:
    """Damage the last segment of a partition. Return how many batches are lost."""
    data = bytearray(path.read_bytes())
    *_, before, last = (Place(position, header.size_bytes) for position, header in iter_batches(bytes(data)))
    lost = how(data, before, last)
    path.write_bytes(data)
    return lost


def test_torn_log_keeps_exactly_the_whole_batches_before(written: Written) -> None:
    """S16.9: the producer continues from the kept batches, without a gap and without a duplicate."""
    kept = []
    for partition, how in enumerate(CASES):
        path = max((written.log_dir / f"{TOPIC}-{partition}").glob("*.log"))
        kept.append(len(written.batches) - tear(path, how))
    offsets = [base_offset for base_offset, _ in written.batches] + [len(written.records)]
    ends = [offsets[count] for count in kept]
    with OurBroker(written.log_dir.parent) as broker:
        with DataClient(HOST, broker.port) as client:
            for partition, end in enumerate(ends):
                assert client.bounds(TOPIC, partition) == (0, end), CASES[partition]
                found = [(record.timestamp, record.value) for record in client.read_all(TOPIC, partition)]
                assert found == written.records[:end]
            assert last_sequences(client, written) == [end - 1 for end in ends]
            assert epoch_ends(client, len(ends)) == ends
            # The committed offset is the group's position, whether or not those records are still there.
            assert client.committed(GROUP, TOPIC, range(len(ends))) == [written.committed] * len(ends)
            for partition, count in enumerate(kept):
                go_on(client, written, partition, count)
        assert broker.stop() == 0
        broker.start()
        with DataClient(HOST, broker.port) as client:
            for partition in range(len(ends)):
                found = [(record.timestamp, record.value) for record in client.read_all(TOPIC, partition)]
                assert found == written.records
            assert last_sequences(client, written) == [len(written.records) - 1] * len(ends)
        assert "Traceback" not in broker.output


def go_on(client: DataClient, written: Written, partition: int, count: int) -> None:
    """The producer resends from four batches before the end on. A batch that would leave a gap is rejected."""
    end = written.batches[count][0] if count < len(written.batches) else len(written.records)
    ahead = batch(b"", producer_id=written.producer_id, producer_epoch=0, base_sequence=end + 1)
    with pytest.raises(Refused) as refused:
        client.produce(TOPIC, ahead, partition)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for base_offset, records in written.batches[count - 4 :]:
        assert client.produce(TOPIC, records, partition) == base_offset


def last_sequences(client: DataClient, written: Written) -> list[int]:
    """Return the producer state that the broker reports, by partition."""
    found = []
    for partition in range(written.partitions):
        [producer] = client.producers(TOPIC, partition)
        assert producer.producer_id == written.producer_id
        found.append(producer.last_sequence)
    return found


def epoch_ends(client: DataClient, partitions: int) -> list[int]:
    """Return the end of the current leader epoch, by partition."""
    [topic] = client.call(METADATA, 12, topics=[MetadataRequestTopic(name=TOPIC)]).topics
    wanted = [
        OffsetForLeaderPartition(partition=each.partition_index, leader_epoch=each.leader_epoch)
        for each in topic.partitions
    ]
    topic = OffsetForLeaderTopic(topic=TOPIC, partitions=wanted)
    answer = client.call(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[topic])
    found = {each.partition: each.end_offset for each in answer.topics[0].partitions}
    return [found[partition] for partition in range(partitions)]


@pytest.mark.parametrize("tail", [b"", bytes(3000), DICE.randbytes(700)], ids=["cut", "zeros", "garbage"])
def test_torn_logs_of_the_broker_itself(tail: bytes, tmp_path: Path) -> None:
    """The metadata log and the groups' log end before their last batch. Everything before it is there.

    If bytes follow the last batch instead, nothing is missing.
    """
    broker = OurBroker(tmp_path)
    with DataClient(HOST, broker.port) as client:
        client.create_topic("first", 2)
        client.find_coordinator(GROUP)
        for offset in (1, 2, 3):
            client.commit(GROUP, {("first", 0): offset})
        client.create_topic("last")
    broker.kill()
    groups = [path for path in tmp_path.glob("logs/__consumer_offsets-*/*.log") if path.stat().st_size]
    metadata = tmp_path / "logs/__cluster_metadata-0/00000000000000000000.log"
    assert len(groups) == 1
    for path in (*groups, metadata):
        data = path.read_bytes()
        path.write_bytes(data + tail if tail else data[:-1])
    broker.start()
    with DataClient(HOST, broker.port) as client:
        expected = {"first": 2, "__consumer_offsets": 50}
        assert client.topics() == ({**expected, "last": 1} if tail else expected)
        assert client.committed(GROUP, "first") == [3 if tail else 2]
        client.create_topic("again")
        client.commit(GROUP, {("first", 0): 4})
    broker.kill()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert client.topics()["again"] == 1
        assert client.committed(GROUP, "first") == [4]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
