"""The small text files: as Apache Kafka writes them, and damaged in every way."""

from pathlib import Path

import pytest

from storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    MetaProperties,
    format_offsets,
    read_clean_shutdown,
    read_lines,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_meta_properties,
    write_topic_id,
)
from storage.errors import CorruptFile
from storage.fs import LOCAL
from tests.support.dump_log import LOGS

CLEAN = LOGS / "v4.3.1-clean-shutdown"


@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, "cleaner-offset-checkpoint"])
def test_recorded_checkpoint_reads_and_writes_the_same(name: str) -> None:
    """S6.2: the four files of a log directory."""
    offsets = read_offsets(LOCAL, str(CLEAN / name))
    assert offsets
    assert format_offsets(offsets) == (CLEAN / name).read_bytes()


def test_recorded_checkpoint_has_the_log_start_offsets(tmp_path: Path) -> None:
    """S14.17."""
    assert read_offsets(LOCAL, str(CLEAN / LOG_START_OFFSETS)) == {("delrec", 0): 13, ("delrec", 1): 20}
    assert read_offsets(LOCAL, str(tmp_path / "missing")) == {}


@pytest.mark.parametrize("data", [b"", b"0\n1\n", b"1\n0\n", b"0\nx\n", b"\xff\n0\n", b"0\n2\na 0 1\n"])
def test_damaged_checkpoint_counts_as_missing(data: bytes, tmp_path: Path) -> None:
    """Rule R6: recovery starts at an earlier offset then."""
    path = tmp_path / RECOVERY_POINTS
    path.write_bytes(data)
    assert read_offsets(LOCAL, str(path)) == {}
    with pytest.raises(CorruptFile):
        read_lines(LOCAL, str(path))


def test_invalid_line_is_skipped(tmp_path: Path) -> None:
    """The other lines count."""
    path = tmp_path / RECOVERY_POINTS
    path.write_bytes(b"0\n3\na 0 1\nb x y\nc 1\n")
    assert read_offsets(LOCAL, str(path)) == {("a", 0): 1}


def test_meta_properties_of_kafka_are_read() -> None:
    """Version 1 with a directory id (KIP-858)."""
    assert read_meta_properties(LOCAL, str(CLEAN)) == MetaProperties(
        "AAAAAAAAQACAAAAAAAAAAQ", 1, "yDpwX_jwsGTgyYrg_1fn0A"
    )


def test_meta_properties_round_trip(tmp_path: Path) -> None:
    """As keys and values, because Kafka accepts them in any order."""
    assert read_meta_properties(LOCAL, str(tmp_path)) is None
    properties = MetaProperties("cluster", 3, "AAAAAAAAAAAAAAAAAAAABg")
    write_meta_properties(LOCAL, str(tmp_path), properties)
    assert read_meta_properties(LOCAL, str(tmp_path)) == properties
    assert (tmp_path / "meta.properties").read_text() == (
        "#\nnode.id=3\ndirectory.id=AAAAAAAAAAAAAAAAAAAABg\nversion=1\ncluster.id=cluster\n"
    )


def test_meta_properties_of_zookeeper_times_are_read(tmp_path: Path) -> None:
    """Version 0 has broker.id."""
    (tmp_path / "meta.properties").write_text("#\nbroker.id=5\nversion=0\ncluster.id=x\\=y\n")
    assert read_meta_properties(LOCAL, str(tmp_path)) == MetaProperties("x=y", 5, None, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=1\n",
        "version=7\nnode.id=1\ncluster.id=x\n",
        "version=x\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAA\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAA+AAAAAAAAAAA\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAA\u00c1AAAAAAAAAAA\n",
    ],
)
def test_meta_properties_without_required_keys_are_corrupt(text: str, tmp_path: Path) -> None:
    """The owner of a directory is never guessed."""
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFile):
        read_meta_properties(LOCAL, str(tmp_path))


def test_clean_shutdown_file_is_kafkas(tmp_path: Path) -> None:
    """KIP-966 stores the broker epoch in it."""
    assert read_clean_shutdown(LOCAL, str(CLEAN)) == 12
    assert read_clean_shutdown(LOCAL, str(tmp_path)) is None
    write_clean_shutdown(LOCAL, str(tmp_path), 12)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == (CLEAN / ".kafka_cleanshutdown").read_bytes()
    for damaged in (b"", b"12", b'{"brokerEpoch":Infinity}', b"[" * 60_000):
        (tmp_path / ".kafka_cleanshutdown").write_bytes(damaged)
        assert read_clean_shutdown(LOCAL, str(tmp_path)) == -1


def test_partition_metadata_is_kafkas(tmp_path: Path) -> None:
    """KIP-516."""
    topic_id = read_topic_id(LOCAL, str(CLEAN / "plain-0"))
    assert topic_id is not None
    write_topic_id(LOCAL, str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == (CLEAN / "plain-0/partition.metadata").read_bytes()


@pytest.mark.parametrize("data", [b"", b"version: 0\n", b"version: 0\ntopic_id: abc\n", b"\xff"])
def test_damaged_partition_metadata_gives_no_topic_id(data: bytes, tmp_path: Path) -> None:
    """The metadata log has the id."""
    (tmp_path / "partition.metadata").write_bytes(data)
    assert read_topic_id(LOCAL, str(tmp_path)) is None
