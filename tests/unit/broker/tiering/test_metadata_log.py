"""`__remote_log_metadata`: created as by Kafka, replayed, and on the disk before anything relies on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.tiering.metadata_log import MetadataNotWritten
from protocol.error_codes import ErrorCode
from tests.support.copying_broker import CopyingBroker
from tests.support.data_client import batch
from tests.unit.tiered.copies import segment
from tiered.metadata_records import TopicIdPartition, encode, metadata_partition

TOPIC = "__remote_log_metadata"
PLACE = TopicIdPartition(b"p" * 16, "elsewhere", 0)


def test_topic_has_kafkas_settings(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    assert broker.metadata.image.topic_config(TOPIC) == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "remote.storage.enable": "false",
        "min.insync.replicas": "1",
    }
    assert len(broker.partitions.of_topic(TOPIC)) == 2


def test_record_counts_once_it_is_on_the_disk(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    broker.background.held = True
    written = broker.tier.metadata_log.append(PLACE, segment(1, 0, 9))
    broker.settle()
    assert not written.done
    assert not broker.tier.remote_logs.get(PLACE.topic_id, 0).segments.count
    broker.background.held = False
    broker.background.release()
    assert written.done
    assert broker.tier.remote_logs.get(PLACE.topic_id, 0).segments.count == 1
    log = broker.partition(TOPIC, metadata_partition(PLACE, 2)).log
    assert log.recovery_point == log.log_end_offset == 1


def test_refused_record_fails(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    index = metadata_partition(PLACE, 2)
    partition = broker.partition(TOPIC, index)
    partition.log.directory.fail("broken")
    written = broker.tier.metadata_log.append(PLACE, segment(1, 0, 9))
    with pytest.raises(MetadataNotWritten) as caught:
        written.result()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert str(caught.value) == "the metadata of elsewhere-0 cannot be written: KAFKA_STORAGE_ERROR"


def test_records_of_others_are_replayed(tmp_path: Path) -> None:
    """Clients may write to the topic, as to Kafka's. Others than its records are skipped with a line in the log."""
    broker = CopyingBroker(tmp_path)
    partition = broker.partition(TOPIC, metadata_partition(PLACE, 2))
    now_ms = broker.clock.now_ms()
    for value in (b"nonsense", encode(PLACE, segment(1, 0, 9))):
        partition.append(bytearray(batch(value, timestamp=now_ms)), now_ms)
    broker.round()
    assert [each.start_offset for each in broker.tier.remote_logs.get(PLACE.topic_id, 0).segments] == []
    assert partition.log.log_end_offset > 2, "the topic does not exist, so the segment is deleted"


def test_restart_replays_everything(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.round()
    before = broker.remote(partition)
    assert before
    broker.restart()
    assert broker.remote(partition) == before
    assert partition.log.copied_offset == before[-1].end_offset


def test_damaged_metadata_stops_copies_and_deletions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = CopyingBroker(tmp_path, {"rlmm.config.remote.log.metadata.topic.num.partitions": "1"})
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.round()
    known = len(broker.layout.calls)
    path = Path(broker.partition(TOPIC).log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(data)
    broker.restart()
    broker.append(partition, 10)
    broker.round(3)
    assert not broker.tier.remote_logs.get(partition.topic_id, 0).is_loaded
    assert len(broker.layout.calls) == known
    assert f"{TOPIC}-0 cannot be read from offset" in caplog.text
    assert "neither copied to remote storage nor removed from there" in caplog.text


WHAT_A_START_LOADS = """
import sys
from pybroker.engine_process import enter
enter()
import broker.lifecycle, broker.main, broker.main_process, broker.membership.process
from broker.requests.served_api import discover
for row in discover().values():
    row.load()
print([name for name in sys.modules if name.startswith(("broker.tiering", "remote", "tiered", "obstore"))])
"""


def test_brokers_without_a_tier_load_nothing_of_it() -> None:
    command = [sys.executable, "-I", "-c", WHAT_A_START_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
