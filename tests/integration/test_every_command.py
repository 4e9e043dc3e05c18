"""Rules for every command, found by their parsers: help, `--json`, and errors in one line.

A new command or action needs a line here, or a reason why it has none.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.cli.commands import COMMANDS, modules
from pybroker.testing import Broker
from tests.support.dump_log import LOGS
from tests.support.shell import Done
from tools.command_lines import CommandLine, command_lines

SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Line:
    """A command line that succeeds; `before` are lines that prepare it.

    `code` is its exit code, and `denied` that for a user without rights: 0 if the user then sees an empty result.
    """

    words: str
    before: tuple[str, ...] = ()
    code: int = 0
    denied: int = 1


READ = "consume orders --from-beginning --max-messages 1 --group"
LINES = {
    "acls add": Line("acls add --allow-principal User:bob --operation read --topic orders"),
    "acls list": Line("acls list"),
    "acls remove": Line("acls remove --topic orders"),
    "client-metrics alter": Line("client-metrics alter shop --metrics a."),
    "client-metrics delete": Line("client-metrics delete gone", ("client-metrics alter gone --metrics a.",)),
    "client-metrics describe": Line("client-metrics describe kept", ("client-metrics alter kept --metrics a.",)),
    "client-metrics list": Line("client-metrics list", ("client-metrics alter listed --metrics a.",)),
    "cluster describe": Line("cluster describe", denied=0),
    "cluster api-versions": Line("cluster api-versions", denied=0),
    "cluster features": Line("cluster features", denied=0),
    "cluster update-features": Line("cluster update-features --feature share.version=1"),
    "cluster handover": Line("cluster handover {folder}/server.properties --voter 9@c:9093={folder}/c", code=1),
    "cluster id": Line("cluster id", denied=0),
    "cluster unregister": Line("cluster unregister --id 9", code=1),
    "cluster unregister-controller": Line("cluster unregister-controller --id 9", code=1),
    "cluster quorum": Line("cluster quorum", denied=1),
    "elect-leaders": Line("elect-leaders --topic orders"),
    "verify-replicas": Line("verify-replicas --topics-include orders"),
    "config explain": Line("config explain log.dirs"),
    "config print": Line("config print"),
    "config validate": Line("config validate"),
    "configs alter": Line("configs alter --topic orders --add-config flush.ms=1000"),
    "configs describe": Line("configs describe --topic orders"),
    "conformance": Line("conformance --api ApiVersions"),
    "consume": Line("consume orders --from-beginning --until-end"),
    "doctor": Line("doctor {folder}/server.properties"),
    "dump-log": Line("dump-log --files {segment}"),
    "explain": Line("explain produce"),
    "groups delete": Line("groups delete left", (f"{READ} left",)),
    "groups delete-offsets": Line("groups delete-offsets partly --topic orders", (f"{READ} partly",)),
    "groups describe": Line("groups describe shop", (f"{READ} shop",)),
    "groups list": Line("groups list", denied=0),
    "groups reset-offsets": Line("groups reset-offsets back --to earliest", (f"{READ} back",)),
    "mirror": Line("mirror --source {other} --topic copied --until-end"),
    "perf consume": Line("perf consume --topic orders --num-records 1"),
    "perf end-to-end": Line("perf end-to-end --topic orders --num-records 1"),
    "perf produce": Line("perf produce --topic orders --num-records 1"),
    "produce": Line("produce --topic orders {folder}/lines"),
    "quotas delete": Line("quotas delete --user bob", ("quotas set --user bob producer_byte_rate=1",)),
    "quotas list": Line("quotas list", ("quotas set --user dan producer_byte_rate=1",)),
    "quotas set": Line("quotas set --user ann producer_byte_rate=1000000"),
    "stop": Line("stop --pid-file {folder}/nobodys", code=1),
    "top": Line("top --once", denied=0),
    "topics alter": Line("topics alter wide --partitions 2", ("topics create wide",)),
    "topics create": Line("topics create made"),
    "topics delete": Line("topics delete gone", ("topics create gone",)),
    "topics describe": Line("topics describe orders"),
    "topics list": Line("topics list", denied=0),
    "reassign cancel": Line("reassign cancel {folder}/plan.json"),
    "reassign execute": Line("reassign execute {folder}/plan.json"),
    "reassign generate": Line("reassign generate --topic orders --broker-list 1"),
    "reassign list": Line("reassign list"),
    "reassign verify": Line("reassign verify {folder}/plan.json"),
    "transactions abort": Line("transactions abort --topic orders --partition 0 --start-offset 0", code=1),
    "transactions describe": Line("transactions describe billing"),
    "transactions find-hanging": Line("transactions find-hanging", denied=0),
    "transactions list": Line("transactions list", denied=0),
    "users create": Line("users create bob --password-file {folder}/password"),
    "users delete": Line("users delete eve", ("users create eve --password-file {folder}/password",)),
    "users list": Line("users list"),
    "verify": Line("verify {data}"),
}
#: Commands without a line above, and where they are tested instead.
ELSEWHERE = {
    **dict.fromkeys(("archive", "restore"), "on Spark: tests/conformance/test_archive.py"),
    **dict.fromkeys(("record", "replay"), "a session is between them: tests/integration/test_record_replay.py"),
    **dict.fromkeys(
        (f"pipeline {verb}" for verb in ("run", "check", "explain", "status", "package", "init")),
        "on Spark: tests/conformance/test_pipeline.py",
    ),
    "client-metrics clients": "a client has to push: tests/integration/test_client_metrics.py",
    **dict.fromkeys(("completion", "man"), "tests/unit/tools/test_completion.py"),
    **dict.fromkeys(("format", "random-uuid"), "tests/unit/tools/data/test_format.py"),
    "kafka-home": "tests/integration/test_kafka_home.py",
    "serve": "tests/integration/test_testing.py",
}
#: Commands that print problems, or work that is under way: they print nothing if there is none.
REPORTS_OF_PROBLEMS = ("config validate", "reassign cancel", "reassign list", "transactions find-hanging")
#: Commands without --json, and why.
WITHOUT_JSON = {
    **dict.fromkeys(("completion", "man", "random-uuid", "kafka-home"), "one text, or one value"),
    "format": "its lines are those of Apache Kafka's tool",
    **dict.fromkeys(
        (f"pipeline {verb}" for verb in ("run", "check", "explain", "package", "init")),
        "it says what it does, or is Spark's own text; figures are those of status",
    ),
    "serve": "--print-json and --log-format json",
}
#: Parts of messages to users without rights.
REFUSALS = ("uthoriz", "not allowed", "does not exist on this broker")
#: Commands that exit with 1 for a bad command line, as those of Apache Kafka.
EXIT_1_AS_KAFKA = ("dump-log", "format", "random-uuid")


def leaves(commands: list[CommandLine]) -> dict[str, CommandLine]:
    """Map the words of a command, or of each of its actions, to its parser."""
    found = {}
    for command in commands:
        for each in command.actions or (command,):
            found[command.name if each is command else f"{command.name} {each.name}"] = each
    return found


LEAVES = leaves(command_lines())


def having(option: str) -> list[str]:
    """Return the commands of LINES that have this option."""
    return sorted(
        name for name, each in LEAVES.items() if name in LINES and any(option in known.names for known in each.options)
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a listener for an anonymous super user, one for users, a topic, and a committed transaction."""
    with Broker(SECURED) as running:
        running.create_topic("orders")
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "transactional.id": "billing"})
        producer.init_transactions(_LIMIT_S)
        producer.begin_transaction()
        for number in range(5):
            producer.produce("orders", f"value {number}")
        producer.commit_transaction(_LIMIT_S)
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[Broker]:
    """The source broker of `mirror`."""
    with Broker() as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        producer.produce("copied", "value")
        assert producer.flush(_LIMIT_S) == 0
        yield running


class Commands:
    """Runs command lines of this file; clients of a broker run in this process, which is quicker."""

    def __init__(self, folder: Path, other: Broker, capture: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capture = capture
        data = LOGS / "v4.3.1-clean-shutdown"
        self._places = {
            "folder": str(folder),
            "other": other.bootstrap_servers,
            "data": str(data),
            "segment": str(data / "plain-0" / "00000000000000000000.log"),
        }
        (folder / "password").write_text("letmein\n")
        (folder / "lines").write_text("one\ntwo\n")
        (folder / "plan.json").write_text('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}')
        (folder / "server.properties").write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={folder}/data\n")

    def __call__(self, line: str, *options: str) -> Done:
        command, *words = [word.format_map(self._places) for word in line.split()]
        if COMMANDS[command].kind != "client":
            done = subprocess.run(
                [sys.executable, "-m", "pybroker", command, *words, *options],
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
            )
            return Done(done.returncode, done.stdout, done.stderr)
        self._capture.readouterr()
        before = signal.getsignal(signal.SIGTERM)
        try:
            code = import_module(COMMANDS[command].module).main([*words, *options])
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.signal(signal.SIGTERM, before)
        return Done(code, *self._capture.readouterr())


@pytest.fixture
def run(tmp_path: Path, other: Broker, capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, other, capfd)


def at(name: str, server: str) -> list[str]:
    """Return the options that name the broker, if the command has them."""
    return ["--bootstrap-server", server] if name in having("--bootstrap-server") else []


def test_each_command_has_a_test() -> None:
    """In LINES or ELSEWHERE. Commands and files that no longer exist are not listed."""
    assert LINES.keys() | ELSEWHERE.keys() == LEAVES.keys()
    assert not LINES.keys() & ELSEWHERE.keys()
    root = Path(__file__).resolve().parents[2]
    assert all((root / reason.rpartition(" ")[2]).exists() for reason in ELSEWHERE.values())


def test_each_command_has_json_or_a_reason() -> None:
    without = {name for name, each in LEAVES.items() if not any("--json" in option.names for option in each.options)}
    assert without == WITHOUT_JSON.keys()


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence about the command, and about each option unless it has a value with a telling name."""
    each = LEAVES[name]
    assert each.about.endswith((".", "?")) or " " in name
    assert len(each.about.split()) >= 2
    silent = [option.names for option in each.options if not option.about and option.value is None]
    assert silent == []
    command, *words = name.split()
    if command == "serve":
        return
    with pytest.raises(SystemExit) as ended:
        import_module(modules()[command]).main([*words, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert shown.startswith(f"usage: pybroker {name}")
    assert all(option.names[-1] in shown for option in each.options)


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - {"serve"}))
def test_unknown_option_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the command."""
    command, *words = name.split()
    with pytest.raises(SystemExit) as ended:
        import_module(modules()[command]).main([*words, "--no-such-option"])
    shown = capsys.readouterr()
    assert ended.value.code == (1 if name in EXIT_1_AS_KAFKA else 2)
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith(f"pybroker {command}")


@pytest.mark.parametrize("name", sorted({*having("--json"), "stop"}))
def test_json_lines_are_objects(run: Commands, broker: Broker, name: str) -> None:
    """Standard error stays empty if it is no terminal."""
    line = LINES[name]
    server = at(name, broker.bootstrap_servers)
    for each in line.before:
        done = run(each, "--bootstrap-server", broker.bootstrap_servers)
        assert (done.code, done.err) == (0, "")
    done = run(line.words, *server, "--json")
    assert done.code == line.code, done.err
    assert all(isinstance(json.loads(row), dict) for row in done.out.splitlines())
    assert done.err.count("\n") == line.code, done.err
    assert bool(done.out) is (line.code == 0) or name in REPORTS_OF_PROBLEMS


@pytest.mark.parametrize("name", having("--bootstrap-server"))
def test_unreachable_broker_is_one_line(run: Commands, name: str) -> None:
    """The line has the address."""
    with socket.socket() as taken:  # bound but not listening, so connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(LINES[name].words, "--bootstrap-server", address, "--timeout", "5")
    assert (done.code, done.out, done.err.count("\n")) == (2 if name == "conformance" else 1, "", 1)
    assert done.err.startswith(f"pybroker {name.partition(' ')[0]}: ")
    assert address in done.err


@pytest.fixture(scope="module")
def without_rights(broker: Broker) -> list[str]:
    """Client options of a user without rights."""
    words = "users create nobody --password-file - --bootstrap-server"
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", *words.split(), broker.bootstrap_servers],
        input="letmein\n",
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    words = ("security.protocol=sasl_plaintext", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=nobody")
    secured = ["--bootstrap-server", broker.listeners["SASL_PLAINTEXT"], "--timeout", "10"]
    return [*secured, *(option for word in (*words, "sasl.password=letmein") for option in ("-X", word))]


@pytest.mark.parametrize("name", having("--property"))
def test_user_without_rights_gets_one_line(run: Commands, without_rights: list[str], name: str) -> None:
    """Commands that show only what the user may see print an empty result."""
    line = LINES[name]
    done = run(line.words, *without_rights, "--json")
    assert (done.code, done.err.count("\n")) == (line.denied, line.denied), done.out + done.err
    assert done.err.startswith(f"pybroker {name.partition(' ')[0]}: " if line.denied else "")
    assert not line.denied or any(words in done.err for words in REFUSALS)
    assert not line.denied or done.out == ""


def test_broker_help_and_unknown_option(tmp_path: Path) -> None:
    for option, code in (("--help", 0), ("--no-such-option", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pybroker", "serve", option],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "120"},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == (1 if code else 0)
