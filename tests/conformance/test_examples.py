"""The programs of examples/ do what they claim, each against an empty broker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.java import compile_java, connect_jars, java_command, kafka_classpath, kafka_jars
from tests.support.ports import free_port
from tests.support.toolchains import go_program, node_program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ORDERS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    broker = OurBroker(tmp_path / "broker")
    yield broker
    broker.stop()


def python(name: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, str(EXAMPLES / "python" / name)]


def java(directory: Path) -> list[str]:
    compile_java([EXAMPLES / "java/Orders.java"], kafka_jars(), directory)
    return java_command("Orders", [], [directory, kafka_classpath()])


#: example -> the command that runs it in an empty folder
BILLING: dict[str, Callable[[Path], Sequence[str]]] = {
    "confluent-kafka": python("confluent_orders.py"),
    "aiokafka": python("aiokafka_orders.py"),
    "java": java,
    "go": lambda _: go_program(EXAMPLES / "go", name="example"),
    "node": lambda _: node_program(EXAMPLES / "node", "orders.js", name="example"),
}


def run(command: Sequence[str], broker: RunningBroker, directory: Path, *, by_argument: bool = True) -> str:
    """Run a command that must succeed; return its output."""
    environ = {**os.environ, "BOOTSTRAP_SERVERS": f"{HOST}:1" if by_argument else broker.bootstrap}
    done = subprocess.run(
        [*command, broker.bootstrap] if by_argument else command,
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BILLING)
def test_orders_become_invoices(broker: RunningBroker, name: str, tmp_path: Path) -> None:
    """Each order once, and committed. A second run, with the broker's address in the environment, continues there."""
    command = BILLING[name](tmp_path)
    rounds = ((1, True), (2, False))[: 1 if name == "java" else 2]  # a JVM takes its time
    with DataClient(HOST, broker.port) as client:
        for runs, by_argument in rounds:
            printed = run(command, broker, tmp_path, by_argument=by_argument)

            told = re.findall(r"^customer-(\d) owes (\d+) cents for order (\d)$", printed, re.MULTILINE)
            assert sorted(told, key=lambda each: each[2]) == [
                (str(number % 3), str(100 * number), str(number)) for number in range(1, ORDERS + 1)
            ]
            invoices = [each for each in client.values("invoices") if each[0]]  # a transaction's marker begins with 0
            assert len(invoices) == runs * ORDERS
        client.find_coordinator("billing")
        assert client.committed("billing", "orders") == [runs * ORDERS]


def test_orders_are_packed(broker: RunningBroker, tmp_path: Path) -> None:
    """kafka-python reads them, and its group commits."""
    printed = run(python("kafka_python_orders.py")(tmp_path), broker, tmp_path)

    assert printed.count("packed order") == ORDERS
    with DataClient(HOST, broker.port) as client:
        assert [json.loads(each)["number"] for each in client.values("orders")] == list(range(1, ORDERS + 1))
        client.find_coordinator("packing")
        assert client.committed("packing", "orders") == [ORDERS]


def test_lines_go_through_connect(broker: RunningBroker, tmp_path: Path) -> None:
    """From one file to the other, with the example's own properties files, except ports."""
    here = tmp_path / "connect"
    shutil.copytree(EXAMPLES / "connect", here)
    jars = connect_jars()
    (here / "libs").mkdir()
    for jar in jars:
        if jar.name.startswith("connect-file-"):
            (here / "libs" / jar.name).symlink_to(jar)
    others = [jar for jar in jars if not jar.name.startswith("connect-file-")]
    worker = here / "worker.properties"
    text = (
        worker.read_text()
        .replace("localhost:9092", broker.bootstrap)
        .replace("localhost:8083", f"{HOST}:{free_port()}")
    )
    worker.write_text(text)
    (here / "orders.txt").write_text("two apples\none pear\n")
    arguments = ["worker.properties", "file-source.properties", "file-sink.properties"]
    command = java_command("org.apache.kafka.connect.cli.ConnectStandalone", arguments, others)
    with (here / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, cwd=here, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        copied = here / "copied.txt"

        def is_copied() -> bool:
            return copied.exists() and copied.read_text() == "two apples\none pear\n"

        def printed() -> str:
            return (here / "output.txt").read_text()[-5000:]

        eventually(lambda: is_copied() or process.poll() is not None, printed, timeout_s=240, interval_s=0.1)
        assert is_copied(), printed()
    finally:
        process.kill()
        process.wait(60)
    with DataClient(HOST, broker.port) as client:
        assert client.values("order-lines") == [b"two apples", b"one pear"]


def test_the_page_lists_each_example() -> None:
    """The page lists each folder, and its tested examples have a test here, or are the pipeline's example."""
    page = (EXAMPLES / "README.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| [")]
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}

    assert {line[3:].split("/")[0].split("]")[0] for line in lines} == folders
    assert {line[3:].split("/")[0] for line in lines if not line.endswith("| yes |")} == {
        "quix-streams",
        "schema-registry",
    }
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (EXAMPLES / link).exists(), link
    for path in EXAMPLES.glob("quix-streams/*.py"):
        compile(path.read_text(), path, "exec")
    json.loads((EXAMPLES / "schema-registry/karapace.config.json").read_text())
