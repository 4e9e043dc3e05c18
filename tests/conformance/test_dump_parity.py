"""pybroker dump-log and kafka-dump-log side by side on our files, on Kafka's files, and on damaged ones."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from storage.log_config import LogConfig
from tests.support.dump_log import DUMPED_SUFFIXES, LOGS, dump_with_both, files_to_dump
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.logs import T0, append, close, end, open_log
from tests.support.scale import scaled

RECORDED = LOGS / "v4.3.1-clean-shutdown"
INTERNAL = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
_REMOTE_ID = "076f726465727300000000000040008000000000000001000000030004000000000040008000000000000001"
REMOTE_LOG_RECORDS = (
    f"010000{_REMOTE_ID}00000000000000000a0000000000000014000000010000018bcfe568000000018bcfe568050300000000000000000000"
    "000a0000000004000000000000000f0000000400040102030101000101",
    f"010100{_REMOTE_ID}00000000020000018bcfe56809000300",
    "010200076f7264657273000000000000400080000000000000010000000300000000050000018bcfe5680b0000",
)

SameDump = Callable[..., str]


@pytest.fixture
def same_dump(java: JavaRunner) -> SameDump:
    """Return a function that dumps with both tools, which must agree, and returns the output."""
    return partial(dump_with_both, java)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a partition of ours: every codec, keys, nulls, headers, producers, transactions, over several segments."""
    root = tmp_path_factory.mktemp("written")
    config = LogConfig(segment_bytes=12_000, index_interval_bytes=600, segment_index_bytes=1200)
    log = open_log(root, config)
    dice = random.Random(7)
    sequences = {7: 0, 8: 0}
    for number in range(min(1000, scaled(120))):
        producer_id = dice.choice([-1, 7, 8])
        header: dict[str, int] = {}
        count = dice.randint(1, 6)
        if producer_id > 0:
            header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequences[producer_id]}
            sequences[producer_id] += count
        builder = BatchBuilder(codec=dice.choice(list(Codec)), transactional=producer_id == 8, **header)
        for each in range(count):
            key = dice.choice([None, b"", b"key-%d" % number, dice.randbytes(9)])
            value = dice.choice([None, b"", "wörd 中 \x01".encode(), dice.randbytes(40), b"v" * 200])
            headers = [(f"h{each}", dice.choice([None, b"x"])) for each in range(dice.randint(0, 3))]
            builder.append(T0 + number * 1000 + dice.randint(-2000, 2000), key, value, headers)
        append(log, bytearray(builder.build()), T0 + number * 1000, leader_epoch=number // 40)
        if producer_id == 8 and dice.random() < 0.5:
            end(log, producer_id=8, commit=dice.random() < 0.5, leader_epoch=number // 40)
    close(log)
    return root / "orders-0"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--verify-index-only",),
        ("--index-sanity-check",),
        ("--offsets-decoder",),
        ("--cluster-metadata-decoder", "--skip-record-metadata"),
        ("--remote-log-metadata-decoder",),
        ("--max-bytes", "5000", "--deep-iteration"),
    ],
    ids=" ".join,
)
def test_our_files(options: tuple[str, ...], written: Path, same_dump: SameDump) -> None:
    """S25.9-S25.12: all files of a partition with each option, also with decoders for other records."""
    told = "".join(same_dump("--files", files, *options) for files in files_to_dump(written))
    assert told.count("Dumping ") > (1 if "--offsets-decoder" in options else 10)  # it ends at a record without a key


# earlier releases print numbers for the states of transactions
@pytest.mark.parametrize("topic", [each for each in INTERNAL if KAFKA_LINE >= (4, 4) or "transaction" not in each])
@pytest.mark.parametrize("options", [(), ("--skip-record-metadata",)], ids=["", "skip"])
def test_records_of_kafkas_own_topics(topic: str, options: tuple[str, ...], same_dump: SameDump) -> None:
    """Commits, groups, transactions, share groups and cluster metadata as JSON."""
    logs = ",".join(map(str, sorted((RECORDED / f"{topic}-0").glob("*.log"))))
    told = same_dump("--files", logs, INTERNAL[topic], *options)
    assert '"data":{' in told


def test_remote_log_metadata(tmp_path: Path, same_dump: SameDump) -> None:
    """A copied segment, its later state, and a deleted partition."""
    builder = BatchBuilder()
    for value in REMOTE_LOG_RECORDS:
        builder.append(T0, None, bytes.fromhex(value))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(builder.build())
    assert "CustomMetadata{3 bytes}" in same_dump("--files", str(path), "--remote-log-metadata-decoder")


def test_metadata_snapshots(same_dump: SameDump) -> None:
    """The snapshot with which a directory is formatted."""
    told = same_dump("--files", str(RECORDED / "bootstrap.checkpoint"), "--cluster-metadata-decoder")
    assert "SnapshotFooter" in told


def test_old_formats(tmp_path: Path, same_dump: SameDump) -> None:
    """v0 and v1 with every codec of their time, as 4.3.1 dumps them."""
    for directory in sorted((LOGS / "v3.9.1-old-formats").glob("v[01]-*-0")):
        copy = shutil.copytree(directory, tmp_path / directory.name)
        (files,) = files_to_dump(Path(copy))
        assert "magic: " in same_dump("--files", files, "--print-data-log")


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_one_flipped_bit(seed: int, written: Path, tmp_path: Path, same_dump: SameDump) -> None:
    """Our tool shows as much of a damaged file as Kafka's, and fails where it does."""
    dice = random.Random(seed)
    shutil.copytree(written, tmp_path / "copy")
    path = dice.choice(sorted(path for path in (tmp_path / "copy").iterdir() if path.suffix in DUMPED_SUFFIXES[:5]))
    data = bytearray(path.read_bytes())
    bit = dice.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    same_dump("--files", str(path), "--deep-iteration")


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_one_cut(seed: int, written: Path, tmp_path: Path, same_dump: SameDump) -> None:
    """A file that ends too early."""
    dice = random.Random(seed)
    shutil.copytree(written, tmp_path / "copy")
    path = dice.choice(sorted(path for path in (tmp_path / "copy").iterdir() if path.suffix in DUMPED_SUFFIXES[:3]))
    path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size + 1)])
    same_dump("--files", str(path), "--print-data-log")
