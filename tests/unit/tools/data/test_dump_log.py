"""pybroker dump-log prints what kafka-dump-log printed, for every file of every recorded log directory."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.dump_log import LOGS
from tests.support.logs import close, open_log, sized
from tests.support.tools import RECORDED
from tools.data.dump_log import main

#: Two slips of the tool of 3.9.1 that 4.3.1 has not: a brace after a checksum, a space at the end of a line.
_OLD_SLIPS = re.compile(r"(?<= isValid: true crc: )(\d+)\}|(?m:(?<=\d) $)")
#: A line that 4.3.1 prints for each segment but the first, and 3.9.1 does not.
_FIRST_OFFSETS = re.compile(
    r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n(?!  )|  -1 is followed by \d+\n"
)
#: The tool failed here: it creates missing index files with an impossible size. Its earlier output is compared.
_DIED = re.compile(r'^Exception in thread "main".*', re.MULTILINE | re.DOTALL)


def dumped(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a dump."""
    code = main(arguments)
    out, err = capfd.readouterr()
    return code, out, err


def blocks(text: str) -> list[str]:
    """Return the final report, a string for each file; their order is arbitrary."""
    return sorted(re.split(r"^(?=\S)", text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "recorded",
    sorted([*LOGS.glob("*/*.dump.txt"), *LOGS.glob("*/*.decoded.txt")]),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_recorded_directory_is_dumped_as_by_kafka(
    recorded: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S25.9-S25.12: segments of all formats, indexes, snapshots and transaction indexes give the recorded text."""
    monkeypatch.chdir(recorded.parent)
    command, _, expected = recorded.read_bytes().decode("utf-8").partition("\n")
    code, out, err = dumped(capfd, *shlex.split(command)[2:])
    if "v3.9.1" in str(recorded):
        expected = _OLD_SLIPS.sub(r"\1", expected)
        err = _FIRST_OFFSETS.sub("", err)
    expected_out, _, expected_err = expected.partition("Non-consecutive offsets in ")
    died = _DIED.search(expected_out)
    assert code == (1 if died else 0)
    assert out == _DIED.sub("", expected_out)
    if died:
        assert "00000000000000000030.index: No such file or directory" in err
    else:
        expected_err = f"Non-consecutive offsets in {expected_err}" if expected_err else ""
        assert blocks(err.replace(str(recorded.parent.resolve()), "<dir>")) == blocks(expected_err)


def tool_runs() -> list[Path]:
    return sorted(RECORDED.glob("*-dump-log-*.txt"))


def where(command: str) -> Path:
    """Return the recorded set that the command's files belong to."""
    name = command.split("--files ")[1].split()[0].split(",")[0]
    found = [path.parents[name.count("/")] for path in LOGS.glob(f"*/{name}")]
    ways = ("damaged", "v3.9.1-old-formats", "v4.3.1-clean-shutdown")
    return next((path for way in ways for path in found if way in path.name), LOGS / ways[-1])


@pytest.mark.parametrize("recorded", tool_runs(), ids=lambda path: path.stem)
def test_recorded_run_of_the_tool_is_reproduced(
    recorded: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S25.9, S25.12: each option of the tool, and files that are torn, damaged, missing or foreign."""
    text = recorded.read_bytes().decode("utf-8")
    command, _, rest = text.partition("\n--- stdout\n")
    rest, _, exit_code = rest.rpartition("--- exit ")
    expected_out, _, expected_err = rest.partition("--- stderr\n")
    monkeypatch.chdir(where(command))
    code, out, err = dumped(capfd, *shlex.split(command)[2:])
    assert (code, out) == (int(exit_code), expected_out)
    if code:
        assert err.count("\n") == 1  # our message for Java's exception
    else:
        assert err.replace(f"{Path.cwd()}/", "") == expected_err


#: Sizes of the batches, and the timestamps of their only records; the first has no index entry.
_SAMPLE = (
    (7882, 1563248553000),
    (7895, 1563248553235),
    (7990, 1563248558397),
    (8023, 1563248558404),
    (7989, 1563248558412),
    (8075, 1563248558419),
    (8041, 1563248563532),
    (7980, 1563248563540),
    (7950, 1563248563548),
)


def test_sample_of_the_documents(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """S4.15, S4.16, S5.8: the dumps of 00000000000000256715.index and .timeindex."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    segment = partition / "00000000000000256715.log"
    batches = [
        sized(size, base_offset=256715 + number, leader_epoch=0, timestamp=timestamp)
        for number, (size, timestamp) in enumerate(_SAMPLE)
    ]
    segment.write_bytes(b"".join(batches))
    close(open_log(tmp_path))
    _, out, err = dumped(capfd, "--files", str(segment.with_suffix(".index")))
    positions = (7882, 15777, 23767, 31790, 39779, 47854, 55895, 63875)
    assert out.splitlines()[1:] == [
        f"offset: {256716 + number} position: {position}" for number, position in enumerate(positions)
    ]
    _, out, err = dumped(capfd, "--files", str(segment.with_suffix(".timeindex")))
    timestamps = [timestamp for _, timestamp in _SAMPLE[1:]]
    assert out.splitlines()[1:] == [
        f"timestamp: {timestamp} offset: {256716 + number}" for number, timestamp in enumerate(timestamps)
    ]
    assert err == ""


def test_files_without_a_suffix_are_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As by Apache Kafka's tool: also checkpoints and directories. The dump continues."""
    paths = [tmp_path / "leader-epoch-checkpoint", tmp_path / "t-0", tmp_path / "notes.txt"]
    code, out, err = dumped(capfd, "--files", ",".join(map(str, paths)))
    assert code == 0
    assert out == "".join(f"Dumping {path}\n" for path in paths)
    assert err == "".join(f"Ignoring unknown file {path}\n" for path in paths)
