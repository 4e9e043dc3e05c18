"""Kafka's scripts, and the program that each becomes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.kafka_home import tools
from pybroker.kafka_home.common_options import CannotTranslate
from pybroker.kafka_home.home import main as kafka_home
from pybroker.kafka_home.home import make_home
from pybroker.kafka_home.no_zookeeper import client_port, serve
from pybroker.kafka_home.tools import TOOLS, run, server_command, storage_command


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the command that the process would have become."""
    found: list[list[str]] = []

    def execv(_: str, words: list[str]) -> None:
        assert words[1:4] == ["-I", "-m", "pybroker.engine_process"]
        found.append(words[4:])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    for name in ("dup", "dup2", "set_inheritable"):
        monkeypatch.setattr(os, name, lambda *_: 0)
    return found


def test_server_start_becomes_the_broker() -> None:
    """In the foreground. It reads KAFKA_OPTS itself for users of a JAAS file."""
    assert server_command(["-daemon", "f", "--override", "a=b"]) == [
        *("broker.main", "--kafka-exit-codes", "f", "--override", "a=b")
    ]


def test_storage_tool_is_several_programs() -> None:
    """By its action, wherever on the command line it is."""
    assert storage_command(["format", "-t", "id", "-c", "f", "-N"]) == ["tools.data.format", "-t", "id", "-c", "f"]
    assert storage_command(["info", "-c", "f"]) == ["tools.data.storage_info", "-c", "f"]
    assert storage_command(["random-uuid"]) == ["tools.random_uuid"]
    with pytest.raises(CannotTranslate):
        storage_command(["version-mapping"])


@pytest.mark.parametrize(
    ("tool", "words", "module"),
    [
        ("kafka-run-class", ["kafka.Kafka", "f"], "broker.main"),
        ("kafka-run-class", ["-name", "kafkaServer", "-loggc", "kafka.Kafka", "f"], "broker.main"),
        ("kafka-run-class.sh", ["-daemon", "kafka.tools.StorageTool", "format", "-c", "f"], "tools.data.format"),
        ("kafka-server-start.sh", ["f"], "broker.main"),
        ("kafka-dump-log.sh", ["--files", "x"], "tools.data.dump_log"),
    ],
)
def test_tool_replaces_its_process(became: list[list[str]], tool: str, words: list[str], module: str) -> None:
    """So that signals reach it."""
    with pytest.raises(SystemExit):
        run(tool, words)

    assert became[0][0] == module
    assert became[0][-1] == words[-1]


@pytest.mark.parametrize("words", [["kafka-run-class", "kafka.tools.MirrorMaker"], ["kafka-run-class"], ["kafka-leo"]])
def test_unsupported_tool_has_an_exit_code(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """It prints one line."""
    assert run(words[0], words[1:]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_client_tools_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their standard input. The first command that fails is the last."""
    ran: list[tuple[list[str], str]] = []

    class Users:
        @staticmethod
        def main(arguments: list[str]) -> int:
            ran.append((arguments, sys.stdin.readline()))
            return 3

    monkeypatch.setattr(tools, "import_module", lambda name: Users if name == "pybroker.cli.users" else None)
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    added = "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=y]"
    words = ["--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", added]

    assert run("kafka-configs", words) == 3
    assert ran == [(["create", "ann", "--password-file", "-", "--mechanism", "SCRAM-SHA-256"], "x\n")]


def _ending(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let every command end with an exit code."""

    class Commands:
        @staticmethod
        def main(arguments: list[str]) -> int:
            return code

    monkeypatch.setattr(tools, "import_module", lambda _: Commands)


@pytest.mark.parametrize(
    ("tool", "line", "code", "expected"),
    [
        ("kafka-topics", "--list", 0, 0),
        ("kafka-topics", "--list", 1, 1),
        ("kafka-topics", "--list", 2, 1),
        ("kafka-topics", "--list", 130, 130),
        ("kafka-consumer-groups", "--list", 1, 0),
        ("kafka-consumer-groups", "--list", 2, 1),
    ],
)
def test_exit_codes_are_those_of_kafka(
    monkeypatch: pytest.MonkeyPatch, tool: str, line: str, code: int, expected: int
) -> None:
    """Kafka's tools end with 1; its kafka-consumer-groups reports errors of the broker and ends with 0."""
    _ending(monkeypatch, code)

    assert run(tool, line.split()) == expected


@pytest.mark.parametrize(
    "line", ["kafka-topics --colour", "kafka-acls --list --colour", "kafka-consumer-groups --list --colour"]
)
def test_unknown_option_has_exit_code_1(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's tools know no exit code 2."""
    tool, *words = line.split()

    assert run(tool, words) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("answer", "ran", "code"), [("y\n", True, 0), ("n\n", False, 0), ("", False, 1)])
def test_removal_of_acls_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, answer: str, ran: bool, code: int
) -> None:
    """As kafka-acls does; without anybody to answer it fails."""
    calls: list[list[str]] = []

    class Acls:
        @staticmethod
        def main(arguments: list[str]) -> int:
            calls.append(arguments)
            return 0

    monkeypatch.setattr(tools, "import_module", lambda _: Acls)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))

    assert run("kafka-acls", ["--remove", "--topic", "t"]) == code
    assert bool(calls) is ran


def test_home_is_updated_without_replacing_users_files(tmp_path: Path) -> None:
    """Only the scripts are written again."""
    home, commands = tmp_path / "it is a home", tmp_path / "bin"
    make_home(home, commands)
    (home / "config" / "server.properties").write_text("node.id=7\n")
    (home / "bin" / "kafka-topics.sh").write_text("")
    assert kafka_home([str(home)]) == 0

    assert {path.name for path in (home / "bin").iterdir()} == {f"{tool}.sh" for tool in TOOLS}
    assert {path.name for path in commands.iterdir()} == set(TOOLS)
    assert (home / "config" / "server.properties").read_text() == "node.id=7\n"
    assert os.access(home / "bin" / "kafka-topics.sh", os.X_OK)
    done = subprocess.run([home / "bin" / "kafka-run-class.sh", "no.Such"], capture_output=True, text=True)
    assert (done.returncode, done.stderr[:46]) == (1, "kafka-run-class: not supported by pybroker: no")


def test_home_that_cannot_be_created_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its path."""
    (tmp_path / "file").write_text("")

    assert kafka_home([str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_port_of_the_zookeeper_stub() -> None:
    """That of the file, else the usual one. A missing file is an error."""
    assert client_port("dataDir=/x\nclientPort=2182\n") == 2182
    assert client_port("") == 2181
    assert serve(["/does/not/exist"]) == 1
