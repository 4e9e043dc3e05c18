"""Programs and tools of README.md and the guides work as on the pages, except the port."""

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

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = (ROOT / "docs/reference/configuration.md").read_text()
JAVA = (ROOT / "docs/guides/clients/java.md").read_text()
#: Name -> page, and the first words of the program on it.
PROGRAMS = {
    "README": ("README.md", "from confluent_kafka import"),
    "kafka-python": ("docs/guides/clients/python.md", "from kafka import KafkaConsumer"),
    "confluent-kafka": ("docs/guides/clients/librdkafka.md", "from confluent_kafka import"),
    "aiokafka": ("docs/guides/clients/python.md", "import asyncio"),
    "spark": ("docs/guides/spark.md", "from pyspark.sql"),
}


def program(name: str) -> str:
    """Return the page's first block with that beginning."""
    page, start = PROGRAMS[name]
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if block.startswith(start))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    declared = re.search(r"`(orders:3;[^`]*)`", CONFIGURATION)
    assert declared is not None
    broker = OurBroker(tmp_path_factory.mktemp("readme"), {"pybroker.topics": declared[1]})
    yield broker
    broker.stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_sent_records(broker: RunningBroker, name: str, tmp_path: Path) -> None:
    """Each client sends a record and reads one; Spark reads the clients' records, or the test's."""
    if name == "spark":
        test_a_program_prints_the_sent_records(broker, "README", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program(name).replace("localhost:9092", broker.bootstrap)],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(find_java().home)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "two apples" in done.stdout


def test_the_console_tools_of_the_page_work(broker: RunningBroker, java: JavaRunner) -> None:
    """Create a topic, write and read it, describe groups."""
    lines = re.findall(r"^(?:echo (\w+) \| )?(kafka-[a-z-]+)\.sh (.*)$", JAVA, re.MULTILINE)
    output = ""
    for stdin, tool, arguments in lines:
        own = shlex.split(arguments.replace("localhost:9092", broker.bootstrap))
        done = java.start(MAIN_CLASSES[tool], *own, stdin=f"{stdin}\n" if stdin else "").wait()
        assert done.exit_code == 0, done
        output += done.stdout
    assert len(lines) == 4
    assert "Created topic clicks." in output
    assert "\nhello\n" in f"\n{output}"
