"""The launcher of a Java for short runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pybroker.pipeline.java import find_java
from tests.support.java import KAFKA_VERSION
from tests.support.quick_java import use_quick_java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that prints its arguments."""
    launcher = tmp_path / "a java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text('#!/bin/sh\necho "openjdk version \\"21.0.1\\"" >&2\nprintf "%s\\n" "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(launcher.parents[1]))
    return launcher


def test_options_come_before_those_of_the_caller(java: Path, tmp_path: Path) -> None:
    use_quick_java(tmp_path / "quick")
    quick = find_java()
    assert (quick.home, os.environ["JAVA_HOME"]) == (tmp_path / "quick", str(tmp_path / "quick"))
    done = subprocess.run([quick.executable, "-version", "two words"], capture_output=True, text=True, check=True)
    printed = done.stdout.splitlines()
    assert "-XX:TieredStopAtLevel=1" in printed
    assert printed[-2:] == ["-version", "two words"]


def test_launcher_does_not_call_itself(java: Path, tmp_path: Path) -> None:
    """A process that a test starts has the JAVA_HOME of the test."""
    use_quick_java(tmp_path / "quick")
    written = (tmp_path / "quick" / "bin" / "java").read_text()
    use_quick_java(tmp_path / "quick")
    assert (tmp_path / "quick" / "bin" / "java").read_text() == written
    assert str(java) in written


@pytest.mark.parametrize(
    ("classpath", "archive"),
    [("/a/pyspark/jars/*", "spark.jsa"), (f"/b/kafka-{KAFKA_VERSION}/*", "kafka.jsa"), ("/c", None)],
)
def test_jvm_starts_with_the_archive_of_its_jars(
    java: Path, tmp_path: Path, classpath: str, archive: str | None
) -> None:
    home = tmp_path / "quick"
    use_quick_java(home)
    command = [home / "bin" / "java", "-cp", classpath, "Main"]
    assert "SharedArchiveFile" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout

    for each in ("spark.jsa", "kafka.jsa"):
        (home / each).write_text("classes")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    named = [line for line in printed if "SharedArchiveFile" in line]
    assert named == ([f"-XX:SharedArchiveFile={home / archive}"] if archive else [])
    assert printed[-3:] == ["-cp", classpath, "Main"]


def test_jvm_that_composes_a_command_line_opens_no_archive(java: Path, tmp_path: Path) -> None:
    home = tmp_path / "quick"
    use_quick_java(home)
    (home / "spark.jsa").write_text("classes")
    command = [home / "bin" / "java", "-cp", "/a/pyspark/jars/*", "org.apache.spark.launcher.Main", "SparkSubmit"]
    assert "SharedArchiveFile" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout
