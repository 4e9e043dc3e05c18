"""`pybroker serve --brokers`: a cluster for programs in any language."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.eventually import eventually


class Served:
    """A served cluster. `brokers` has a line for each."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pybroker", "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.brokers: list[dict[str, Any]] = []
        self._number = 0

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the cluster has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def wait_for(self, brokers: int) -> None:
        self.brokers = [self.read() for _ in range(brokers)]

    def ask(self, command: str, **arguments: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self._number += 1
        self.process.stdin.write(json.dumps({"id": self._number, "command": command, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        assert answer.pop("id") == self._number
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def serve() -> Iterator[Any]:
    started: list[Served] = []

    def start(*arguments: str, brokers: int) -> Served:
        started.append(Served("--brokers", str(brokers), *arguments))
        started[0].wait_for(brokers)
        return started[0]

    yield start
    for each in started:
        each.kill()


def test_commands_of_another_language(serve: Any) -> None:
    """Nodes are ended and started, leaders found, and a broker's own commands reach it."""
    served: Served = serve("--control", "--racks", "a,b", "--override", "num.partitions=4", brokers=3)
    assert [(each["node_id"], each["rack"]) for each in served.brokers] == [(0, "a"), (1, "b"), (2, "a")]
    assert served.ask("create_topic", name="orders") == {"result": None}
    leader = served.ask("leader_of", topic="orders")["result"]
    assert served.ask("kill", node=leader) == {"result": None}
    other = served.ask("leader_of", topic="orders")["result"]
    assert other not in (leader, None)
    assert served.ask("start", node=leader) == {"result": None}
    assert served.ask("wait_until_in_sync", topic="orders") == {"result": None}
    assert served.ask("move_leader", topic="orders", to=leader) == {"result": leader}
    assert served.ask("suspend", node="controller") == {"result": None}
    assert served.ask("resume", node="controller") == {"result": None}
    assert served.ask("cut_off", node=leader, clients=False) == {"result": None}
    other = served.ask("leader_of", topic="orders")["result"]
    assert other != leader
    assert served.ask("cut_link", one=leader, other="controller") == {"result": None}
    assert served.ask("reconnect", node=leader) == {"result": None}
    assert served.ask("wait_until_in_sync", topic="orders") == {"result": None}
    assert served.ask("move_time_on", node="controller", milliseconds=0)["result"] > 0
    assert served.ask("roll", node=other, topic="orders") == {"result": {"orders-0": 0}}
    assert served.ask("fail_next", node=0, api="Fetch", error="NONE")["error"].startswith("'NONE' is not an error")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, None])
def test_all_processes_end(serve: Any, ending: signal.Signals | None) -> None:
    """By a signal, or with the program that started the cluster. The data is removed."""
    served: Served = serve("--until-stdin-ends", brokers=2)
    pids = [each["pid"] for each in served.brokers]
    if ending is None:
        assert served.process.stdin is not None
        served.process.stdin.close()
    else:
        served.process.send_signal(ending)
    assert served.process.wait(60) == 0
    eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in pids))
    assert not any(Path(each["data_directory"]).exists() for each in served.brokers)


def test_a_directory_is_kept(serve: Any, tmp_path: Path) -> None:
    """The next cluster has its topics."""
    served: Served = serve("--directory", str(tmp_path / "c"), "--control", brokers=2)
    assert served.ask("create_topic", name="kept") == {"result": None}
    served.process.terminate()
    assert served.process.wait(60) == 0
    again = Served("--brokers", "2", "--directory", str(tmp_path / "c"))
    try:
        again.wait_for(2)
        admin = AdminClient({"bootstrap.servers": again.brokers[0]["bootstrap_servers"]})
        assert "kept" in admin.list_topics(timeout=60).topics
    finally:
        again.process.terminate()
        assert again.process.wait(60) == 0
        again.kill()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--brokers", "0"], "'0' is not an integer of at least 1"),
        (["--brokers=3", "--override", "node.id=4"], "node.id: with --brokers each node has its own"),
        (["--brokers", "3", "server.properties"], "unrecognized arguments: server.properties"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], reason: str) -> None:
    command = [sys.executable, "-m", "pybroker", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert reason in done.stderr


def test_a_cluster_that_cannot_start_says_why() -> None:
    command = [sys.executable, "-m", "pybroker", "serve", "--brokers", "1", "--override", "num.io.threads=none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert "num.io.threads" in done.stderr
    assert "Traceback" not in done.stderr
