"""The command that checks and does a handover: its output and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.controller.test_handover import config_of, led, record_bytes
from tools.data.handover import main


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file of a controller that has stopped; Apache Kafka's name all controllers for brokers to find."""
    path = tmp_path / "controller.properties"
    path.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://:9093\n"
        f"controller.quorum.bootstrap.servers=c1:9093,c2:9093\nlog.dirs={tmp_path}/1\n"
    )
    led(config_of(1, tmp_path / "1"))
    return path


def options(config: Path, *others: str) -> list[str]:
    return [str(config), f"--voter=101@c1.example:9093={config.parent}/101", *others]


def test_steps_are_printed_and_nothing_is_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(config)) == 0
    shown = capsys.readouterr().out
    assert f"Will do: {config.parent}/101, the directory of node 101, gets a copy of the log.\n" in shown
    assert "\n    controller.quorum.bootstrap.servers=c1.example:9093\n" in shown
    assert not (config.parent / "101").exists()


def test_execution_is_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(config, "--execute", "--json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["kind"] for each in lines if each["kind"] in ("will", "done")] == ["done"] * 3
    assert record_bytes(config.parent / "101") == record_bytes(config.parent / "1")


def test_problems_are_printed_and_nothing_is_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "101").mkdir()
    (config.parent / "101" / "letter").touch()
    assert main(options(config, "--execute")) == 1
    assert "\nProblem: " in capsys.readouterr().out
    assert record_bytes(config.parent / "101") == b""


def test_directory_without_a_log_is_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace(f"{config.parent}/1", f"{config.parent}/2"))
    assert main(options(config)) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "has no metadata log" in shown.err


@pytest.mark.parametrize("value", ["101", "101@c1=/d", "x@c1:9093=/d", "101@c1:9093=d", "101@c1:99999=/d", "101@:1=/d"])
def test_wrong_voters_are_one_line(config: Path, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(config), "--voter", value])
    assert ended.value.code == 2
    assert "is not ID@HOST:PORT=DIRECTORY" in capsys.readouterr().err
