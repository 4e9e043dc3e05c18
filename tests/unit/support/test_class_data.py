"""The Java that writes an archive of its classes at its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.class_data import java_that_archives


@pytest.mark.parametrize(
    ("words", "archives"),
    [
        (["-cp", "jars/*", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], True),
        (["-cp", "jars/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"], False),
        (["kafka.Kafka", "server.properties"], True),
        (["kafka.tools.StorageTool", "format"], False),
    ],
)
def test_only_drivers_and_brokers_archive(
    words: list[str], archives: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text('#!/bin/sh\necho "openjdk version \\"21.0.1\\"" >&2\nprintf "%s\\n" "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with java_that_archives(tmp_path / "classes.jsa"):
        command = [Path(os.environ["JAVA_HOME"], "bin", "java"), *words]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (f"-XX:ArchiveClassesAtExit={tmp_path}/classes.jsa" in printed) == archives
    assert printed[-len(words) :] == words
    assert os.environ["JAVA_HOME"] == str(tmp_path)
