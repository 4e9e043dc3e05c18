"""`pybroker groups reset-offsets`: partitions on the command line, files of offsets, and the new offsets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import pytest

from pybroker.cli import group_offsets
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.session import Place, Session
from pybroker.cli.group_offsets import read_plans, topic_partitions
from pybroker.cli.groups import command_line


class Log:
    """A cluster whose partitions all have the offsets 10 to 20; the group has 12 in the first."""

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 10)

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 20)


PLACES: list[Place] = [("t", 0), ("t", 1)]


@pytest.fixture
def reset(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Return the offsets that a command line prints with --export."""
    monkeypatch.setattr(group_offsets, "committed_offsets", lambda *_: {("t", 0): 12})
    monkeypatch.setattr(group_offsets, "_places", lambda *_: PLACES)

    def offsets(*words: str) -> list[str]:
        options = command_line().parse(["reset-offsets", "g", "--topic", "t", "--export", *words])
        group_offsets.reset(cast(Session, Log()), options, ["g"])
        return capsys.readouterr().out.splitlines()

    return offsets


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to-earliest"], ["t,0,10", "t,1,10"]),
        (["--to-latest"], ["t,0,20", "t,1,20"]),
        (["--to-offset", "15"], ["t,0,15", "t,1,15"]),
        (["--to-offset", "99"], ["t,0,20", "t,1,20"]),
        (["--to-current"], ["t,0,12", "t,1,20"]),
    ],
)
def test_offsets_are_those_of_kafka(reset: Callable[..., list[str]], words: list[str], expected: list[str]) -> None:
    """Inside the log. A partition without an offset has its end as the current one."""
    assert reset(*words) == expected


def test_shift_needs_an_offset(reset: Callable[..., list[str]]) -> None:
    """As with kafka-consumer-groups: the log's start is no offset of the group."""
    with pytest.raises(UsageError, match="t-1: the group has no offset to move by \\+1"):
        reset("--shift-by", "1")


def test_file_has_the_exported_lines(reset: Callable[..., list[str]], tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("t,0,15\n\nt,1,99\n")

    assert reset("--from-file", str(file)) == ["t,0,15", "t,1,20"]


def test_file_of_several_groups_names_them(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("g,t,0,1\nh,t,0,2\n")

    assert read_plans(file, ["g", "h"]) == {"g": {("t", 0): 1}, "h": {("t", 0): 2}}
    assert read_plans(file, ["g"]) == {"g": {("t", 0): 1}, "h": {("t", 0): 2}}


@pytest.mark.parametrize(
    ("text", "groups"), [("t,0\n", ["g"]), ("t,0,1\n", ["g", "h"]), ("t,zero,1\n", ["g"]), ("t,0,-1\n", ["g"])]
)
def test_wrong_line_is_named(tmp_path: Path, text: str, groups: list[str]) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    with pytest.raises(CommandError, match=r"plan\.csv:1: is not "):
        read_plans(file, groups)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("t,0,1\n".encode("utf-16"), "line 1: the file is UTF-16, not UTF-8 text"),
        (b"t,0,1\nt,\0,1\n", "line 2: the file is not UTF-8 text: it has a zero byte"),
        (b'"' + b"1" * 200_000 + b'",0,1\n', "field larger than field limit"),
    ],
)
def test_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(content)
    with pytest.raises(CommandError, match=f"{file}: {reason}"):
        read_plans(file, ["g"])


def test_topic_may_have_partitions() -> None:
    assert topic_partitions("a.b") == ("a.b", ())
    assert topic_partitions("a:0,12") == ("a", (0, 12))
    assert topic_partitions("a:0,12").has(("a", 12))
    assert not topic_partitions("a:0,12").has(("a", 1))
    assert topic_partitions("a").has(("a", 1))
    for wrong in ("a:", "a:x", ":1", "a:1,", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            topic_partitions(wrong)
