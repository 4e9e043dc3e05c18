"""The benchmark's load generators on a real socket: those in Go and in Python do the same."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.comparison import generator
from bench.comparison.plan import Client, Fetching, Plan
from tests.support.toolchains import require

ROOT = Path(__file__).parents[2]
PRODUCER = Client("producers", b"\0\0\0\4sent", errors_at=(4,), record_bytes=10)
FETCHING = Fetching(offset_at=4, records_at=6, batch_bytes=5, batch_records=2)
CONSUMER = Client("consumers", bytes([0, 0, 0, 8]) + bytes(8), errors_at=(4,), fetching=FETCHING)


class Peer:
    """Answers each frame with `answer(frame)`, and keeps all frames that it received."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.frames: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as received:
            while prefix := received.read(4):
                frame = received.read(int.from_bytes(prefix, "big"))
                self.frames.append(frame)
                answer = self._answer(frame)
                connection.sendall(len(answer).to_bytes(4, "big") + answer)


def good(frame: bytes) -> bytes:
    """The response to a producer: a correlation id, no error."""
    return b"\0\0\0\7\0\0"


def records(frame: bytes) -> bytes:
    """The response to a consumer: two and a half batches from the requested offset up to offset 6."""
    size = 12 if int.from_bytes(frame, "big") < 6 else 0
    return b"\0\0\0\7\0\0" + size.to_bytes(4, "big") + bytes(size)


@pytest.fixture
def peers() -> Iterator[Callable[[Callable[[bytes], bytes]], Peer]]:
    made: list[Peer] = []

    def make(answer: Callable[[bytes], bytes]) -> Peer:
        made.append(Peer(answer))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


@pytest.fixture(params=["Go", "Python"])
def command(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "Python":
        return [sys.executable, "-m", "bench.comparison.sender"]
    require("go")
    assert generator.language() == "Go", "this Go does not compile the load generator"
    return list(generator.command())


def run(command: list[str], peer: Peer, folder: Path, clients: list[Client], seconds: float = 60) -> Any:
    plan = Plan(peer.address, seconds, clients).write(folder)
    done = subprocess.run([*command, str(plan)], input="go\n", capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return done.stderr
    ready, outcome = done.stdout.splitlines()
    assert ready == "ready"
    return json.loads(outcome)


def test_producer_ends_after_its_bytes(command: list[str], peers: Any, tmp_path: Path) -> None:
    """With two requests in flight, responses still arrive after that."""
    peer = peers(good)

    found = run(command, peer, tmp_path, [replace(PRODUCER, in_flight=2, limit_bytes=100)])["producers"]

    assert found["requests"] == len(peer.frames) == 11
    assert found["bytes"] == 110
    assert set(peer.frames) == {b"sent"}
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"] < found["seconds"] * 1000


def test_consumer_restarts_at_the_end_of_the_log(command: list[str], peers: Any, tmp_path: Path) -> None:
    """A batch that is cut off is fetched again."""
    peer = peers(records)

    found = run(command, peer, tmp_path, [replace(CONSUMER, limit_bytes=36)])["consumers"]

    assert [int.from_bytes(frame, "big") for frame in peer.frames] == [0, 4, 8, 0]
    assert (found["requests"], found["bytes"]) == (4, 36)


def test_pair_is_timed_end_to_end(command: list[str], peers: Any, tmp_path: Path) -> None:
    """Each batch that is received was sent, in order. The consumer's response waits for them."""
    produced = threading.Event()

    def answer(frame: bytes) -> bytes:
        if frame == b"sent":
            produced.set()
            return good(frame)
        assert produced.wait(60)
        return b"\0\0\0\7\0\0" + (5).to_bytes(4, "big") + bytes(5)

    producer = replace(PRODUCER, per_second=20, limit_bytes=10, pair="one")
    consumer = replace(CONSUMER, limit_bytes=5, pair="one")
    found = run(command, peers(answer), tmp_path, [producer, consumer])

    assert found["producers"]["requests"] == found["consumers"]["requests"] == 1
    assert 0 < found["consumers"]["max_ms"] < found["consumers"]["seconds"] * 1000


def test_paced_client_keeps_its_rate(command: list[str], peers: Any, tmp_path: Path) -> None:
    """One request each 50 ms until the time is over; fewer only if the machine stalls."""
    found = run(command, peers(good), tmp_path, [replace(PRODUCER, per_second=20)], seconds=2)["producers"]

    assert 1 <= found["requests"] <= 40
    assert found["seconds"] >= 1.9


def test_error_ends_the_run(command: list[str], peers: Any, tmp_path: Path) -> None:
    """Figures of rejected requests would be meaningless."""
    printed = run(command, peers(lambda frame: b"\0\0\0\7\0\x57"), tmp_path, [PRODUCER])

    assert "answered a client of" in printed
    assert "error 87" in printed
