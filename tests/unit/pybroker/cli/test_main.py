"""The command: what it does itself, and what it becomes."""

from __future__ import annotations

import os
import re
import sys

import pytest

from broker.main import USAGE as BROKER_USAGE
from pybroker.cli.main import CLIENTS, OFFLINE, PLAIN, USAGE, main


class Replaced(Exception):
    """The process would have become another program."""


@pytest.fixture(autouse=True)
def _stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def execv(program: str, arguments: list[str]) -> None:
        raise Replaced(program, arguments)

    monkeypatch.setattr(os, "execv", execv)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["pybroker", *arguments])
    main()


def test_configuration_file_starts_the_broker_in_isolated_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process's place, with all arguments."""
    with pytest.raises(Replaced) as replaced:
        run(monkeypatch, "server.properties", "--override", "a=b")
    options = ["-I", "-m", "pybroker.engine_process", "broker.main", "server.properties", "--override", "a=b"]
    assert replaced.value.args == (sys.executable, [sys.executable, *options])


@pytest.mark.parametrize("arguments", [[], ["server.properties", "--strict"], ["--ephemeral"]])
def test_serve_is_the_broker_too(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """With the arguments after it; without any all has its default."""
    with pytest.raises(Replaced) as replaced:
        run(monkeypatch, "serve", *arguments)
    options = ["-I", "-m", "pybroker.engine_process", "broker.main", *arguments]
    assert replaced.value.args == (sys.executable, [sys.executable, *options])


@pytest.mark.parametrize(("command", "module"), sorted(OFFLINE.items()))
def test_offline_command_becomes_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, command: str, module: str
) -> None:
    """It imports the engine's rooms, which this process must not."""
    with pytest.raises(Replaced) as replaced:
        run(monkeypatch, command, "--help")
    options = ["-I", "-m", "pybroker.engine_process", module, "--help"]
    assert replaced.value.args == (sys.executable, [sys.executable, *options])


@pytest.mark.parametrize("command", sorted([*OFFLINE, *CLIENTS, *PLAIN]))
def test_help_names_every_command(command: str) -> None:
    """With what follows it."""
    assert f"pybroker {command} " in USAGE


@pytest.mark.parametrize("command", sorted(CLIENTS))
def test_commands_for_clients_have_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """It needs no client library, and no broker."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, command, "--help")
    assert ended.value.code == 0
    assert f"usage: pybroker {command}" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 2)])
def test_help_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    """Without arguments it is a mistake."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *arguments)
    assert ended.value.code == code
    assert "pybroker pipeline run|check|...|package FILE" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["help", "topics"], ["help", "topics", "create"]])
def test_help_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """As its own --help."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *words)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pybroker {' '.join(words[1:])} [-h]")


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """However one asks for it."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, word)
    assert ended.value.code == 0
    assert re.fullmatch(r"pybroker \d+\.\d+.*\n", capsys.readouterr().out)


@pytest.mark.parametrize("words", [["serve", "a.properties"], ["a.properties"], []])
def test_background_with_and_without_serve(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Whoever names the file alone may have the broker in the background, too."""
    started: list[list[str]] = []
    monkeypatch.setattr("pybroker.cli.daemon.start", lambda arguments: started.append(arguments) or 0)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *words, "--daemon")
    assert ended.value.code == 0
    assert started == [[*words[-1:], "--daemon"]]


def test_help_names_the_options_of_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, so that nobody has to guess that there are more."""
    assert [option for option in re.findall(r"--[a-z-]+", BROKER_USAGE) if option not in USAGE] == []


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("verfy", "did you mean verify?"),
        ("dumplog", "did you mean dump-log?"),
        ("start", "did you mean serve?"),
        ("begin", f"there are {', '.join(sorted([*OFFLINE, *CLIENTS, *PLAIN, 'kafka-home', 'pipeline', 'serve']))}"),
    ],
)
def test_word_that_is_no_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, hint: str
) -> None:
    """It is no file either: one line, exit code 2."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, word, "data")
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"pybroker: {word}: No such file or directory, and no command: {hint}\n"


def test_bad_options_of_a_pipeline_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, without the whole usage."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "pipeline", "run", "--what")
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_pipeline_without_spark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What to install: from the sources, not a package of that name from wherever it may come."""
    monkeypatch.setattr("pybroker.pipeline.main.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "pipeline", "run", "examples/access-log/pipeline.yaml")
    assert ended.value.code == 1
    assert "pip install '.[pipeline]'" in capsys.readouterr().err


def test_pipeline_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "pipeline", "run", "/nowhere/spec.yaml")
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("pipeline: /nowhere/spec.yaml: No such file or directory\n")
