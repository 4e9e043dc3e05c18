"""Remote storage as rows, alone and beside the local directory: Apache Kafka's (tests/data/remote), and buckets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pybroker
from pybroker.isolated import remote_files
from pybroker.source.bounds import at_offset, at_time
from pybroker.source.errors import AccessDenied, DamagedLog, DataLoss, SourceError, UnknownPartition, UnusableOption
from tests.support.record_readers import ask, offsets, plan, rows
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Fault, S3Server, s3_server
from tests.unit.remote.recorded import AIVEN, RECORDED

LOCAL = RECORDED / "local-4.4.0"
PARTITION = LOCAL / "dr-0-4fTE52MERgmp_MuTqc3IeA"
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "records.md"
AIVEN_TOPIC = "at-sYyf7c_nSwaY_r9QjP-oCQ"


def url(path: Path) -> dict[str, Any]:
    return {"url": f"file://{path}", "options": {}}


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        for file in AIVEN.rglob("*"):
            if file.is_file() and "log.dirs" not in file.parts:
                running.objects[f"one/{file.relative_to(AIVEN)}"] = file.read_bytes()
        yield running


def bucket(server: S3Server, path: str = "one") -> dict[str, Any]:
    options = {
        "endpoint.url": server.endpoint,
        "region": "us-east-1",
        "access.key.id": ACCESS_KEY,
        "secret.access.key": SECRET_KEY,
        "timeout.ms": "500",
    }
    return {"url": f"s3://{BUCKET}/{path}", "options": options}


@pytest.mark.parametrize("stored", [PARTITION, AIVEN / AIVEN_TOPIC / "0"], ids=["LocalTieredStorage", "Aiven"])
def test_all_records_of_a_partition_in_remote_storage(stored: Path) -> None:
    found = rows(None, remote=url(stored))
    assert [row["offset"] for row in found] == list(range(520))
    assert {row["topic"] for row in found} == {stored.name[:2] if stored is PARTITION else "at"}
    assert len(plan(None, remote=url(stored))) == 4


def test_topics_are_chosen_in_a_storage_of_many() -> None:
    assert {split["topic"] for split in plan(None, remote=url(LOCAL))} == {"dr", "drx"}
    assert {split["topic"] for split in plan(None, topics=["dr"], remote=url(LOCAL))} == {"dr"}
    assert {split["topic"] for split in plan(None, assigned=[("drx", 0)], remote=url(LOCAL))} == {"drx"}


def test_offsets_and_times_choose_segments() -> None:
    """Only the segments and index entries that are needed are read."""
    every = rows(None, ("offset", "timestamp"), remote=url(PARTITION))
    assert offsets(None, start=at_offset(128), end=at_offset(262), remote=url(PARTITION)) == list(range(128, 262))
    for wanted in (1, 200, 519):
        time_ms = int(every[wanted]["timestamp"].timestamp() * 1000)
        first = next(row["offset"] for row in every if row["timestamp"] >= every[wanted]["timestamp"])
        assert offsets(None, start=at_time(time_ms), remote=url(PARTITION))[0] == first


@pytest.mark.parametrize(
    ("stored", "log", "local", "end"),
    [(LOCAL, "dr-0", 520, 520), (AIVEN, "at-0", 520, 600), (RECORDED / "local-4.3.1", "jt-0", 130, 200)],
)
def test_a_directory_and_its_remote_segments_are_one_log(stored: Path, log: str, local: int, end: int) -> None:
    """The first directory has an empty segment only."""
    directory = stored / "log.dirs" / log
    assert offsets(directory) == list(range(local, end))
    assert offsets(directory, remote=url(stored)) == list(range(end))
    first, behind = local - 5, min(local + 5, end)
    between = {"start": at_offset(first), "end": at_offset(behind)}
    assert offsets(directory, **between, remote=url(stored)) == list(range(first, behind))


def test_aborted_transactions_are_left_out_in_both_tiers() -> None:
    """Every third transaction was aborted: by the remote index of transactions, and by the local one."""
    directory = LOCAL / "log.dirs" / "drx-0"
    every = rows(directory, ("offset", "value"), remote=url(LOCAL))
    committed = rows(directory, ("offset", "value"), committed=True, remote=url(LOCAL))
    assert committed == [row for row in every if int(row["value"][1:5]) % 3]
    assert len(committed) == 400
    alone = rows(None, ("offset", "value"), topics=["drx"], committed=True, remote=url(LOCAL))
    assert alone == [row for row in committed if row["offset"] < 594]


def test_remote_storage_without_the_topic_leaves_the_directory(tmp_path: Path) -> None:
    """A topic of the same name with another id is another topic."""
    shutil.copytree(PARTITION, tmp_path / "dr-0-AAAAAAAAAAAAAAAAAAAAAA")
    assert offsets(LOCAL / "log.dirs" / "dr-0", remote=url(tmp_path)) == []


def test_two_topics_of_one_name_are_an_error(tmp_path: Path) -> None:
    shutil.copytree(PARTITION, tmp_path / PARTITION.name)
    shutil.copytree(PARTITION, tmp_path / "dr-0-AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(UnusableOption, match=r"of one name: dr-A{22} and dr-4fTE52MERgmp_MuTqc3IeA;"):
        plan(None, remote=url(tmp_path))


def test_an_incomplete_copy_does_not_count(tmp_path: Path) -> None:
    shutil.copytree(PARTITION, tmp_path / PARTITION.name)
    next((tmp_path / PARTITION.name).glob("*390-*.snapshot")).unlink()
    assert offsets(None, remote=url(tmp_path)) == list(range(390))


@pytest.mark.parametrize(("path", "kind"), [("nothing", UnknownPartition), ("", UnknownPartition)])
def test_a_place_without_segments_is_an_error(path: str, kind: type[SourceError], tmp_path: Path) -> None:
    with pytest.raises(kind, match="has no segments"):
        plan(None, remote=url(tmp_path / path))


# ---- buckets


def test_a_bucket_is_read_by_ranges(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "_FIRST_BYTES", 4096)
    monkeypatch.setattr(remote_files, "_MOST_BYTES", 8192)
    remote = bucket(server, f"one/{AIVEN_TOPIC}/0")
    assert offsets(None, remote=remote) == list(range(520))
    server.asked.clear()
    splits = plan(None, start=at_offset(140), end=at_offset(150), remote=remote)
    ask("read_log", columns=("offset",), **splits[0])
    logs = [each.key for each in server.asked if each.key.endswith(".log")]
    assert {key.rpartition("/")[2][:20] for key in logs} == {f"{130:020}", f"{390:020}"}  # the last one for the end
    assert len([each for each in server.asked if not each.key]) == 1  # one listing


def test_short_faults_of_a_bucket_are_not_seen(server: S3Server) -> None:
    server.fail_first(1, Fault.CUT)
    assert offsets(None, topics=["at"], remote=bucket(server)) == list(range(520))


def test_faults_of_a_bucket_are_errors_of_sources(server: S3Server) -> None:
    """Each is one line without secrets, of a class that programs can tell from others."""
    remote = bucket(server)
    split = plan(None, topics=["at"], remote=remote)[0]
    key = next(key for key in server.objects if f"{0:020}-K" in key and key.endswith(".log"))

    def failed() -> SourceError:
        with pytest.raises(SourceError) as raised:
            ask("read_log", columns=("offset",), **split)
        assert SECRET_KEY not in str(raised.value)
        assert "\n" not in str(raised.value)
        return raised.value

    whole = server.objects[key]
    server.objects[key] = whole[:100]
    assert isinstance(failed(), DamagedLog)
    del server.objects[key]
    assert isinstance(failed(), DataLoss)
    server.objects[key] = whole
    server.fault = lambda _: Fault.DENIED
    assert isinstance(failed(), AccessDenied)
    manifest = key.replace(".log", ".rsm-manifest")
    server.fault = lambda _: None
    server.objects[manifest] = server.objects[manifest].replace(b'"compression":false', b'"compression":true')
    with pytest.raises(DamagedLog, match="compressed or encrypted"):
        offsets(None, topics=["at"], remote=bucket(server, "one/"))


# ---- as programs use it


def test_a_program_reads_a_url_with_the_local_rest() -> None:
    table = pybroker.read(AIVEN / "log.dirs" / "at-0", columns=["offset"], remote=f"file://{AIVEN}").read_all()
    assert table.column("offset").to_pylist() == list(range(600))


def test_a_program_reads_a_bucket(server: S3Server) -> None:
    remote = bucket(server, f"one/{AIVEN_TOPIC}")
    table = pybroker.read(remote["url"], columns=["offset"], storage_options=remote["options"]).read_all()
    assert table.column("offset").to_pylist() == list(range(520))


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("s3://b/x", {"remote": "s3://c/y"}, "both URLs"),
        ("/data", {"remote": "/elsewhere"}, "no URL of remote storage"),
        ("/data", {"storage_options": {"region": "x"}}, "no URL of it"),
        ("s3://b", {"storage_options": {"secret": "word"}}, "unknown key for s3://"),
    ],
)
def test_a_place_that_cannot_be_read_is_an_error_at_once(path: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UnusableOption, match=said) as raised:
        pybroker.read(path, **given)
    assert "word" not in str(raised.value)


def test_the_example_of_the_page_runs(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reference/records.md, with the topic's name and the address of the server replaced."""
    for key in list(server.objects):
        server.objects[key.replace(f"one/{AIVEN_TOPIC}", "prefix/orders-sYyf7c_nSwaY_r9QjP-oCQ")] = server.objects[key]
    shutil.copytree(AIVEN / "log.dirs" / "at-0", tmp_path / "data" / "orders-0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    _, lines = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}

    exec(lines.replace("http://localhost:9000", server.endpoint), names)

    assert [names[each].read_all().num_rows for each in ("old", "whole")] == [520, 600]
