"""The command `pybroker`: what runs in this process, and what in another program."""

from __future__ import annotations

import os
import re
import sys

import pytest

from broker.main import USAGE as BROKER_USAGE
from pybroker.cli.commands import COMMANDS, modules, usage
from pybroker.cli.main import main


class Replaced(Exception):
    """Raised where the process would have become another program."""


@pytest.fixture(autouse=True)
def _stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def execv(program: str, arguments: list[str]) -> None:
        raise Replaced(program, arguments)

    monkeypatch.setattr(os, "execv", execv)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["pybroker", *arguments])
    main()


def engine_process(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Return the module and arguments of the isolated process that the command becomes."""
    with pytest.raises(Replaced) as replaced:
        run(monkeypatch, *arguments)
    program, words = replaced.value.args
    assert program == sys.executable
    assert words[:4] == [sys.executable, "-I", "-m", "pybroker.engine_process"]
    return words[4:]


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Return the command's exit code in this process."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *arguments)
    return ended.value.code


def test_configuration_file_starts_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all arguments, in an isolated process."""
    words = ["server.properties", "--override", "a=b"]
    assert engine_process(monkeypatch, *words) == ["broker.main", *words]


def test_file_without_a_dot_starts_the_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    """A word that is no command is treated as a file name."""
    monkeypatch.chdir(tmp_path)
    with open("settings", "w"):
        pass
    assert engine_process(monkeypatch, "settings", "--strict") == ["broker.main", "settings", "--strict"]


@pytest.mark.parametrize("arguments", [[], ["server.properties", "--strict"], ["--ephemeral"]])
def test_serve_starts_the_broker(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    assert engine_process(monkeypatch, "serve", *arguments) == ["broker.main", *arguments]


@pytest.mark.parametrize(("command", "module"), sorted(modules("engine").items()))
def test_command_of_the_engine_is_a_process(monkeypatch: pytest.MonkeyPatch, command: str, module: str) -> None:
    """It imports the engine's packages, which this process must not."""
    assert engine_process(monkeypatch, command, "--help") == [module, "--help"]


def test_broker_starts_without_the_table_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its start imports no more than it needs."""
    monkeypatch.delitem(sys.modules, "pybroker.cli.commands", raising=False)
    engine_process(monkeypatch, "server.properties")
    assert "pybroker.cli.commands" not in sys.modules


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_usage_names_every_command(command: str) -> None:
    """In a line that fits a terminal."""
    (line,) = re.findall(rf"^  pybroker {command} .*", usage(), re.MULTILINE)
    assert line.endswith(f" {COMMANDS[command].help}")
    assert len(line) <= 100


@pytest.mark.parametrize("command", sorted(modules("client")))
def test_client_commands_have_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Without a client library or a broker."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert exit_code(monkeypatch, command, "--help") == 0
    assert f"usage: pybroker {command}" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["help"], 0), ([], 2)])
def test_help_prints_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    """A command line without arguments is an error."""
    assert exit_code(monkeypatch, *arguments) == code
    assert capsys.readouterr().out == usage()


@pytest.mark.parametrize("words", [["help", "topics"], ["help", "topics", "create"]])
def test_help_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """The same as the command's own --help."""
    assert exit_code(monkeypatch, *words) == 0
    assert capsys.readouterr().out.startswith(f"usage: pybroker {' '.join(words[1:])} [-h]")


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert exit_code(monkeypatch, word) == 0
    assert re.fullmatch(r"pybroker \d+\.\d+.*\n", capsys.readouterr().out)


@pytest.mark.parametrize("words", [["serve", "a.properties"], ["a.properties"], []])
def test_daemon_with_and_without_serve(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("pybroker.cli.daemon.start", lambda arguments: started.append(arguments) or 0)
    assert exit_code(monkeypatch, *words, "--daemon") == 0
    assert started == [[*words[-1:], "--daemon"]]


def test_usage_names_every_option_of_the_broker() -> None:
    assert [option for option in re.findall(r"--[a-z-]+", BROKER_USAGE) if option not in usage()] == []


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("verfy", "did you mean verify?"),
        ("dumplog", "did you mean dump-log?"),
        ("start", "did you mean serve?"),
        ("begin", f"there are {', '.join(sorted(COMMANDS))}"),
    ],
)
def test_unknown_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, hint: str
) -> None:
    """No such file exists either; exit code 2."""
    assert exit_code(monkeypatch, word, "data") == 2
    assert capsys.readouterr().err == f"pybroker: {word}: No such file or directory, and no command: {hint}\n"


def test_bad_option_of_a_pipeline_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, without the usage."""
    assert exit_code(monkeypatch, "pipeline", "run", "--what") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_pipeline_without_spark_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra of the source tree, as a package index may have another package of that name."""
    monkeypatch.setattr("pybroker.pipeline.main.find_spec", lambda name: None)
    assert exit_code(monkeypatch, "pipeline", "run", "examples/access-log/pipeline.yaml") == 1
    assert "pip install '.[pipeline]'" in capsys.readouterr().err


def test_missing_pipeline_file_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert exit_code(monkeypatch, "pipeline", "run", "/nowhere/spec.yaml") == 2
    assert capsys.readouterr().err.endswith("pipeline: /nowhere/spec.yaml: No such file or directory\n")
