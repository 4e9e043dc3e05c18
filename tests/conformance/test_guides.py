"""The programs and commands in README.md and the guides work: they run, or at least their syntax is checked.

Each page's blocks run in their order against a broker of their own, in a directory of their own. `NOT_RUN` lists the
other blocks by their first words, with the reason; their syntax is checked. Properties are checked, too.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from config.load import load
from config.properties import parse_properties
from pybroker.cli.commands import modules
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.java import compile_java, kafka_jars
from tests.support.ports import free_port
from tests.support.toolchains import require

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for room in ("start", "guides")
        for path in (ROOT / "docs" / room).rglob("*.md")
    ),
]

_INSTALLS = "installs, over the network"
_STARTS = "starts a broker, which the test does with its own port"
_TOOLS = "Apache Kafka's tools: tests/conformance/test_readme.py runs these lines"
#: (page, below docs/guides/ or from the root; first words of a block) -> why it does not run.
NOT_RUN: Mapping[tuple[str, str], str] = {
    ("README.md", "git clone"): _STARTS,
    ("README.md", ".venv/bin/pip install"): _INSTALLS,
    ("docs/start/five-minutes.md", "git clone"): _STARTS,
    ("docs/start/five-minutes.md", ".venv/bin/pip install"): _INSTALLS,
    ("docs/start/installation.md", "git clone"): _STARTS,
    ("docs/start/installation.md", "python3 -m venv"): _INSTALLS,
    ("docs/start/installation.md", "docker build"): "needs docker",
    ("controller.md", "docker compose"): "needs docker",
    ("controller.md", "pybroker serve"): "tests/integration/controlling starts controllers",
    ("handover.md", "cat > /etc/kafka"): "needs root",
    ("handover.md", "kafka-metadata-quorum"): "Apache Kafka's own",
    ("handover.md", "pybroker cluster handover"): "needs stopped nodes: tests/conformance/test_handover.py has them",
    ("systemd.md", "python3 -m venv"): _INSTALLS,
    ("systemd.md", "/opt/pybroker/bin/pybroker"): "needs root and systemd",
    ("systemd.md", "systemctl status"): "needs systemd",
    ("backup.md", "pybroker stop"): "tests/integration/test_backup_guide.py runs these lines",
    ("backup.md", "pybroker verify"): "tests/integration/test_backup_guide.py runs these lines",
    ("cluster.md", "docker compose"): "needs docker",
    ("cluster.md", "pybroker serve"): "tests/integration/test_daemon.py starts and stops a cluster",
    ("cluster.md", "useradd --system kafka"): "needs root and systemd",
    ("cluster.md", "pybroker topics create"): "needs three brokers: tests/conformance/test_cluster_guide.py runs it",
    ("cluster.md", "pybroker topics describe"): "needs three brokers: tests/conformance/test_cluster_guide.py runs it",
    ("cluster.md", "pybroker reassign"): "needs three brokers: tests/conformance/test_cluster_guide.py runs it",
    ("controller.md", "pybroker reassign"): "needs several brokers: tests/conformance/test_cluster_guide.py has them",
    ("clients/librdkafka.md", "echo hello | kcat"): "needs kcat",
    ("clients/java.md", "kafka-topics.sh"): _TOOLS,
    ("spark.md", "pybroker pipeline"): "starts Spark: tests/conformance/test_pipeline.py does",
    ("spark.md", "from pyspark.sql"): "starts Spark: tests/conformance/test_readme.py runs it",
    ("tiered-storage.md", "pybroker topics"): "tests/integration/test_tiered_guide.py runs these lines",
    ("tiered-storage.md", "pybroker configs"): "tests/integration/test_tiered_guide.py runs these lines",
    ("migrate.md", "kafka-server-stop.sh"): "Apache Kafka's own",
    ("migrate.md", "pybroker verify"): "needs directories: tests/unit/tools/data has them",
    ("migrate.md", "pybroker config/server.properties"): _STARTS,
    ("migrate.md", "kill PID"): "Apache Kafka's own",
    ("migrate.md", "pybroker mirror"): "takes two brokers: tests/integration/test_mirror.py has them",
}

#: Languages whose blocks do not run.
_NOT_RUN_LANGUAGES = {"java", "go", "js", "csharp"}


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def reason(self) -> str | None:
        """Return why it does not run."""
        name = self.page.removeprefix("docs/guides/")
        reasons = [why for (page, start), why in NOT_RUN.items() if page == name and self.text.startswith(start)]
        return reasons[0] if reasons else None


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, also those indented in a list."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [
        Block(page, language, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)) for indent, language, code in found
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


class Stage:
    """A directory in which a page's blocks run, with a `pybroker` command that finds the page's broker."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.directory = directory
        programs = directory / "programs"
        programs.mkdir()
        command = programs / "pybroker"
        clients = "|".join(modules("client"))
        command.write_text(
            "#!/bin/sh\n"
            f'case "$1" in {clients}) set -- "$@" --bootstrap-server {bootstrap};; esac\n'
            f'exec {sys.executable} -m pybroker "$@"\n'
        )
        command.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environ = {**os.environ, "PATH": path}

    def run(self, block: Block) -> str:
        """Run a block, each line of which must succeed; return its output."""
        command = [sys.executable, "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
        text = block.text.replace("localhost:9092", self._bootstrap)
        done = subprocess.run(
            [*command, text], cwd=self.directory, env=self._environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{block.page}:\n{block.text}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[tuple[Stage, RunningBroker]]:
    """Start a broker with the shipped configuration, and its data where the pages expect it."""
    broker = OurBroker(tmp_path / "broker")
    where = tmp_path / "page"
    where.mkdir()
    (where / "data").symlink_to(broker.log_dir)
    (where / "config").mkdir()
    shutil.copy(ROOT / "config/server.properties", where / "config")
    yield Stage(where, broker.bootstrap), broker
    broker.stop()


def runnable(page: str) -> list[Block]:
    """Return the blocks of a page that run, in order."""
    return [block for block in blocks_of(page) if block.language in ("sh", "python") and block.reason is None]


#: The page about TLS starts its own broker, from its own lines.
_SECURE = "docs/guides/tls-and-sasl.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != _SECURE and runnable(page)])
def test_the_blocks_of_a_page_run(stage: tuple[Stage, RunningBroker], page: str) -> None:
    """Its blocks run one after the other; programs that read print something."""
    here, broker = stage
    if page.endswith(("troubleshoot.md", "operate.md")):
        prepare(here)
    for block in runnable(page):
        printed = here.run(block)
        assert printed or "print(" not in block.text
    assert broker.is_running


def prepare(here: Stage) -> None:
    """Create what pages expect of a broker that has run for a while: a topic, and a group that has read it."""
    lines = (
        "pybroker topics create orders",
        "echo 'two apples' | pybroker produce --topic orders",
        "pybroker consume orders --group shop --from-beginning --max-messages 1 --idle 30",
    )
    here.run(Block("", "sh", "\n".join(lines)))


def test_the_tls_page_runs(tmp_path: Path) -> None:
    """Certificates, the broker from the page's own properties, a first user, others, ACLs, and a client."""
    port = free_port()
    here = Stage(tmp_path, f"localhost:{port}")
    certificates, served, formatted, admin, users, program, _ = blocks_of(_SECURE)
    here.run(certificates)
    (tmp_path / "secure.properties").write_text(served.text.replace(":9092", f":{port}"))
    (tmp_path / "admin.properties").write_text(admin.text)
    here.run(formatted)
    broker = _Secure(tmp_path, port=port)
    try:
        assert "User:shop" in here.run(users)
        assert "two apples" in here.run(program)
    finally:
        broker.stop()


class _Secure(OurBroker):
    """The broker of the page about TLS: its configuration file exists already."""

    def spawn(self, *, port: int | None = None) -> None:
        with (self.directory / "output.txt").open("ab") as output:
            command = self._command(Path("secure.properties"))
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory
            )

    def _answers(self, timeout_s: float = 5) -> bool:
        context = ssl.create_default_context(cafile=self.directory / "ca.pem")
        try:
            with (
                socket.create_connection((HOST, self.port), timeout=timeout_s) as connection,
                context.wrap_socket(connection, server_hostname="localhost"),
            ):
                return True
        except OSError:
            return False


def test_each_skipped_block_has_a_reason() -> None:
    """A reason without a block is removed; blocks name their language."""
    names = {
        (block.page.removeprefix("docs/guides/"), start)
        for block in BLOCKS
        for _, start in NOT_RUN
        if block.text.startswith(start)
    }

    assert NOT_RUN.keys() - names == set()
    assert {block.language for block in BLOCKS} <= {"sh", "python", "properties", *_NOT_RUN_LANGUAGES}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.reason], ids=lambda block: block.page)
def test_skipped_blocks_are_well_formed(block: Block) -> None:
    """The shell and Python parse it."""
    if block.language == "python":
        ast.parse(block.text)
    else:
        done = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "go"], ids=lambda block: block.page)
def test_go_is_well_formed(block: Block) -> None:
    """gofmt would not change it; its modules would need the network."""
    gofmt = str(Path(require("go")).resolve().parent / "gofmt")
    done = subprocess.run([gofmt], input=block.text, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == (block.text, "")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "js"], ids=lambda block: block.page)
def test_javascript_is_well_formed(block: Block, tmp_path: Path) -> None:
    """Node parses it; its requirements are not installed."""
    (tmp_path / "program.js").write_text(block.text)
    done = subprocess.run([require("node"), "--check", str(tmp_path / "program.js")], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_java_is_compiled(tmp_path: Path) -> None:
    """It compiles against Apache Kafka's clients; test_java_clients.py runs similar programs."""
    sources = []
    for block in BLOCKS:
        if block.language == "java":
            name = re.search(r"public class (\w+)", block.text)
            assert name is not None
            sources.append(tmp_path / f"{name[1]}.java")
            sources[-1].write_text(block.text)

    compile_java(sources, kafka_jars(), tmp_path)

    assert len(list(tmp_path.glob("*.class"))) == len(sources) == 1


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "properties"], ids=lambda block: block.page
)
def test_properties_are_known(block: Block, tmp_path: Path) -> None:
    """The broker's keys exist and have valid values; clients have none of the broker's own keys."""
    entries = {entry.key: entry.value for entry in parse_properties(block.text.encode(), "")}
    if "security.protocol" in entries:
        assert {"security.protocol", "sasl.mechanism"} <= entries.keys()
        return
    (tmp_path / "server.properties").write_text(block.text)

    config = load(str(tmp_path / "server.properties"), overrides={"log.dirs": str(tmp_path)}, environ={}, strict=True)

    assert [line for line in config.warnings if "no effect" in line] == []
