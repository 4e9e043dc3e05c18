"""`pybroker verify --remote`: remote storage against its metadata, with what Apache Kafka stored, and uploads again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.aiven_settings import FILE_SYSTEM, S3
from remote.configured import layout_of
from remote.local_tiered_layout import FOLDER
from remote.storage_settings import AIVEN_CLASS, LOCAL_TIERED_CLASS
from storage.segment.files import file_name
from tests.support.damage import flip
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Fault, S3Server, s3_server
from tests.unit.remote.recorded import AIVEN, RECORDED
from tools.data.checks.remote import finished_copies
from tools.data.checks.remote_repair import repair_copies
from tools.data.verify import main

LOCAL = RECORDED / "local-4.4.0"
PARTITION = "dr-0-4fTE52MERgmp_MuTqc3IeA"
COPY = "dr-0 (4fTE52MERgmp_MuTqc3IeA), 00000000000000000130-rDvKtreBRJOr_vUVV8YdFg"
TOPIC = "at-sYyf7c_nSwaY_r9QjP-oCQ"


def _is_stored(text: str) -> bool:
    """Return whether a line is about a topic whose objects are in the test data; the metadata has more topics."""
    return any(each in text for each in ("4fTE52MERgmp_MuTqc3IeA", "_birQTGHQNOdH12SZsnOtg", "sYyf7c_nSwaY_r9QjP-oCQ"))


class Stage:
    """A data directory, a configuration, and what a check of them prints about remote storage."""

    def __init__(self, root: Path, recorded: Path, settings: dict[str, str]) -> None:
        self.data = root / "data"
        shutil.copytree(recorded / "log.dirs", self.data)
        self._file = root / "server.properties"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def verify(self, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
        """Return the lines about remote segments: severity and text of findings, and what a repair has done."""
        main(["--remote", "--json", "--config", str(self._file), *options, str(self.data)])
        printed = capsys.readouterr()
        assert printed.err == ""
        found = []
        for line in map(json.loads, printed.out.splitlines()):
            if line["type"] == "finding" and line["kind"] == "remote" and _is_stored(line["path"]):
                found.append(f"{line['severity']}: {line['path']}: {line['what']}")
            elif line["type"] in ("repair", "refusal") and _is_stored(line["what"]):
                found.append(f"{line['type']}: {line['what']}")
        return found

    def refused(self, capsys: pytest.CaptureFixture[str], *options: str) -> str:
        assert main(["--remote", *options, str(self.data)]) == 2
        return capsys.readouterr().err


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The partition's folder in a store with what Apache Kafka copied."""
    for name in (PARTITION, "drx-0-_birQTGHQNOdH12SZsnOtg"):
        shutil.copytree(LOCAL / name, tmp_path / "remote" / FOLDER / name)
    return tmp_path / "remote" / FOLDER / PARTITION


@pytest.fixture
def stage(tmp_path: Path, stored: Path) -> Stage:
    settings = {
        "remote.log.storage.manager.class.name": LOCAL_TIERED_CLASS,
        "rsm.config.dir": str(tmp_path / "remote"),
    }
    return Stage(tmp_path, LOCAL, settings)


def one(folder: Path, start: int, suffix: str) -> Path:
    [found] = folder.glob(f"{start:020}-*.{suffix}")
    return found


def keep_locally(stage: Stage, folder: Path, start: int, end: int) -> None:
    """Put a segment back on the disk, as before local retention."""
    for suffix in ("log", "index", "timeindex"):
        shutil.copy(one(folder, start, suffix), stage.data / "dr-0" / file_name(start, f".{suffix}"))
    shutil.copy(one(folder, start, "snapshot"), stage.data / "dr-0" / file_name(end, ".snapshot"))


def test_what_kafka_stored_has_no_findings(stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.verify(capsys) == []
    assert stage.verify(capsys, "--deep") == []


@pytest.mark.parametrize("suffix", ["log", "index", "snapshot", "leader_epoch_checkpoint"])
def test_a_missing_object_is_found(suffix: str, stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one(stored, 130, suffix).unlink()
    [found] = stage.verify(capsys)
    assert found.startswith(f"loss: {COPY}: an object is missing")
    assert f".{suffix}: No such file" in found


def test_a_short_object_is_found(stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = one(stored, 260, "log")
    log.write_bytes(log.read_bytes()[:-7])
    [found] = stage.verify(capsys)
    assert "has 0 bytes from" in found


@pytest.mark.parametrize(
    ("position", "said"), [(3001, "a batch of offset 28"), (3100, "the checksum of the batch at offset 410 is wrong")]
)
def test_changed_bytes_are_found_with_deep(
    position: int, said: str, stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(one(stored, 390, "log"), position)
    assert stage.verify(capsys) == []
    [found] = stage.verify(capsys, "--deep")
    assert said in found


def test_objects_without_a_record_are_noted_only(
    stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may belong to another broker, or to a copy that is under way."""
    for file in list(stored.glob(f"{130:020}-*")):
        shutil.copy(file, file.with_name(file.name.replace("rDvKtreBRJOr_vUVV8YdFg", "A" * 22)))
    found, again = stage.verify(capsys, "--repair")
    assert found == again
    assert found.startswith("note: kafka-tiered-storage/")
    assert "AAAA.*: 5 objects belong to no finished copy" in found
    assert len(list(stored.glob("*-A*"))) == 5


def test_a_repair_uploads_what_is_still_on_the_disk(
    stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {file.name: file.read_bytes() for file in stored.iterdir()}
    keep_locally(stage, stored, 390, 520)
    flip(one(stored, 390, "log"), 3100)
    one(stored, 390, "timeindex").unlink()
    one(stored, 130, "log").unlink()

    lost, damaged, refusal, repair, again, refusal_again = stage.verify(capsys, "--repair")

    assert lost.startswith("loss: dr-0")
    assert damaged.startswith("damage: dr-0")
    assert damaged.endswith("; the disk still has the segment")
    assert refusal.startswith("refusal:")
    assert refusal.endswith("the segment is no longer on the disk")
    assert repair.endswith("uploaded again")
    assert (again, refusal_again) == (lost, refusal)
    del whole[next(name for name in whole if "0130-" in name and name.endswith(".log"))]
    assert {file.name: file.read_bytes() for file in stored.iterdir()} == whole


def test_a_damaged_segment_on_the_disk_replaces_nothing(
    stage: Stage, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_locally(stage, stored, 390, 520)
    one(stored, 390, "index").unlink()
    before = {file.name: file.read_bytes() for file in stored.iterdir()}
    flip(stage.data / "dr-0" / file_name(390, ".log"), 3100)
    layout = layout_of(LOCAL_TIERED_CLASS, {"dir": str(stored.parents[1])})
    copies = finished_copies([str(stage.data)])
    copy = next(each for each in copies if (each.partition.topic, each.segment.start_offset) == ("dr", 390))
    [(line, is_repaired)] = repair_copies(layout, [copy])
    assert not is_repaired
    assert "checksum" in line
    assert {file.name: file.read_bytes() for file in stored.iterdir()} == before


# ---- a bucket


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        for file in AIVEN.rglob("*"):
            if file.is_file() and "log.dirs" not in file.parts:
                running.objects[f"one/{file.relative_to(AIVEN)}"] = file.read_bytes()
        yield running


@pytest.fixture
def in_bucket(server: S3Server, tmp_path: Path) -> Stage:
    settings = {
        "storage.backend.class": S3,
        "storage.s3.bucket.name": BUCKET,
        "storage.s3.endpoint.url": server.endpoint,
        "storage.s3.region": "us-east-1",
        "storage.aws.access.key.id": ACCESS_KEY,
        "storage.aws.secret.access.key": SECRET_KEY,
        "key.prefix": "one/",
    }
    prefixed = {f"rsm.config.{key}": value for key, value in settings.items()}
    return Stage(tmp_path, AIVEN, {"remote.log.storage.manager.class.name": AIVEN_CLASS, **prefixed})


def test_a_bucket_is_checked_by_one_listing(
    in_bucket: Stage, server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_bucket.verify(capsys) == []
    assert {each.key for each in server.asked if TOPIC in each.key} == set()
    assert in_bucket.verify(capsys, "--deep") == []


def test_damage_in_a_bucket_is_found(in_bucket: Stage, server: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    logs = sorted(key for key in server.objects if key.startswith(f"one/{TOPIC}/") and key.endswith(".log"))
    del server.objects[logs[1]]
    manifest = logs[2].replace(".log", ".rsm-manifest")
    server.objects[manifest] = server.objects[manifest].replace(b'"compression":false', b'"compression":true')
    missing, compressed = in_bucket.verify(capsys, "--deep")
    assert "an object is missing" in missing
    assert "compressed or encrypted" in compressed


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.LOST_KEY, Fault.BROKEN])
def test_a_storage_that_does_not_answer_is_no_finding(
    fault: Fault, in_bucket: Stage, server: S3Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing counts as missing then, and a repair replaces nothing."""
    stored = dict(server.objects)
    server.fault = lambda _: fault
    assert "pybroker verify: " in in_bucket.refused(capsys, "--repair", "--config", str(tmp_path / "server.properties"))
    assert server.objects == stored


def test_remote_needs_a_storage_in_the_configuration(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "--remote needs --config" in stage.refused(capsys)
    other = tmp_path / "other.properties"
    other.write_text(
        f"remote.log.storage.manager.class.name={AIVEN_CLASS}\nrsm.config.storage.backend.class={FILE_SYSTEM}\n"
    )
    assert "rsm.config.storage.root: must be set" in stage.refused(capsys, "--config", str(other))
