"""The README's lines do what they say, but for the port: clients, console tools, Spark, and declared topics."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.pipeline.java import find_java
from tests.support.brokers import OurBroker, RunningBroker
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
NAMES = ["kafka-python", "confluent-kafka", "aiokafka", "spark"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    declared = re.search(r"`(orders:3;[^`]*)`", README)
    assert declared is not None
    broker = OurBroker(tmp_path_factory.mktemp("readme"), {"pybroker.topics": declared[1]})
    yield broker
    broker.stop()


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_program_prints_what_was_sent(broker: RunningBroker, number: int, tmp_path: Path) -> None:
    """Each client sends a record and reads one; Spark reads what they have sent, or what was sent here."""
    if NAMES[number] == "spark":
        test_program_prints_what_was_sent(broker, 0, tmp_path)
    assert len(PROGRAMS) == len(NAMES)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[number].replace("localhost:9092", broker.bootstrap)],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(find_java().home)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "two apples" in done.stdout


def test_console_tools_do_what_the_lines_say(broker: RunningBroker, java: JavaRunner) -> None:
    """A topic is made, written to and read; groups are described."""
    lines = re.findall(r"^(?:echo (\w+) \| )?(kafka-[a-z-]+)\.sh (.*)$", README, re.MULTILINE)
    output = ""
    for stdin, tool, arguments in lines:
        own = shlex.split(arguments.replace("localhost:9092", broker.bootstrap))
        done = java.start(MAIN_CLASSES[tool], *own, stdin=f"{stdin}\n" if stdin else "").wait()
        assert done.exit_code == 0, done
        output += done.stdout
    assert len(lines) == 4
    assert "Created topic clicks." in output
    assert "\nhello\n" in f"\n{output}"
