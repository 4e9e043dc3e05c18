"""The handover of a metadata log to other voters, on directories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import controller.handover as tested
from broker.controlling.data import ControllerData, open_controller_data
from config import BrokerConfig, load
from controller.directory_checks import METADATA_LOG
from controller.handover import NewVoter, hand_over, inspect_handover
from metadata.features import KRAFT_VERSION
from metadata.framing import MetadataRecord, new_record
from metadata.image import Endpoint
from protocol.messages.cluster_metadata import PartitionRecord, TopicRecord
from runtime.ids import random_id
from storage.checkpoints import LOCK, read_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL

LISTENER = Endpoint("CONTROLLER", "localhost", 9093, 0)
NOW_MS = 1_000
TOPIC_ID = b"t" * 16


def config_of(node_id: int, directory: Path, role: str = "controller", **others: str) -> BrokerConfig:
    overrides = {
        "process.roles": role,
        "node.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{'PLAINTEXT://:9092,' if role != 'controller' else ''}CONTROLLER://:9093",
        "log.dirs": str(directory),
        **others,
    }
    return load(overrides=overrides)


def opened(config: BrokerConfig) -> ControllerData:
    """Open a directory as the controller that leads it. Raises DirectoryRefused."""
    return open_controller_data(config, [LISTENER], NOW_MS, lambda directory: None)


def led(config: BrokerConfig, *records: MetadataRecord) -> int:
    """Lead the log, append these records, and return the end of the log."""
    data = opened(config)
    try:
        if records:
            data.metadata_log.append(list(records), NOW_MS)
        return data.metadata_log.end_offset
    finally:
        data.close(NOW_MS)


def topic(name: str, replicas: list[int], isr: list[int]) -> list[MetadataRecord]:
    return [
        new_record(1, TopicRecord, name=name, topic_id=TOPIC_ID),
        new_record(1, PartitionRecord, partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=isr, leader=isr[0]),
    ]


def files(directory: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(directory.rglob("*")) if each.is_file()}


def record_bytes(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted((directory / METADATA_LOG).glob("*.log")))


@pytest.fixture
def former(tmp_path: Path) -> BrokerConfig:
    """A controller that has stopped."""
    config = config_of(1, tmp_path / "1")
    led(config)
    return config


def three(tmp_path: Path) -> list[NewVoter]:
    return [NewVoter(each, f"c{each}", 9093, str(tmp_path / str(each))) for each in (101, 102, 103)]


def execute(config: BrokerConfig, *voters: NewVoter) -> None:
    assert inspect_handover(config, voters, NOW_MS).problems == []
    hand_over(config, voters, "CONTROLLER", new_id=random_id, now_ms=NOW_MS)


def test_new_voters_have_equal_logs_that_name_them(former: BrokerConfig, tmp_path: Path) -> None:
    execute(former, *three(tmp_path))
    logs = {record_bytes(tmp_path / name) for name in ("1", "101", "102", "103")}
    assert len(logs) == 1
    owner = read_meta_properties(LOCAL, str(tmp_path / "102"))
    former_owner = read_meta_properties(LOCAL, str(tmp_path / "1"))
    assert owner is not None
    assert former_owner is not None
    assert (owner.node_id, owner.cluster_id) == (102, former_owner.cluster_id)
    assert owner.directory_id != former_owner.directory_id


def test_former_voter_cannot_lead(former: BrokerConfig, tmp_path: Path) -> None:
    execute(former, *three(tmp_path))
    with pytest.raises(DirectoryRefused, match="nodes 101, 102, 103"):
        opened(former)


def test_one_new_voter_leads_what_was_there(former: BrokerConfig, tmp_path: Path) -> None:
    end = led(former, *topic("orders", [1], [1]))
    execute(former, NewVoter(101, "c1", 9093, str(tmp_path / "101")))
    data = opened(config_of(101, tmp_path / "101"))
    assert "orders" in data.image.topics_by_name
    assert data.metadata_log.end_offset > end
    assert data.metadata_log.voters == (101,)
    data.close(NOW_MS)


def test_log_goes_back_with_what_was_added(former: BrokerConfig, tmp_path: Path) -> None:
    """The former voter's own directory has the beginning of the log, and gets the rest."""
    other = config_of(101, tmp_path / "101")
    execute(former, NewVoter(101, "c1", 9093, str(tmp_path / "101")))
    led(other, *topic("orders", [1], [1]))
    execute(other, NewVoter(1, "c1", 9093, str(tmp_path / "1")))
    assert record_bytes(tmp_path / "1") == record_bytes(tmp_path / "101")
    data = opened(former)
    assert "orders" in data.image.topics_by_name
    data.close(NOW_MS)


def test_voter_that_stays_gets_others_beside_it(former: BrokerConfig, tmp_path: Path) -> None:
    """A controller alone may be one of the new voters, with its directory."""
    execute(former, NewVoter(1, "c1", 9093, str(tmp_path / "1")), *three(tmp_path)[:2])
    with pytest.raises(DirectoryRefused, match="nodes 101, 102"):
        opened(former)
    assert record_bytes(tmp_path / "1") == record_bytes(tmp_path / "101")


def test_inspection_changes_nothing(former: BrokerConfig, tmp_path: Path) -> None:
    before = files(tmp_path)
    outlook = inspect_handover(former, three(tmp_path), NOW_MS)
    assert files(tmp_path) == before
    assert (outlook.problems, outlook.is_named, outlook.kept) == ([], False, [])
    assert outlook.end_offset == opened(former).metadata_log.end_offset - 2  # a start leads, and registers


def test_interrupted_handover_is_continued(
    former: BrokerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The voters are named, but not all have the log. Their directories keep their ids."""
    copied: list[str] = []

    def copy_one(source: str, target: str) -> None:
        if copied:
            raise OSError("no room")
        copied.append(target)
        copy(source, target)

    copy = tested.copy_log
    monkeypatch.setattr(tested, "copy_log", copy_one)
    with pytest.raises(OSError, match="no room"):
        execute(former, *three(tmp_path))
    monkeypatch.setattr(tested, "copy_log", copy)
    before = record_bytes(tmp_path / "1")
    assert inspect_handover(former, three(tmp_path), NOW_MS).is_named
    execute(former, *three(tmp_path))
    assert {record_bytes(tmp_path / name) for name in ("1", "101", "102", "103")} == {before}


def problems(config: BrokerConfig, *voters: NewVoter) -> str:
    (problem,) = inspect_handover(config, voters, NOW_MS).problems
    return problem


@pytest.mark.parametrize(
    ("numbers", "names", "hosts", "problem"),
    [
        ((101, 101), ("a", "b"), ("h", "i"), "the same id"),
        ((101, 102), ("a", "a"), ("h", "i"), "the same directory"),
        ((101, 102), ("a", "b"), ("h", "h"), "the same address"),
        ((1,), ("a",), ("h",), "another id and directory"),
        ((101,), ("1",), ("h",), "another id and directory"),
        ((1,), ("1",), ("h",), "is the present one"),
    ],
)
def test_voters_that_cannot_be(
    former: BrokerConfig,
    tmp_path: Path,
    numbers: tuple[int, ...],
    names: tuple[str, ...],
    hosts: tuple[str, ...],
    problem: str,
) -> None:
    voters = [
        NewVoter(number, host, 9093, str(tmp_path / name))
        for number, name, host in zip(numbers, names, hosts, strict=True)
    ]
    found = inspect_handover(former, voters, NOW_MS).problems
    assert any(problem in each for each in found), found


def test_directory_with_files_of_others_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    (tmp_path / "101").mkdir()
    (tmp_path / "101" / "letter").write_text("dear")
    assert "is not empty" in problems(former, NewVoter(101, "c1", 9093, str(tmp_path / "101")))


def test_directory_of_another_cluster_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    led(config_of(101, tmp_path / "101"))
    assert "belongs to cluster" in problems(former, NewVoter(101, "c1", 9093, str(tmp_path / "101")))


def test_log_that_diverges_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    """The new voter has already led: its records would be lost."""
    voter = NewVoter(101, "c1", 9093, str(tmp_path / "101"))
    execute(former, voter)
    led(config_of(101, tmp_path / "101"))
    assert "diverges" in problems(former, voter)


def test_second_handover_to_others_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    execute(former, *three(tmp_path))
    voter = NewVoter(104, "c4", 9093, str(tmp_path / "104"))
    assert "The voters are 101, 102, 103" in problems(former, voter)


def test_voters_of_the_configuration_are_refused(tmp_path: Path) -> None:
    """kraft.version 0: the log does not name voters."""
    config = config_of(1, tmp_path / "1", **{"controller.quorum.voters": "1@localhost:9093"})
    led(config)
    assert f"{KRAFT_VERSION} is 0" in problems(config, *three(tmp_path))


def test_replicas_out_of_sync_are_refused(former: BrokerConfig, tmp_path: Path) -> None:
    led(former, *topic("orders", [1, 2], [1]))
    assert "Replicas of orders-0 are not in sync" in problems(former, *three(tmp_path))


def test_directory_in_use_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    """By another process: locks are a process's."""
    lock = str(tmp_path / "1" / LOCK)
    code = f"import fcntl; file = open({lock!r}, 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(DirectoryRefused, match="in use"):
            inspect_handover(former, three(tmp_path), NOW_MS)
        other.communicate(b"\n")


def test_configuration_of_no_voter_is_refused(former: BrokerConfig, tmp_path: Path) -> None:
    with pytest.raises(DirectoryRefused, match="has no metadata log"):
        inspect_handover(config_of(2, tmp_path / "2"), three(tmp_path), NOW_MS)
