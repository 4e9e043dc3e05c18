"""`pybroker produce --follow` while a log is rotated, and broker and follower are killed: every line is in the topic.

Each line is there at least once. In the order of their first occurrences the lines are as they were written.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.written_logs import WrittenLog

SHARE = scaled(1500)  # lines between two rotations
LINES = 8 * SHARE
TOPIC = "access"


class Writer(threading.Thread):
    """Numbered lines, some of them in two pieces. Rotates the log after each share of them; old files stay."""

    def __init__(self, log: WrittenLog, rotation: str) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.rotate = log.rename if rotation == "rename" else log.copy_and_truncate
        self.written = 0

    def run(self) -> None:
        dice = random.Random(7)
        while self.written < LINES:
            count = min(50, LINES - self.written)
            lines = (f"{self.written + number} {'x' * dice.randrange(200)}\n" for number in range(count))
            text = "".join(lines)
            middle = dice.randrange(len(text))
            self.log.write(text[:middle])
            time.sleep(dice.uniform(0, 0.01))
            self.log.write(text[middle:])
            self.written += count
            if self.written % SHARE == 0:
                self.rotate(self.written // SHARE)


class Command:
    """`pybroker produce --follow` as a process."""

    def __init__(self, log: WrittenLog, bootstrap: str, folder: Path) -> None:
        self.output = folder / "produce.txt"
        self.position = folder / "position"
        options = ["--follow", str(log.path), "--topic", TOPIC, "--bootstrap-server", bootstrap, "--from-beginning"]
        self._command = [sys.executable, "-m", "pybroker", "produce", *options, "--position", str(self.position)]
        self.start()

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def wait_until_all_is_acknowledged(self, last: Path) -> None:
        """Wait until the position is the end of a file. A command that has sent the lines again is behind the topic."""

        def offset() -> int:
            [position] = json.loads(self.position.read_text())["files"].values()
            return int(position["offset"])

        end = last.stat().st_size
        eventually(lambda: offset() == end, lambda: f"position {end}, not {offset()}", timeout_s=120)

    def wait_until_it_follows(self) -> None:
        eventually(lambda: "from byte" in self.output.read_text())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def numbers(broker: OurBroker) -> list[int]:
    """Return the numbers of the lines in the topic."""
    with DataClient(HOST, broker.port) as client:
        return [int(value.split()[0]) for value in client.values(TOPIC)]


def wait_for(broker: OurBroker, count: int) -> None:
    eventually(lambda: len(set(numbers(broker))) >= count, "lines do not arrive", timeout_s=120, interval_s=0.2)


@pytest.mark.parametrize("rotation", ["rename", "copytruncate"])
def test_every_line_is_in_the_topic_through_kills_and_rotations(
    broker: OurBroker, tmp_path: Path, rotation: str
) -> None:
    """The broker is killed twice and is away for some rotations; the follower is killed once."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(TOPIC)
    log = WrittenLog(tmp_path)
    log.path.touch()
    command = Command(log, broker.bootstrap, tmp_path)
    writer = Writer(log, rotation)
    try:
        command.wait_until_it_follows()
        writer.start()
        wait_for(broker, SHARE)
        broker.kill()
        away = writer.written
        eventually(lambda: writer.written >= min(LINES, away + 2 * SHARE), timeout_s=120)
        broker.start()
        wait_for(broker, 3 * SHARE)
        command.kill()
        command.start()
        broker.kill()
        broker.start()
        writer.join(120)
        wait_for(broker, LINES)
        command.wait_until_all_is_acknowledged(log.rotated(LINES // SHARE))
        assert command.stop() == 0
    finally:
        command.kill()

    found = numbers(broker)
    assert list(dict.fromkeys(found)) == list(range(LINES))
    output = command.output.read_text()
    assert f"no broker answers at {broker.bootstrap}: waiting" in output
    assert "Traceback" not in output

    command.start()  # all lines are acknowledged, and the position file has that
    log.write(f"{LINES} \n")
    wait_for(broker, LINES + 1)
    assert command.stop() == 0
    assert numbers(broker)[len(found) :] == [LINES]
