"""Errors of the command: one line and an exit code before anything is written, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from pybroker.pipeline import checkpoint, cluster, main, session
from pybroker.pipeline.cluster import ClusterError
from pybroker.pipeline.jars import JarsUnavailableError
from pybroker.pipeline.java import JavaNotFoundError
from tests.support.specifications import document, written


class FakeCluster:
    """A broker with one topic."""

    def __init__(self, kafka: object) -> None:
        """Connects to nothing."""

    def partitions(self) -> dict[str, list[int]]:
        return {"orders": [0]}


class UnresponsiveCluster(FakeCluster):
    """A broker that does not answer."""

    def partitions(self) -> dict[str, list[int]]:
        raise ClusterError("the broker 127.0.0.1:1: no answer")


def raises(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    return fail


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that answers, present jars, and a Spark that must not start."""
    monkeypatch.setattr(cluster, "Cluster", FakeCluster)
    monkeypatch.setattr(session, "all_jars", lambda pipeline: [])
    monkeypatch.setattr(session, "start_session", raises(AssertionError("Spark was started")))


def specification(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    stream = {"from": "s", "sink": {"format": "parquet", "path": str(tmp_path / "lake")}}
    usual = {"sources": {"s": {"topics": ["orders"]}}, "streams": {"q": stream}}
    return document(checkpoint_root=str(tmp_path / "state"), **{**usual, **changes})


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str, **changes: Any) -> tuple[int, str]:
    """Run the specification; return exit code and error line, and assert that no other file exists."""
    before = sorted(tmp_path.rglob("*"))
    spec = written(tmp_path, specification(tmp_path, **changes))
    code = main.main(["run", str(spec), *options])
    assert sorted({*tmp_path.rglob("*")} - {spec}) == [each for each in before if each != spec]
    [line] = capsys.readouterr().err.splitlines()
    return code, line.removeprefix("pybroker pipeline: ").replace(f"{spec}: ", "FILE: ")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sorces": {}}, "FILE: sorces: unknown key; did you mean sources?"),
        ({"sources": {"s": {"topics": "orders"}}}, "FILE: sources.s.topics: 'orders' is not a list"),
        (
            {"sources": {"s": {"topics": ["ordres"]}}},
            "FILE: sources.s.topics[0]: the broker has no topic 'ordres'; did you mean orders?",
        ),
    ],
)
def test_bad_specification_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], line: str
) -> None:
    assert refused(tmp_path, capsys, **changes) == (2, line)


def test_unwritable_directory_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A read-only file system and a checkpoint of another query are refused like missing permissions."""
    sink = {"format": "parquet", "path": "/proc/nothing/lake"}
    code, line = refused(tmp_path, capsys, streams={"q": {"from": "s", "sink": sink}})
    assert (code, line.partition("written to")[0]) == (2, "FILE: streams.q.sink.path: /proc cannot be ")

    (tmp_path / "state" / "q").mkdir(parents=True)
    (tmp_path / "state" / "q" / "pybroker.json").write_text('{"query": "other"}')
    code, line = refused(tmp_path, capsys)
    assert code == 2
    assert line.startswith(f"FILE: streams.q: the checkpoint {tmp_path}/state/q is of another specification: query was")


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("all_jars", JarsUnavailableError("cannot bring org.x:y:1: Maven: no network; Ivy: no network")),
        ("start_session", JavaNotFoundError("Java 17 or newer is needed and none was found")),
        ("start_session", PySparkRuntimeError("Java gateway process exited before sending its port number.")),
    ],
)
def test_missing_requirements_are_exit_code_1(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    error: Exception,
) -> None:
    """Jars, Java, and a Spark that does not start."""
    monkeypatch.setattr(session, what, raises(error))

    assert refused(tmp_path, capsys) == (1, str(error))


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "")])
def test_dead_spark_process_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It cannot be stopped, and Py4J logs nothing about it."""

    class DeadProcess:
        def __getattr__(self, name: str) -> None:
            raise error

    def start(*_: object) -> DeadProcess:
        session.silence_sql_errors()
        return DeadProcess()

    monkeypatch.setattr(session, "start_session", start)
    code, line = refused(tmp_path, capsys)
    assert code == 1
    assert line.startswith("Spark: its process has ended: was it killed")

    logged = logging.LogRecord("root", logging.ERROR, "py4j", 1, "Exception while sending command.", (), None)
    assert not logging.getLogger().filter(logged)


def test_unresponsive_broker_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "Cluster", UnresponsiveCluster)

    assert refused(tmp_path, capsys) == (1, "FILE: kafka.bootstrap: the broker 127.0.0.1:1: no answer")


def test_unreadable_checkpoint_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file's name and the system's error."""
    where = f"{tmp_path}/state/q/offsets"
    monkeypatch.setattr(checkpoint, "check", raises(PermissionError(13, "Permission denied", where)))

    assert refused(tmp_path, capsys) == (1, f"{where}: Permission denied")


def test_unwritable_metrics_are_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before Spark starts."""
    code, line = refused(tmp_path, capsys, "--metrics", f"{tmp_path}/none/metrics.prom")

    assert (code, line) == (1, f"--metrics {tmp_path}/none/metrics.prom: No such file or directory")
