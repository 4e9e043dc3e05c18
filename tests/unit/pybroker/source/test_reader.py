"""The real reader process: one child for many requests, its errors, and its end."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pybroker
from pybroker.source.bounds import EARLIEST, LATEST, at_offset
from pybroker.source.columns import USUAL
from pybroker.source.errors import DamagedLog, ReaderDied, UnknownPartition, UnusableOption
from pybroker.source.reader import Reader
from storage.log_config import LogConfig
from tests.support.logs import append, batch, crash, open_log

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "records.md"
BOUNDS = {"start": at_offset(EARLIEST).to_json(), "end": at_offset(LATEST).to_json()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with four segments of three records each."""
    log = open_log(tmp_path, LogConfig(segment_bytes=150))
    for number in range(0, 12, 3):
        append(log, batch(*[b"value-%d" % (number + each) for each in range(3)]))
    assert len(log.segments) == 4
    crash(log)
    return tmp_path / "orders-0"


@pytest.fixture
def reader() -> Iterator[Reader]:
    with Reader() as reader:
        yield reader


def splits(reader: Reader, directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.ask("plan_log", path=str(directory), topics=None, committed=False, **BOUNDS)
    return found


def child(reader: Reader) -> int:
    assert reader._process is not None
    return reader._process.pid


def test_one_child_serves_all_requests_despite_errors(reader: Reader, directory: Path) -> None:
    planned = splits(reader, directory)
    first = child(reader)

    with pytest.raises(UnusableOption, match="not a directory"):
        splits(reader, directory / "nowhere")
    rows = [
        row
        for split in planned
        for part in reader.batches("read_log", ("offset", "value"), **split)
        for row in part.to_pylist()
    ]

    assert rows == [{"offset": number, "value": b"value-%d" % number} for number in range(12)]
    assert child(reader) == first


def test_killed_child_is_an_error_and_is_replaced(reader: Reader, directory: Path) -> None:
    splits(reader, directory)
    os.kill(child(reader), signal.SIGKILL)

    with pytest.raises(ReaderDied, match="exit code -9"):
        splits(reader, directory)
    assert len(splits(reader, directory)) == 4


def test_child_ends_with_reader_or_abandoned_iteration(reader: Reader, directory: Path) -> None:
    [split, *_] = splits(reader, directory)
    left = child(reader)
    rows = reader.batches("read_log", ("offset",), **split)
    next(rows)
    rows.close()
    assert not Path(f"/proc/{left}").exists()

    splits(reader, directory)
    closed = child(reader)
    reader.close()
    assert not Path(f"/proc/{closed}").exists()


def test_interrupted_rows_replace_the_child(reader: Reader, directory: Path) -> None:
    """The old child waits for the rest, and would take the next request for it."""

    def broken() -> Iterator[Any]:
        yield from ()
        raise ZeroDivisionError

    splits(reader, directory)
    left = child(reader)
    wanted = {"columns": ["value"], "topic": "orders", "properties": {"bootstrap.servers": "localhost:9092"}}
    with pytest.raises(ZeroDivisionError):
        reader.send_batches("write_topic", broken(), **wanted)

    assert not Path(f"/proc/{left}").exists()
    assert len(splits(reader, directory)) == 4


def test_abandoned_response_is_not_read_later(reader: Reader, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a notebook."""

    def interrupted(stream: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pybroker.source.reader.read_frame", interrupted)
        with pytest.raises(KeyboardInterrupt):
            splits(reader, directory.parent)

    with pytest.raises(UnusableOption, match="nowhere"):
        splits(reader, directory / "nowhere")


def test_reader_can_be_pickled(reader: Reader, directory: Path) -> None:
    splits(reader, directory)

    with pickle.loads(pickle.dumps(reader)) as copy:
        assert splits(copy, directory) == splits(reader, directory)
        assert child(copy) != child(reader)


def test_modules_of_the_user_are_not_imported(monkeypatch: pytest.MonkeyPatch, directory: Path, tmp_path: Path) -> None:
    """A project may have modules of the rooms' names. The child ignores its directory and path."""
    for name in ("storage", "protocol", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert pybroker.read("orders-0", columns=["offset"]).read_all()["offset"].to_pylist() == list(range(12))


def test_read_has_ranges_columns_and_headers(directory: Path) -> None:
    found = pybroker.read(directory, columns=["value", "headers"], start=2, end=5).read_all()

    assert found.column_names == ["value", "headers"]
    assert found["value"].to_pylist() == [b"value-2", b"value-3", b"value-4"]
    assert found["headers"].null_count == 3
    assert pybroker.read(directory).schema.names[:3] == ["key", "value", "topic"]


def test_read_fails_at_once(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableOption, match="twice"):
        pybroker.read(directory, columns=["key", "key"])
    with pytest.raises(UnusableOption, match="start"):
        pybroker.read(directory, start=3, start_ms=3)
    with pytest.raises(UnknownPartition, match="other"):
        pybroker.read(tmp_path, topics=["other"])


def test_damage_is_raised_after_earlier_rows(directory: Path) -> None:
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    found = []

    def read() -> None:
        found.extend(row["offset"] for part in pybroker.read(directory) for row in part.to_pylist())

    with pytest.raises(DamagedLog, match="checksum"):
        read()
    assert found == list(range(6))


def test_examples_of_the_page_run(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """docs/reference/records.md, in a directory with a data directory."""
    directory.parent.joinpath("data").mkdir()
    directory.rename(directory.parent / "data" / "orders-0")
    monkeypatch.chdir(directory.parent)
    [lines, _] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

    exec(lines, {})

    counts = f"12 {list(USUAL)}", "3", "3", "3", "3"
    assert capfd.readouterr().out.splitlines() == list(counts)
