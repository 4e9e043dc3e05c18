"""`pybroker produce`: errors are one line with an exit code."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.cli import produce
from tests.support.launch import obey_permissions


def run(*arguments: object) -> tuple[int, str]:
    """Run the command; return exit code and output. It runs without root's rights."""
    command = [sys.executable, "-m", "pybroker", "produce", *map(str, arguments)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, preexec_fn=obey_permissions
    )
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.removeprefix("pybroker produce: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "which topic?"),
        (["-"], "which topic?"),
        (["no/topic"], "'no/topic' is not a topic name"),
        ([__file__], f"which topic? {__file__} is a file: name the topic first, or with --topic"),
        (["t", "--follow"], "--follow needs files"),
        (["t", "--key-separator", ""], "argument --key-separator: it is empty"),
        (["t", "--key-separator", ":", "--key-regex", "a"], "argument --key-regex: not allowed with"),
        (["t", "--key-separator", ":", "--reader-property", "a=b"], "argument --reader-property: not allowed with"),
        (["t", "--null-marker", "N", "--reader-property", "a=b"], "--reader-property has a null.marker of its own"),
        (["--topic", "t", "--follow", "x", "--reader-property", "a=b"], "--reader-property is for sending once"),
        (["--topic", "a b"], "argument --topic: 'a b' is not a topic name"),
        (["--topic", "t", "--follow"], "--follow needs files"),
        (["--topic", "t", "--follow", "-"], "--follow needs files"),
        (["--topic", "t", "--follow", "x", "--timeout", "3"], "--timeout is for sending once"),
        (["--topic", "t", "--from-beginning"], "--from-beginning is for --follow"),
        (["--topic", "t", "--position", "p"], "--position is for --follow"),
        (["--topic", "t", "--key-regex", "("], "argument --key-regex: '(': missing )"),
        (["--topic", "t", "--max-line-bytes", "0"], "argument --max-line-bytes: '0' is not between 1 and 100000000"),
        (["--topic", "t", "--timeout", "-1"], "argument --timeout: '-1' is not a number of seconds"),
        (["--topic", "t", "--property", "x"], "argument -X/--property: 'x' is not KEY=VALUE"),
        (["--topic", "t", "--what"], "unrecognized arguments: --what"),
    ],
)
def test_bad_command_line_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    with pytest.raises(SystemExit) as ended:
        produce.main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pybroker produce: {problem}")
    assert printed.count("\n") == 1


def test_unreadable_standard_input_is_one_line(tmp_path: Path) -> None:
    """For example if it was opened for writing. It has no file name."""
    with (tmp_path / "written").open("wb") as file:
        command = [sys.executable, "-m", "pybroker", "produce", "t"]
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "pybroker produce: standard input: Bad file descriptor\n")


def test_topic_is_the_first_word_or_an_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the option, all words are files."""
    sent: list[tuple[str, list[Path]]] = []
    monkeypatch.setattr(produce, "_send_once", lambda options, target: sent.append((target.topic, options.files)))
    files = [Path("a"), Path("b")]
    for words in ("orders", "orders a b", "--topic orders a b", "orders -b h:1 a b", "orders a --json b"):
        assert produce.main(words.split()) == 0
    assert sent == [("orders", []), *[("orders", files)] * 4]


def test_property_unknown_to_librdkafka_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert produce.main(["--topic", "t", "--property", "nonsense=1", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == ('pybroker produce: --property: No such configuration property: "nonsense"\n')


def test_unknown_reader_property_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert produce.main(["--topic", "t", "--reader-property", "parse.keys=true"]) == 2
    message = "pybroker produce: --reader-property: unknown property parse.keys; known: "
    assert capsys.readouterr().err.startswith(message)


def test_missing_client_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(produce, "find_spec", lambda name: None)
    assert produce.main(["--topic", "t"]) == 1
    assert "pip install '.[client]'" in capsys.readouterr().err


def test_unreachable_broker_fails_after_the_timeout(tmp_path: Path) -> None:
    """With librdkafka's reason."""
    (tmp_path / "file").write_text("one\ntwo\n")
    with socket.socket() as taken:  # bound but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, printed = run("--topic", "t", "--bootstrap-server", address, "--timeout", 1, tmp_path / "file")
    assert (code, printed) == (1, f"no broker answers at {address}: 0 lines are acknowledged, not the others")


@pytest.mark.parametrize("follow", [[], ["--follow", "--from-beginning"]], ids=["once", "follow"])
@pytest.mark.parametrize("kind", ["unreadable", "folder"])
def test_unreadable_file_is_one_line(tmp_path: Path, follow: list[str], kind: str) -> None:
    path = tmp_path / kind
    position = ["--position", tmp_path / "position"] if follow else []
    if kind == "folder":
        path.mkdir()
        problem = "is not a regular file" if follow else "Is a directory"
    else:
        path.touch(0o000)
        problem = "Permission denied"
    assert run("--topic", "t", *follow, *position, path) == (1, f"{path}: {problem}")


def test_missing_file_is_an_error_unless_followed(tmp_path: Path) -> None:
    """A follower waits for it."""
    assert run("--topic", "t", tmp_path / "none") == (1, f"{tmp_path}/none: No such file or directory")


def test_bad_position_file(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    (tmp_path / "position").write_text("{")
    code, printed = run("--topic", "t", "--follow", tmp_path / "log", "--position", tmp_path / "position")
    assert code == 1
    assert printed.startswith(f"{tmp_path}/position: is not a position file: remove it")


def test_unwritable_position_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    (tmp_path / "locked").mkdir(0o500)
    position = tmp_path / "locked" / "position"
    code, printed = run("--topic", "t", "--follow", tmp_path / "log", "--position", position)
    assert (code, printed) == (1, f"{position}.lock: Permission denied")
