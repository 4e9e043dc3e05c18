"""pybroker verify: no findings in intact directories, findings for damage, none after a repair."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.directory_checks import METADATA_LOG
from protocol.records.batch import parse_header
from protocol.records.entries import iter_records
from storage.checkpoints import RECOVERY_POINTS
from tests.support.damage import flip
from tests.support.dump_log import LOGS
from tests.support.scale import scaled
from tools.data.verify import (
    Finding,
    Kind,
    Severity,
    check_directory,
    main,
)

CLEAN = LOGS / "v4.3.1-clean-shutdown"
PLAIN = "plain-0/00000000000000000000"
Damage = Callable[[Path], None]


def errors(directory: Path, *, deep: bool = False) -> list[Finding]:
    return [found for found in check_directory(str(directory), deep=deep) if found.severity is not Severity.NOTE]


def replace(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir() if path.is_dir()))
def test_recorded_directories_have_no_errors(name: str) -> None:
    """Whatever formats Kafka wrote, except for those damaged on purpose."""
    found = {(each.kind, Path(each.path).name, each.position, each.offset) for each in errors(LOGS / name, deep=True)}
    damaged: dict[str, set[tuple[Kind, str, int | None, int | None]]] = {
        "v4.3.1-unclean-2-damaged": {
            (Kind.OFFSET_INDEX, "00000000000000000030.index", None, None),
            (Kind.RECORDS, "00000000000000000120.log", 427, 125),
            (Kind.CHECKPOINT, "replication-offset-checkpoint", None, 130),
        },
        "v4.3.1-unclean-crc-2-damaged": {(Kind.RECORDS, "00000000000000000060.log", 564, 66)},
    }
    assert found == damaged.get(name, set())


DAMAGES: dict[str, tuple[str, Damage, Kind, bool]] = {
    # (file, the damage, the finding, whether a repair fixes it)
    "record": (f"{PLAIN}.log", lambda path: flip(path, 300), Kind.RECORDS, True),
    "torn batch": (f"{PLAIN}.log", lambda path: path.write_bytes(path.read_bytes()[:-5]), Kind.RECORDS, True),
    "length": (f"{PLAIN}.log", lambda path: flip(path, 193 + 8, 0x7F), Kind.RECORDS, True),
    "zeros": (f"{PLAIN}.log", lambda path: path.write_bytes(path.read_bytes() + bytes(99)), Kind.RECORDS, True),
    "offsets back": (
        f"{PLAIN}.log",
        lambda path: path.write_bytes(path.read_bytes() + path.read_bytes()[:193]),
        Kind.RECORDS,
        True,
    ),
    "offset entry": (f"{PLAIN}.index", lambda path: flip(path, 3), Kind.OFFSET_INDEX, True),
    "position": (f"{PLAIN}.index", lambda path: flip(path, 15), Kind.OFFSET_INDEX, True),
    "index order": (f"{PLAIN}.index", lambda path: path.write_bytes(path.read_bytes()[::-1]), Kind.OFFSET_INDEX, True),
    "index size": (f"{PLAIN}.index", lambda path: path.write_bytes(path.read_bytes()[:-3]), Kind.OFFSET_INDEX, True),
    "index of gigabytes": (f"{PLAIN}.index", lambda path: os.truncate(path, 1 << 33), Kind.OFFSET_INDEX, True),
    "no index": (f"{PLAIN}.index", Path.unlink, Kind.OFFSET_INDEX, True),
    "time entry": (f"{PLAIN}.timeindex", lambda path: flip(path, 7), Kind.TIME_INDEX, True),
    "time offset": (f"{PLAIN}.timeindex", lambda path: flip(path, 11, 4), Kind.TIME_INDEX, True),
    "time index cut": (
        f"{PLAIN}.timeindex",
        lambda path: path.write_bytes(path.read_bytes()[:-12]),
        Kind.TIME_INDEX,
        True,
    ),
    "no time index": (f"{PLAIN}.timeindex", Path.unlink, Kind.TIME_INDEX, True),
    "aborted": ("txn-0/00000000000000000004.txnindex", lambda path: flip(path, 17), Kind.TRANSACTION_INDEX, True),
    "none aborted": ("txn-0/00000000000000000004.txnindex", Path.unlink, Kind.TRANSACTION_INDEX, True),
    "snapshot": ("idem-0/00000000000000000072.snapshot", lambda path: flip(path, 20), Kind.PRODUCER_SNAPSHOT, True),
    "later snapshot": (
        "idem-0/00000000000000000072.snapshot",
        lambda path: shutil.copy(path, path.with_name("00000000000000000099.snapshot")) and None,
        Kind.PRODUCER_SNAPSHOT,
        True,
    ),
    "epoch": ("plain-0/leader-epoch-checkpoint", lambda path: replace(path, b"0 0", b"3 0"), Kind.LEADER_EPOCHS, True),
    "no epochs": ("plain-0/leader-epoch-checkpoint", Path.unlink, Kind.LEADER_EPOCHS, True),
    "epochs garbled": ("plain-0/leader-epoch-checkpoint", lambda path: flip(path, 0), Kind.LEADER_EPOCHS, True),
    "topic id": ("plain-0/partition.metadata", lambda path: flip(path, 25), Kind.TOPIC_ID, True),
    "no topic id": ("plain-0/partition.metadata", Path.unlink, Kind.TOPIC_ID, True),
    "orphan index": (
        f"{PLAIN}.index",
        lambda path: shutil.copy(path, path.with_name("00000000000000000099.index")) and None,
        Kind.LEFTOVER,
        True,
    ),
    "recovery point": (
        "recovery-point-offset-checkpoint",
        lambda path: replace(path, b"\nplain 0 ", b"\nplain 0 9"),
        Kind.CHECKPOINT,
        True,
    ),
    "log start": (
        "log-start-offset-checkpoint",
        lambda path: replace(path, b"delrec 1 20", b"delrec 1 21"),
        Kind.CHECKPOINT,
        True,
    ),
    "checkpoint version": ("replication-offset-checkpoint", lambda path: flip(path, 0), Kind.CHECKPOINT, True),
    "checkpoint line": (
        "replication-offset-checkpoint",
        lambda path: replace(path, b"\nidem 0 ", b"\nidem 0_"),
        Kind.CHECKPOINT,
        True,
    ),
    "unknown partition": (
        "cleaner-offset-checkpoint",
        lambda path: replace(path, b"compacted-gzip 0", b"compacted-zzzz 0"),
        Kind.CHECKPOINT,
        True,
    ),
    "clean mark": (".kafka_cleanshutdown", lambda path: flip(path, 4), Kind.CLEAN_SHUTDOWN, True),
    "bootstrap": ("bootstrap.checkpoint", lambda path: flip(path, 200), Kind.BOOTSTRAP, True),
    "quorum": (f"{METADATA_LOG}/quorum-state", lambda path: path.write_bytes(b"{}"), Kind.QUORUM_STATE, True),
    "meta.properties": (
        "meta.properties",
        lambda path: replace(path, b"node.id", b"mode.id"),
        Kind.META_PROPERTIES,
        False,
    ),
    "directory id": (
        "meta.properties",
        lambda path: replace(path, b"directory.id=y", b"directory.id=x"),
        Kind.META_PROPERTIES,
        False,
    ),
    "no recovery points": ("recovery-point-offset-checkpoint", Path.unlink, Kind.CHECKPOINT, True),
    "missing partition": ("plain-0", shutil.rmtree, Kind.MISSING, False),
    "stray": ("plain-0", lambda path: shutil.copytree(path, path.with_name("nobody-0")) and None, Kind.STRAY, False),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_repaired(name: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the repair, a second check only finds what an operator has to decide."""
    file, damage, kind, repairable = DAMAGES[name]
    damage(directory / file)
    found = errors(directory)
    assert kind in {each.kind for each in found}
    place = (directory / file).parent if kind not in (Kind.MISSING, Kind.STRAY) else directory
    assert any(Path(each.path).is_relative_to(place) and each.kind is kind for each in found)
    assert main([str(directory), "--repair"]) == (0 if repairable else 1)
    printed = capsys.readouterr().out
    assert all(str(each) in printed for each in found)
    assert (errors(directory) == []) is repairable


def test_repair_keeps_truncated_bytes(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a recovery does: everything from the first wrong batch on."""
    segment = directory / f"{PLAIN}.log"
    flip(segment, 300)
    before = segment.read_bytes()
    assert [(each.position, each.offset, each.loses_records) for each in errors(directory)] == [(193, 4, True)]
    assert main([str(directory), "--repair"]) == 0
    assert segment.read_bytes() == before[:193]
    assert (directory / f"{PLAIN}.log.193.corrupt").read_bytes() == before[193:]
    assert f"{segment}: {len(before) - 193} bytes from byte 193 on were cut off" in capsys.readouterr().out


def test_swap_files_are_renamed(directory: Path) -> None:
    """A compaction was interrupted at its last step."""
    segment = directory / f"{PLAIN}.log"
    segment.rename(f"{segment}.swap")
    assert Kind.LEFTOVER in {each.kind for each in errors(directory)}
    assert main([str(directory), "--repair"]) == 0
    assert segment.exists()


def test_partition_without_segments_is_a_finding(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition without a topic is reported as well."""
    (directory / "ghost-0").mkdir()
    assert {each.kind for each in errors(directory)} == {Kind.RECORDS, Kind.TOPIC_ID, Kind.STRAY}
    assert main([str(directory), "--repair"]) == 1
    assert "ghost-0/00000000000000000000.log: the partition has no segment\n" in capsys.readouterr().out
    assert {each.kind for each in errors(directory)} == {Kind.TOPIC_ID, Kind.STRAY}


def test_empty_checkpoints_are_healthy(directory: Path) -> None:
    """Apache Kafka creates them empty."""
    (directory / "cleaner-offset-checkpoint").write_bytes(b"")
    assert errors(directory) == []
    (directory / "fresh-0").mkdir()
    (directory / "fresh-0" / "00000000000000000000.log").touch()
    (directory / "fresh-0" / "leader-epoch-checkpoint").touch()
    assert Kind.LEADER_EPOCHS not in {each.kind for each in errors(directory)}


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"1\n0\n"])
def test_lost_recovery_points_are_one_finding(directory: Path, content: bytes | None) -> None:
    """Not one for each partition. The repair writes the file once."""
    path = directory / "recovery-point-offset-checkpoint"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    (found,) = errors(directory)
    assert (found.path, found.kind) == (str(path), Kind.CHECKPOINT)
    assert found.what.startswith("not a checkpoint file: ") is (content == b"garbage")
    assert main([str(directory), "--repair"]) == 0


def test_repair_writes_checkpoints_once(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log may have been truncated, and entries may have been wrong before."""
    flip(directory / f"{PLAIN}.log", 300)
    path = directory / "recovery-point-offset-checkpoint"
    replace(path, b"\nplain 0 ", b"\nplain 0 9")
    assert main([str(directory), "--repair"]) == 0
    assert capsys.readouterr().out.count(f"{path}: rewritten") == 1


def test_records_that_contradict_their_header_are_found(directory: Path) -> None:
    """By --deep only, as headers and checksums are right."""
    from protocol.records.batch import compute_crc

    segment = directory / f"{PLAIN}.log"
    data = bytearray(segment.read_bytes())
    size = parse_header(data).size_bytes
    data[57 + 3] = 9  # records
    data[17:21] = compute_crc(data, 0, size).to_bytes(4, "big")
    segment.write_bytes(data)
    assert errors(directory) == []
    (found,) = errors(directory, deep=True)
    assert (found.kind, found.position, found.loses_records) == (Kind.CONTENT, 0, False)
    assert main([str(directory), "--deep"]) == 1


@pytest.mark.parametrize("name", ["99999999999999999999.log", "09223372036854775807.index", "7.log", "notes.txt"])
def test_names_that_a_start_ignores_are_no_findings(name: str, directory: Path) -> None:
    """Users' files, and numbers that no offset can have."""
    (directory / "plain-0" / name).write_bytes(b"")
    assert errors(directory) == []


def test_two_directories_of_one_broker(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition may be in either one, but not in both."""
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(directory / "meta.properties", other)
    shutil.move(directory / "plain-0", other / "plain-0")
    shutil.copy(directory / "recovery-point-offset-checkpoint", other)
    assert main([str(directory)]) == 1
    assert main([str(directory), str(other)]) == 0
    assert "was not given" not in capsys.readouterr().out
    shutil.copytree(directory / "idem-0", other / "idem-0")
    assert main([str(directory), str(other)]) == 1


def test_directory_not_given_is_a_note(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed by default, as that directory was not checked."""
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(directory / "meta.properties", other)
    assert main([str(other)]) == 0
    printed = capsys.readouterr().out
    assert f"{other}: __cluster_metadata-0 is in none of the directories given" in printed
    replace(directory / "meta.properties", b"directory.id=y", b"directory.id=x")
    main([str(directory)])
    printed = capsys.readouterr().out
    assert f"{directory}: the log directory yDpwX_jwsGTgyYrg_1fn0A was not given; it holds 24 partitions" in printed


def test_directory_without_partitions_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may have logs of other programs."""
    for name in ("nginx/access.log", "some-0/notes.log", "bench/00000000000000000000.log"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"text")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("0 partitions, 0 MB: 3 findings, 0 with records lost (1 note)\n")


def covered(path: Path, position: int) -> bool:
    """Return whether a checksum covers the byte: of a batch from its attributes on, of a snapshot all but
    its header.
    """
    if path.suffix == ".snapshot":
        return position >= 6
    if path.suffix not in (".log", ".checkpoint"):
        return False
    data, at = path.read_bytes(), 0
    while position >= at + parse_header(data, at).size_bytes:
        at += parse_header(data, at).size_bytes
    return position - at >= 17


def names_its_record(path: Path, position: int) -> bool:
    """Return whether the time index entry there is valid in the form of older releases, whatever it was before.

    It names the first record with its timestamp. Look-ups begin at that record's batch, so they find the same.
    """
    timestamp, relative = struct.unpack_from(">qi", path.read_bytes(), position // 12 * 12)
    records = iter_records(path.with_suffix(".log").read_bytes())
    return int(path.stem) + relative in [each.offset for each in records if each.timestamp == timestamp][:1]


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_flipped_bit_is_found_where_it_matters(seed: int, directory: Path) -> None:
    """In an index, or in a byte that a checksum covers. Elsewhere the check does not fail."""
    dice = random.Random(seed)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.stat().st_size and path.suffix != ".deleted":
            kinds.setdefault(path.suffix or path.name, []).append(path)
    for files in kinds.values():
        path = dice.choice(files)
        before = path.read_bytes()
        position = dice.randrange(len(before))
        must_be_named = covered(path, position) or path.suffix in (".index", ".timeindex", ".txnindex")
        flip(path, position, 1 << dice.randrange(8))
        found = errors(directory)
        if must_be_named and not (path.suffix == ".timeindex" and names_its_record(path, position)):
            assert str(path) in {each.path for each in found}, (path, position)
        path.write_bytes(before)
    assert errors(directory) == []


def batches(segment: Path) -> list[tuple[int, int, int]]:
    """Return position, size and base offset of each batch."""
    data, position, found = segment.read_bytes(), 0, []
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        found.append((position, 12 + length, base_offset))
        position += 12 + length
    return found


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_each_loss_is_one_finding(seed: int, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged records, files truncated in and between batches, missing partitions: each with its position."""
    chance = random.Random(seed)
    partitions = [each for each in sorted(directory.glob("*-*")) if each.is_dir() and not each.name.startswith("__")]
    logs = {each: max(each.glob("*.log")) for each in partitions}
    chosen = chance.sample([each for each, log in logs.items() if len(batches(log)) > 3], 5)
    spoiled, (torn, cut, gone) = chosen[:2], chosen[2:]
    lost: list[tuple[str, int | None, int | None]] = []
    for each in spoiled:
        for position, size, offset in chance.sample(batches(logs[each])[:-1], chance.randint(1, 3)):
            flip(logs[each], position + chance.randrange(61, size), 1 << chance.randrange(8))
            lost.append((str(logs[each]), position, offset))
    ends = dict(re.findall(r"^(\S+ \d+) (\d+)$", (directory / RECOVERY_POINTS).read_text(), re.MULTILINE))

    def end_is_lost(partition: Path) -> tuple[str, None, int]:
        return str(directory / RECOVERY_POINTS), None, int(ends[" ".join(partition.name.rsplit("-", 1))])

    position, size, offset = batches(logs[torn])[-1]
    left = chance.choice([3, chance.randrange(1, size)])
    os.truncate(logs[torn], position + left)  # a few bytes of an offset are zeros and do not show a batch
    lost.append((str(logs[torn]), position, offset) if any(logs[torn].read_bytes()[position:]) else end_is_lost(torn))
    position, _, _ = batches(logs[cut])[-chance.randint(1, 3)]
    lost.append(end_is_lost(cut))
    os.truncate(logs[cut], position)
    shutil.rmtree(gone)
    lost.append((str(gone), None, None))

    found = [each for each in errors(directory) if each.loses_records]
    assert Counter((each.path, each.position, each.offset) for each in found) == Counter(lost)
    assert main([str(directory), "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["losses"] == len(lost)
