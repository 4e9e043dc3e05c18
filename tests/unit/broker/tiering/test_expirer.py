"""Segments in remote storage are deleted after the start of the log has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.replicas.partition import Partition
from metadata.delete_topics import TopicReference
from tests.support.copying_broker import CopyingBroker
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate

FINISHED = SegmentState.COPY_FINISHED


@pytest.fixture
def broker(tmp_path: Path) -> CopyingBroker:
    return CopyingBroker(tmp_path)


def copied(broker: CopyingBroker, **configs: str) -> Partition:
    """Return a partition whose closed segments are copied, and not on the local disk any more."""
    partition = broker.tiered(local_retention_bytes="1", **configs)
    broker.append(partition, 16)
    broker.round(2)
    assert partition.log.log_start_offset == 0
    assert len(broker.remote(partition)) > 2
    assert partition.log.local_start_offset == partition.log.active_segment.base_offset
    return partition


def checkpointed(broker: CopyingBroker) -> str:
    """Return the lines of log-start-offset-checkpoint on the disk."""
    path = Path(broker.logs.directories[0].path) / "log-start-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def configure(broker: CopyingBroker, **configs: str) -> None:
    changes = {key.replace("_", "."): value for key, value in configs.items()}
    broker.controller.alter_config(2, "t", changes)
    broker.settle()


def test_by_time(broker: CopyingBroker):
    """The newest records are in the active segment, which is copied and removed, too, when it has expired."""
    partition = copied(broker, retention_ms="10000")
    broker.round(8)
    broker.append(partition, 1)
    broker.round(3)
    assert partition.log.log_start_offset == partition.log.local_start_offset
    assert not broker.layout.objects
    assert not broker.remote(partition)
    broker.round(15)
    assert partition.log.log_start_offset == partition.log.log_end_offset == 17
    assert not broker.layout.objects


def test_by_size(broker: CopyingBroker):
    partition = copied(broker)
    sizes = [each.size_bytes for each in broker.remote(partition)]
    second = broker.remote(partition)[1].start_offset
    total = sum(sizes) + partition.log.size_bytes
    configure(broker, retention_bytes=str(total - sizes[0]))
    broker.round()
    assert partition.log.log_start_offset == second
    assert f"t 0 {second}\n" in checkpointed(broker)
    assert len(broker.layout.objects) == len(sizes) - 1
    broker.check_all_readable(partition)


def test_start_is_on_the_disk_before_a_deletion(broker: CopyingBroker):
    partition = copied(broker)
    seen: list[str] = []
    delete = broker.layout.delete
    broker.layout.delete = lambda *each: (seen.append(checkpointed(broker)), delete(*each))[1]  # type: ignore[method-assign]
    configure(broker, retention_bytes="1500")
    broker.round()
    assert seen
    assert all(f"t 0 {partition.log.log_start_offset}\n" in each for each in seen)


def test_delete_records_within_a_segment(broker: CopyingBroker):
    """The segment with the new start stays."""
    partition = copied(broker)
    copies = broker.remote(partition)
    partition.delete_records(copies[1].start_offset + 1)
    broker.round()
    assert [each.start_offset for each in broker.remote(partition)] == [each.start_offset for each in copies[1:]]
    assert partition.log.log_start_offset == copies[1].start_offset + 1
    assert f"t 0 {copies[1].start_offset + 1}\n" in checkpointed(broker)
    broker.check_all_readable(partition)


def test_nothing_expires_that_is_not_to_be_deleted(broker: CopyingBroker):
    """With an empty cleanup.policy only DeleteRecords removes records."""
    partition = copied(broker, retention_ms="10000", cleanup_policy="")
    broker.round(30)
    assert partition.log.log_start_offset == 0
    broker.check_all_readable(partition)


def test_failed_deletion_is_tried_again(broker: CopyingBroker, caplog: pytest.LogCaptureFixture):
    partition = copied(broker)
    broker.layout.fails.add("delete")
    configure(broker, retention_bytes="0")
    broker.round(10)
    assert partition.log.log_start_offset == partition.log.local_start_offset
    assert broker.layout.objects
    assert SegmentState.DELETE_STARTED in {each.state for each in broker.remote(partition)}
    lines = [each.getMessage() for each in caplog.records if "cannot be removed" in each.getMessage()]
    assert len(lines) == 1
    broker.layout.fails.clear()
    broker.round(60)
    assert not broker.layout.objects
    assert not broker.remote(partition)
    counts = broker.tier.counts.of("t")
    assert counts.delete_errors
    assert counts.delete_requests > counts.delete_errors


def test_deleted_topic_leaves_nothing(broker: CopyingBroker):
    partition = copied(broker)
    broker.controller.delete_topics([TopicReference("t")])
    broker.round()
    assert not broker.layout.objects
    assert not broker.remote(partition)


def test_deletion_of_a_topic_survives_a_restart(broker: CopyingBroker):
    copied(broker)
    broker.layout.fails.add("delete")
    broker.controller.delete_topics([TopicReference("t")])
    broker.round()
    assert broker.layout.objects
    broker.layout.fails.clear()
    broker.restart()
    broker.round()
    assert not broker.layout.objects


def test_turning_off_deletes_and_moves_the_start(broker: CopyingBroker):
    partition = copied(broker)
    local_start = partition.log.local_start_offset
    configure(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
    broker.round()
    assert partition.log.log_start_offset == local_start
    assert not broker.layout.objects
    assert not broker.remote(partition)


def test_turning_on_again_ends_the_deletion(broker: CopyingBroker):
    """Local retention counts on copies again then: they may be all that has their records."""
    partition = copied(broker)
    count = len(broker.remote(partition))
    delete, deleted = broker.layout.delete, []

    def turn_on_and_delete(*arguments: Any) -> None:
        deleted.append(arguments)
        delete(*arguments)
        broker.controller.alter_config(2, "t", {"remote.storage.enable": "true"})

    broker.layout.delete = turn_on_and_delete  # type: ignore[method-assign]
    broker.controller.alter_config(
        2, "t", {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true", "retention.ms": "-1"}
    )
    broker.settle()
    assert len(deleted) == 1 < count


def test_topic_that_is_tiered_again_is_copied_again(broker: CopyingBroker):
    """Its copies are gone: local retention may not count on them, or records would be nowhere."""
    partition = broker.tiered(local_retention_bytes="-2")
    broker.append(partition, 16)
    broker.round(2)
    assert len(broker.remote(partition)) > 2
    configure(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
    broker.round()
    assert not broker.remote(partition)
    broker.layout.fails.add("copy")
    configure(broker, remote_storage_enable="true", local_retention_bytes="1")
    broker.round(2)
    assert partition.log.local_start_offset == partition.log.log_start_offset == 0
    broker.layout.fails.clear()
    broker.round(3)
    assert partition.log.log_start_offset == 0
    assert broker.remote(partition)[0].start_offset == 0
    assert partition.log.local_start_offset == partition.log.active_segment.base_offset


def test_turned_off_by_another_way_deletes_nothing(broker: CopyingBroker):
    """Without remote.log.delete.on.disable nothing is deleted, whatever the reason is."""
    partition = copied(broker)
    configure(broker, remote_storage_enable="false")
    broker.round(3)
    assert broker.layout.objects
    assert broker.remote(partition)


def test_unfinished_copy_of_this_broker_is_deleted(broker: CopyingBroker):
    partition = copied(broker)
    place = broker.tier.remote_logs.get(partition.topic_id, 0).partition
    own = RemoteSegment(b"1" * 16, 20, 29, 1, 1, 1, 100, ((0, 20),))
    other = own._replace(id=b"2" * 16, broker_id=2)
    for each in (own, other):
        broker.tier.metadata_log.append(place, each)
        broker.layout.objects[each.id] = None
    broker.settle()
    broker.round()
    assert own.id not in broker.layout.objects
    assert other.id in broker.layout.objects
    assert own.id not in {each.id for each in broker.remote(partition)}


def test_copies_of_an_earlier_lineage_are_deleted(broker: CopyingBroker):
    """Left after an unclean election: no offset of the log leads to them."""
    partition = copied(broker)
    broker.partitions.lead(partition, 5)
    broker.append(partition, 16)
    broker.round(2)
    partition.delete_records(partition.log.log_end_offset - 1)
    place = broker.tier.remote_logs.get(partition.topic_id, 0).partition
    old = RemoteSegment(b"3" * 16, 0, 29, 1, 1, 1, 100, ((1, 0),))
    broker.tier.metadata_log.append(place, old)
    broker.tier.metadata_log.append(place, SegmentUpdate(old.id, FINISHED, 1, 1))
    broker.layout.objects[old.id] = b""
    broker.round(2)
    assert old.id not in broker.layout.objects


def test_start_in_a_later_epoch_is_on_the_disk_before_a_deletion(broker: CopyingBroker):
    """After DeleteRecords the copies of earlier epochs have no record that the log still has."""
    partition = copied(broker)
    border = partition.log.log_end_offset
    broker.partitions.lead(partition, 5)
    broker.append(partition, 16)
    broker.round(2)
    seen: list[str] = []
    delete = broker.layout.delete
    broker.layout.delete = lambda *each: (seen.append(checkpointed(broker)), delete(*each))[1]  # type: ignore[method-assign]
    partition.delete_records(border + 1)
    broker.round()
    assert seen
    assert all(f"t 0 {partition.log.log_start_offset}\n" in each for each in seen)


def test_without_copies_local_retention_moves_the_start(broker: CopyingBroker):
    """As in Kafka: nothing that is only local may be dropped while the log still begins before it."""
    partition = copied(broker, retention_ms="10000", local_retention_ms="10000")
    configure(broker, remote_log_copy_disable="true", local_retention_bytes="-2", local_retention_ms="-2")
    broker.append(partition, 16)
    broker.round(20)
    assert partition.log.log_start_offset == partition.log.local_start_offset == partition.log.log_end_offset
    assert not broker.layout.objects
