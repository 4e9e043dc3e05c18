"""Records of many partitions at once equal the single records."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.bulk_records import ChangeReader, ChangesBuilder, PartitionReader, encode_records
from metadata.create_topics import NewTopic
from metadata.delta import Delta
from metadata.framing import MetadataRecord, encode_record
from metadata.image import MetadataImage
from metadata.partition_registration import registration_of
from metadata.registration import leave, unfence_broker
from metadata.replay import ReplayError, replay, replay_all, replay_change
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import NoOpRecord, PartitionChangeRecord, PartitionRecord
from tests.support.images import cluster, with_topics
from tests.support.metadata_log import each_record
from tests.support.scale import scaled

brokers = st.lists(st.integers(0, 3), max_size=3)
registrations = st.builds(
    PartitionRecord.new,
    partition_id=st.integers(0, 5),
    topic_id=st.sampled_from([bytes(15) + b"\x01", bytes(15) + b"\x02"]),
    replicas=brokers,
    isr=brokers,
    removing_replicas=brokers,
    adding_replicas=st.one_of(st.just([]), st.just(list(range(200)))),
    leader=st.integers(-1, 2),
    leader_recovery_state=st.integers(0, 1),
    leader_epoch=st.integers(0, 2**31 - 1),
    partition_epoch=st.integers(0, 2**31 - 1),
    directories=st.lists(st.binary(min_size=16, max_size=16), max_size=2),
    eligible_leader_replicas=st.one_of(st.none(), brokers),
    last_known_elr=st.one_of(st.none(), brokers),
)


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(st.tuples(registrations, st.integers(0, 2**31 - 1)), max_size=8))
def test_partitions_are_read_as_by_their_schema(values):
    """The reader decodes a new partition by its schema; if only epochs differ from the last one, it compares bytes."""
    reader = PartitionReader()
    for value, epoch in values:
        for leader_epoch in (value.leader_epoch, epoch):
            value.leader_epoch = leader_epoch
            data = encode_record(MetadataRecord(PartitionRecord, 2, value))

            assert reader.read(data) == (value.topic_id, value.partition_id, registration_of(value))


def test_incomplete_records_are_an_error():
    """Another record is ignored, a truncated or too long one is an error, and later ones are read."""
    reader = PartitionReader()
    value = PartitionRecord.new(partition_id=7, replicas=[1], isr=[1], leader=1)
    data = encode_record(MetadataRecord(PartitionRecord, 2, value))
    for _ in range(2):
        assert reader.read(data) == (value.topic_id, 7, registration_of(value))
        for damaged in (data[:-1], data + b"\0", b"\x02" + data[1:]):
            with pytest.raises(ProtocolError):
                reader.read(damaged)
    assert reader.read(encode_record(MetadataRecord(NoOpRecord, 0, NoOpRecord()))) is None
    assert reader.read(b"") is None


def test_overlong_lengths_are_read_correctly():
    """A length that is encoded in two bytes instead of one shifts the epochs."""
    reader = PartitionReader()
    value = PartitionRecord.new(partition_id=7, replicas=[], isr=[1], leader=1, leader_epoch=3)
    data = encode_record(MetadataRecord(PartitionRecord, 0, value))
    stretched = data[:23] + b"\x81\x00" + data[24:]
    for _ in range(2):
        assert reader.read(stretched) == (value.topic_id, 7, registration_of(value))


@settings(max_examples=scaled(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([None, [], [1], [1, 2]]), st.integers(-2, 3), st.integers(0, 9)), max_size=8))
def test_changes_are_read_as_by_their_schema(values):
    """Two partitions in turn, so that each change is also read by comparison."""
    reader, one_by_one = ChangeReader(), image_with_mixed_leaders()
    image, delta, expected = copy.deepcopy(one_by_one), Delta(), Delta()
    topic_id = image.topics_by_name["a"].topic_id
    for isr, leader, index in values:
        for number in (index % 6, (index + 1) % 6):
            value = PartitionChangeRecord.new(partition_id=number, topic_id=topic_id, isr=isr, leader=leader)
            record = MetadataRecord(PartitionChangeRecord, 2, value)
            replay(one_by_one, record, expected)
            replay_change(image, *reader.read(encode_record(record)), delta)

            assert image == one_by_one
    assert delta == expected


def test_damaged_changes_are_an_error():
    """Another record is ignored. A change of an unknown partition is an error of the replay."""
    reader = ChangeReader()
    data = encode_record(MetadataRecord(PartitionChangeRecord, 2, PartitionChangeRecord.new(partition_id=7, leader=1)))
    for _ in range(2):
        topic_id, index, value = reader.read(data)
        assert (topic_id, index, value.leader) == (bytes(16), 7, 1)
        for damaged in (data[:-1], data + b"\0", b"\x02" + data[1:]):
            with pytest.raises(ProtocolError):
                reader.read(damaged)
    for other in (b"", encode_record(MetadataRecord(NoOpRecord, 0, NoOpRecord()))):
        assert reader.read(other) is None
    with pytest.raises(ReplayError, match="PartitionChangeRecord of an unknown topic"):
        replay_change(MetadataImage(), topic_id, index, value, Delta())
    image = image_with_mixed_leaders()
    with pytest.raises(ReplayError, match="PartitionChangeRecord of a-7, which does not exist"):
        replay_change(image, image.topics_by_name["a"].topic_id, index, value, Delta())


def image_with_mixed_leaders():
    """Return an image with partitions that broker 1 leads, that have no leader, and that another broker leads."""
    image = with_topics(cluster(brokers=2), NewTopic("a", 6, 1), NewTopic("b", 8, 2))
    partitions = image.topics_by_name["b"].partitions
    partitions[1] = partitions[1]._replace(leader=-1, isr=(), eligible_leader_replicas=(1, 2))
    partitions[2] = partitions[2]._replace(leader=2, isr=(2,))
    partitions[3] = partitions[3]._replace(leader=1, isr=(1, 2), leader_epoch=9)
    return image


@pytest.mark.parametrize("decide", [leave, unfence_broker])
def test_changes_equal_their_records(decide):
    """The same bytes, and the same image."""
    image = image_with_mixed_leaders()
    changes = decide(image, 1)
    records = list(each_record(changes))
    one_by_one = copy.deepcopy(image)
    delta, expected = replay_all(image, changes), replay_all(one_by_one, records)

    assert len(changes) < len(records)
    assert [encode_record(record) for record in records] == list(encode_records(changes))
    assert one_by_one == image
    assert expected.changed_partitions.keys() == delta.changed_partitions.keys()


def test_changes_keep_their_order():
    """Only adjacent changes are joined."""
    builder = ChangesBuilder(30)
    for partition, leader in enumerate([1, 1, 2, 1]):
        builder.add(bytes(16), partition, {"leader": leader})

    assert [(each.value.partition_id, each.value.leader) for each in each_record(builder.changes)] == [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 1),
    ]
    assert len(builder.changes) == 3


def test_change_of_a_missing_partition_is_rejected():
    """As for a single record."""
    image = image_with_mixed_leaders()
    changes = unfence_broker(image, 1)
    last = list(each_record(changes))[-1].value
    del image.topics_by_id[last.topic_id].partitions[last.partition_id]

    with pytest.raises(ReplayError, match=f"-{last.partition_id}, which does not exist"):
        replay_all(image, changes)
