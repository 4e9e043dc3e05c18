"""The table of Kafka's constants, which unit tests compare with ours, against the jars of Apache Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from protocol import kafka_release
from tests.support.java import KAFKA_VERSION, compile_java, java_command, kafka_classpath, kafka_jars
from tests.support.kafka_constants import FILE, PACKAGE, kafka_constants

SOURCE = Path(__file__).with_name("java") / "Constants.java"


@pytest.mark.skipif(KAFKA_VERSION != kafka_release.KAFKA_VERSION, reason="the table is of the newest release")
def test_table_of_constants_is_that_of_the_jars(tmp_path: Path) -> None:
    """It has all constants of its classes."""
    compile_java([SOURCE], kafka_jars(), tmp_path)
    classes = sorted({PACKAGE + class_name for class_name, _ in kafka_constants()})
    command = java_command("Constants", classes, [tmp_path, kafka_classpath()])

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.stdout == FILE.read_text(encoding="utf-8"), done.stderr
