"""Start and stop of a node, in real directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.startup.node import open_node
from controller.metadata_log import MetadataLogDamaged
from metadata.framing import new_record
from metadata.image import ResourceType
from protocol.messages.cluster_metadata import ConfigRecord, FeatureLevelRecord, RemoveTopicRecord, TopicRecord
from storage.errors import DirectoryRefused
from tests.support.disk_doubles.failing_fs import FailingFileSystem
from tests.support.logs import opened
from tests.support.metadata_log import CLEAN_SHUTDOWN
from tests.support.nodes import TOPIC_ID, an_orders_topic, config, crash, start, state, take_snapshot, write


def test_new_node_is_formatted_and_registered(tmp_path: Path):
    """Bootstrapped and unfenced, in the first epoch."""
    node = start(tmp_path)
    broker = node.image.brokers[1]

    assert node.metadata_log.epoch == 1
    assert node.metadata_log.voters == (1,)
    assert node.image.metadata_version == 30
    assert node.image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert broker.is_active
    assert broker.log_directories == (node.directory_ids[str(tmp_path)],)
    assert [(e.name, e.host, e.port) for e in broker.endpoints] == [("PLAINTEXT", "127.0.0.1", 9092)]
    node.close(3000)
    assert (tmp_path / "__cluster_metadata-0/partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )


def test_restart_begins_the_next_epoch(tmp_path: Path):
    """The cluster is the same. Leader epochs rise by two, as Kafka counts them."""
    node = start(tmp_path)
    an_orders_topic(node)
    write(node, new_record(30, ConfigRecord, resource_type=2, resource_name="orders", name="retention.ms", value="5"))
    before = state(node.image)
    node.close(3000)
    again = start(tmp_path)
    partition = again.image.topics_by_name["orders"].partitions[0]

    assert state(again.image) == before
    assert (again.cluster_id, again.directory_ids) == (node.cluster_id, node.directory_ids)
    assert again.metadata_log.epoch == 2
    assert again.broker_epoch > node.broker_epoch
    assert (partition.leader, partition.leader_epoch) == (1, 2)
    assert opened(again.logs, "orders").config.retention_ms == 5
    again.close(4000)


def test_clean_stop_is_marked_with_the_broker_epoch(tmp_path: Path):
    """Kafka compares it to detect missed metadata."""
    node = start(tmp_path)
    node.close(3000)

    assert (tmp_path / ".kafka_cleanshutdown").read_text() == f'{{"version":0,"brokerEpoch":{node.broker_epoch}}}'


def test_restart_after_a_crash_begins_a_leader_epoch(tmp_path: Path):
    """Partitions keep their leader, with a leader epoch that is one higher."""
    node = start(tmp_path)
    an_orders_topic(node)
    crash(node)
    again = start(tmp_path)
    partition = again.image.topics_by_name["orders"].partitions[0]

    assert (partition.leader, partition.leader_epoch) == (1, 1)
    assert again.metadata_log.epoch == 2
    crash(again)


def test_torn_end_of_the_metadata_log_is_truncated(tmp_path: Path):
    """Only the incomplete batch is lost. Its topic has no log yet, because a log is created after the sync."""
    node = start(tmp_path)
    write(node, new_record(30, TopicRecord, name="orders", topic_id=TOPIC_ID))
    crash(node)
    segment = tmp_path / "__cluster_metadata-0/00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-10])
    again = start(tmp_path)

    assert again.image.topics_by_name == {}
    assert again.image.brokers[1].is_active
    crash(again)


def test_directory_of_kafka_is_continued(tmp_path: Path):
    """Topics, logs and configs of a recorded cluster, in its next leader epoch (kraft.version 0)."""
    shutil.copytree(CLEAN_SHUTDOWN, tmp_path / "kafka")
    node = start(tmp_path / "kafka")

    assert (node.cluster_id, node.metadata_log.epoch) == ("AAAAAAAAQACAAAAAAAAAAQ", 2)
    assert len(node.image.topics_by_name) == 22
    assert opened(node.logs, "idem").log_end_offset == 72
    assert {(p.leader, p.leader_epoch) for t in node.image.topics_by_name.values() for p in t.partitions.values()} == {
        (1, 2)
    }
    assert '"leaderEpoch":2' in (tmp_path / "kafka/__cluster_metadata-0/quorum-state").read_text()
    node.close(3000)


@pytest.mark.parametrize("content", [None, b"", b"\x00garbage"])
def test_missing_or_damaged_quorum_state_loses_nothing(tmp_path: Path, content: bytes | None):
    """The epoch is read from the log."""
    start(tmp_path).close(3000)
    file = tmp_path / "__cluster_metadata-0/quorum-state"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    node = start(tmp_path)

    assert node.metadata_log.epoch == 2
    crash(node)


def test_snapshot_replaces_the_start_of_the_log(tmp_path: Path):
    """With the log's first segment deleted, the state comes from the snapshot, voters included."""
    node = start(tmp_path)
    an_orders_topic(node)
    before = state(node.image)
    take_snapshot(node)
    assert node.metadata_log.prepare_snapshot(node.image, 2500) is None
    end = node.metadata_log.end_offset
    node.metadata_log.partition_log.roll(end, 2500)
    node.close(3000)
    for file in (tmp_path / "__cluster_metadata-0").glob("00000000000000000000.*"):
        file.unlink()
    again = start(tmp_path)

    assert state(again.image) == before
    assert again.metadata_log.voters == (1,)
    assert again.metadata_log.epoch == 2
    again.close(4000)


def test_damaged_snapshot_is_not_used(tmp_path: Path):
    """The log still has all records."""
    node = start(tmp_path)
    an_orders_topic(node)
    name = take_snapshot(node)
    node.close(3000)
    (tmp_path / "__cluster_metadata-0" / name).write_bytes(b"garbage")
    again = start(tmp_path)

    assert list(again.image.topics_by_name) == ["orders"]
    crash(again)


def test_log_without_its_start_is_refused(tmp_path: Path):
    """Without a snapshot, the deleted records are unknown."""
    node = start(tmp_path)
    node.metadata_log.partition_log.roll(node.metadata_log.end_offset, 2500)
    node.close(3000)
    for file in (tmp_path / "__cluster_metadata-0").glob("00000000000000000000*.*"):
        file.unlink()

    with pytest.raises(MetadataLogDamaged, match="no snapshot reaches it"):
        start(tmp_path)


def test_contradictory_log_is_refused(tmp_path: Path):
    """With one line. The directory is unlocked, so another start can be tried."""
    node = start(tmp_path)
    node.metadata_log.append([new_record(30, RemoveTopicRecord, topic_id=TOPIC_ID)], 2000)
    crash(node)

    for _ in range(2):
        with pytest.raises(MetadataLogDamaged, match="RemoveTopicRecord of an unknown topic"):
            start(tmp_path)


@pytest.mark.parametrize(
    ("feature", "level"), [("metadata.version", 34), ("metadata.version", 6), ("group.version", 2), ("new.feature", 1)]
)
def test_unknown_features_are_refused(tmp_path: Path, feature: str, level: int):
    """Records of a later release would be misread."""
    node = start(tmp_path)
    write(node, new_record(30, FeatureLevelRecord, name=feature, feature_level=level))
    crash(node)

    with pytest.raises(DirectoryRefused, match=f"is at {feature} {level}"):
        start(tmp_path)


def test_quorum_of_several_is_refused(tmp_path: Path):
    """Continuing alone would split it in two."""
    start(tmp_path).close(3000)
    (tmp_path / "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint").unlink()
    for file in (tmp_path / "__cluster_metadata-0").iterdir():
        file.unlink()
    (tmp_path / "__cluster_metadata-0/quorum-state").write_text(
        '{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )

    with pytest.raises(DirectoryRefused, match=r"other controllers \(nodes 2\)"):
        start(tmp_path)


def test_metadata_log_has_its_own_segment_limits(tmp_path: Path):
    """metadata.log.segment.ms and metadata.log.segment.bytes. No segment is deleted by time or size."""
    limits = {"metadata.log.segment.ms": "1234567", "metadata.log.segment.bytes": "9000000"}
    node = start(tmp_path, **limits, **{"log.roll.ms": "5", "log.segment.bytes": "2000000", "log.retention.ms": "5"})
    found = node.metadata_log.partition_log.config

    assert (found.segment_ms, found.segment_bytes) == (1_234_567, 9_000_000)
    assert (found.retention_ms, found.retention_bytes) == (-1, -1)
    node.close(2000)


def test_metadata_directory_has_no_partitions(tmp_path: Path):
    """metadata.log.dir is formatted like the others."""
    overrides = {"metadata_log_dir": str(tmp_path / "meta")}
    node = start(tmp_path / "logs", **overrides)
    an_orders_topic(node)
    node.close(3000)
    again = start(tmp_path / "logs", **overrides)

    assert list(again.image.topics_by_name) == ["orders"]
    assert (tmp_path / "logs/orders-0").is_dir()
    assert not (tmp_path / "meta/orders-0").exists()
    assert not (tmp_path / "logs/__cluster_metadata-0").exists()
    again.close(4000)


def test_dynamic_configs_apply_at_the_start(tmp_path: Path):
    """From the metadata, before any log is loaded."""
    node = start(tmp_path)
    value = new_record(30, ConfigRecord, resource_type=4, resource_name="", name="log.retention.ms", value="77")
    write(node, value)
    an_orders_topic(node)
    node.close(3000)
    again = start(tmp_path)

    assert opened(again.logs, "orders").config.retention_ms == 77
    again.close(4000)


def test_disk_failure_at_the_stop_leaves_no_clean_mark(tmp_path: Path):
    """The directory is reported offline once and unlocked. The next start recovers it."""
    failures = []
    fs = FailingFileSystem(broken=True)
    node = open_node(config(tmp_path), 1000, fs=fs, on_failure=failures.append)
    an_orders_topic(node)
    fs.fail_at = len(fs.calls) + 1
    node.close(3000)
    assert failures == node.logs.directories
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert sorted(start(tmp_path).image.topics_by_name) == ["orders"]


def test_recreated_files_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """One line each, as in Apache Kafka."""
    start(tmp_path).close(3000)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("garbage")
    start(tmp_path, 4000).close(5000)

    assert any("recovery-point-offset-checkpoint: not a checkpoint file" in message for message in caplog.messages)
