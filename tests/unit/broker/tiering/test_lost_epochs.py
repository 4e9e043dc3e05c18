"""A leader-epoch-checkpoint that was rebuilt from the local records gets the epochs of remote ones back."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.log.leader_epoch import EpochEntry, LeaderEpochs
from tests.support.copying_broker import CopyingBroker


def test_epochs_of_remote_records_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = CopyingBroker(tmp_path)
    partition = broker.tiered(local_retention_bytes="1")
    broker.append(partition, 5)
    broker.partitions.lead(partition, 4)
    broker.append(partition, 8)
    broker.round(2)
    log = partition.log
    entries = log.leader_epochs.entries
    assert entries == ((0, 0), (4, 5))
    assert log.local_start_offset > 5
    log.leader_epochs.replace([EpochEntry(4, log.local_start_offset)])  # as a start rebuilds them

    broker.restart()
    broker.round()
    assert log.leader_epochs.entries[:2] == entries
    assert LeaderEpochs(log.directory.fs, log.path).entries[:2] == entries
    assert "Leader epochs of t-0 were restored from remote storage: 0 from offset 0, 4 from offset 5" in caplog.text
    broker.check_all_readable(partition)
    caplog.clear()
    broker.round(3)
    assert "restored" not in caplog.text
