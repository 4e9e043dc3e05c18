"""The file quorum-state."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from storage.errors import CorruptFile
from storage.fs import LOCAL
from tests.support.metadata_log import CLEAN_SHUTDOWN


def test_recorded_state_is_read_and_written_as_it_is(tmp_path: Path):
    """Version 0, of a node with static voters: the bytes are unchanged."""
    recorded = CLEAN_SHUTDOWN / "__cluster_metadata-0"
    state = read_quorum_state(LOCAL, str(recorded))

    assert state == QuorumState(0, 1, 1, (1,))
    write_quorum_state(LOCAL, str(tmp_path), state)
    assert (tmp_path / "quorum-state").read_bytes() == (recorded / "quorum-state").read_bytes()


def test_version_1_as_kafka_writes_it(tmp_path: Path):
    """kraft.version 1: no voters, but the directory of the elected one."""
    write_quorum_state(LOCAL, str(tmp_path), QuorumState(1).elected(1))

    assert (tmp_path / "quorum-state").read_text() == (
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert read_quorum_state(LOCAL, str(tmp_path)) == QuorumState(1, 1, 1)


def test_election_begins_the_next_epoch():
    """The node becomes the only voter in version 0."""
    assert QuorumState(0, -1, 7, ()).elected(3) == QuorumState(0, 3, 8, (3,))


def test_no_file(tmp_path: Path):
    """A new directory."""
    assert read_quorum_state(LOCAL, str(tmp_path)) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", "garbage", '{"data_version":9}', "\x00\x01"])
def test_invalid_file_is_reported(tmp_path: Path, content: str):
    """Then the epoch is read from the log."""
    (tmp_path / "quorum-state").write_text(content)

    with pytest.raises(CorruptFile):
        read_quorum_state(LOCAL, str(tmp_path))
