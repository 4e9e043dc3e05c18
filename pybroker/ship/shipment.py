"""Send lines to a topic: follow logs until a stop, or send files and standard input once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pybroker.ship.follower import Follower
from pybroker.ship.line_reader import BadLine
from pybroker.ship.lines import Line, LineSplitter
from pybroker.ship.log_file import LogFile
from pybroker.ship.positions import Position, PositionFile
from pybroker.ship.progress import Progress
from pybroker.ship.sender import DeliveryError, Report, Sender, Target

_POLL_S = 0.2
#: How long an interrupted command waits for pending acknowledgements.
_LAST_S = 2.0
_POSITION_EVERY_S = 1.0
_FLUSH_S = 10.0
_LONGEST_PAUSE_S = 30
_CHUNK_BYTES = 256 * 1024


class Stop:
    """A request to stop. A signal handler may set it, because it takes no lock."""

    is_requested = False

    def request(self, *_: object) -> None:
        self.is_requested = True

    def wait(self, seconds: float) -> None:
        """Wait `seconds`, or until a stop is requested."""
        until = time.monotonic() + seconds
        while not self.is_requested and time.monotonic() < until:
            time.sleep(min(_POLL_S, seconds))


def follow(logs: Sequence[Path], target: Target, positions: PositionFile, stop: Stop, report: Report) -> None:
    """Send new lines of the logs until a stop is requested.

    When the producer fails for good, a new one resumes at the positions, as a restart would.
    Errors: OSError when an existing log cannot be read at the start.
    """
    pause_s, one_by_one = 1, False
    while not stop.is_requested:
        before = dict(positions.positions)
        shipment = _Shipment(Sender(target, report, one_by_one=one_by_one), positions, report)
        try:
            shipment.open(logs, target.max_line_bytes)
            shipment.run(stop)
        except DeliveryError as failed:
            one_by_one = one_by_one or failed.is_size
            pause_s = 1 if positions.positions != before else min(2 * pause_s, _LONGEST_PAUSE_S)
            report(f"{failed}: trying again in {pause_s} s")
            stop.wait(pause_s)
        finally:
            shipment.close()


def begin(logs: Sequence[Path], positions: PositionFile, max_line_bytes: int, *, from_beginning: bool) -> None:
    """Write the start of logs that have no position yet, so that a kill loses no line from now on. Errors: OSError."""
    new: dict[str, Position | None] = {}
    others: dict[str, list[Position]] = {}
    for log in logs:
        if str(log) not in positions.positions:
            follower = Follower(log, max_line_bytes)
            new[str(log)] = follower.start(from_beginning=from_beginning)
            others[str(log)] = follower.others
            follower.close()
    if new:
        positions.begin(new, others)


class _Shipment:
    """Followed logs and one producer."""

    def __init__(self, sender: Sender, positions: PositionFile, report: Report) -> None:
        self._sender = sender
        self._positions = positions
        self._report = report
        self._logs: dict[Follower, Progress] = {}
        self._written_s = time.monotonic()
        self._cannot_write = ""

    def open(self, logs: Sequence[Path], max_line_bytes: int) -> None:
        """Resume at the positions; a log that is named twice is sent once. Errors: OSError."""
        for log in dict.fromkeys(logs):
            position = self._positions.positions[str(log)]
            follower = Follower(log, max_line_bytes, self._report)
            self._logs[follower] = Progress(position)
            others = self._positions.others.get(str(log), ())
            follower.resume(position, self._positions.since_ns[str(log)], others)

    def run(self, stop: Stop) -> None:
        """Send until a stop is requested. Errors: DeliveryError."""
        while not stop.is_requested:
            sent = 0
            for follower, progress in self._logs.items():
                follower.watch()
                for file, line in follower.read():
                    if not self._send(follower, progress, file, line, stop):
                        break
                    sent += 1
            self._turn(0 if sent else _POLL_S)
        left = self._sender.flush(_FLUSH_S)
        if left:
            self._report(f"{_lines(left)} not acknowledged yet: the next start sends them again")

    def close(self) -> None:
        """Write the positions, and drop all lines that are not acknowledged."""
        self._write_positions()
        self._sender.abandon()
        for follower in self._logs:
            follower.close()

    def _send(self, follower: Follower, progress: Progress, file: LogFile, line: Line, stop: Stop) -> bool:
        """Hand a line to the producer when it has room; return False when a stop is requested before."""
        sent = progress.sending(file, line.start, line.end)
        while not self._sender.offer(follower.path, line, partial(progress.acknowledged, sent)):
            self._turn(_POLL_S)
            for each in self._logs:  # however long this takes, files that are rotated in the meantime stay open
                each.watch()
            if stop.is_requested:
                progress.forget_last(sent)
                return False
        return True

    def _turn(self, seconds: float) -> None:
        self._sender.wait(seconds)
        if time.monotonic() >= self._written_s + _POSITION_EVERY_S:
            self._write_positions()
        if self._sender.failure is not None:
            raise self._sender.failure

    def _write_positions(self) -> None:
        reached = {str(follower.path): progress.position for follower, progress in self._logs.items()}
        others = {str(follower.path): follower.others for follower in self._logs}
        self._written_s = time.monotonic()
        if all(self._positions.positions.get(path) == position for path, position in reached.items()) and all(
            self._positions.others.get(path, []) == files for path, files in others.items()
        ):
            return
        try:
            self._positions.write(reached, others)
            self._cannot_write = ""
        except OSError as error:  # the old positions stay valid: a restart sends more lines again
            if self._cannot_write != str(error):
                self._report(f"{self._positions.path}: {error.strerror}: positions are not written")
            self._cannot_write = str(error)


def send_once(inputs: Mapping[Path, int], target: Target, timeout_s: float, report: Report) -> int:
    """Send all lines of open files or pipes; return how many, once all are acknowledged.

    Errors: DeliveryError, after which some lines may be in the topic; OSError; KeyboardInterrupt with their number.
    """
    return _OneTime(Sender(target, report, timeout_ms=max(1, round(timeout_s * 1000))), target).send_all(inputs)


class _OneTime:
    """Inputs that are sent once, with the numbers of lines sent and acknowledged so far."""

    def __init__(self, sender: Sender, target: Target) -> None:
        self._sender = sender
        self._target = target
        self._sent = 0
        self._acknowledged = 0

    def send_all(self, inputs: Mapping[Path, int]) -> int:
        """Send all lines; return their number once all are acknowledged. Errors: as `send_once`."""
        try:
            for path, fd in inputs.items():
                self._send_input(path, fd)
            self._finish()
        except KeyboardInterrupt:
            self._sender.flush(_LAST_S)
            others = "" if self._acknowledged == self._sent else ", not the others"
            raise KeyboardInterrupt(f"{_lines(self._acknowledged)} acknowledged{others}") from None
        self._check()
        if self._sender.left_out:
            raise DeliveryError(f"{self._target.topic}: {_lines(self._sender.left_out)} left out")
        return self._sent

    def _send_input(self, path: Path, fd: int) -> None:
        lines = LineSplitter(self._target.max_line_bytes)
        while data := os.read(fd, _CHUNK_BYTES):
            for line in lines.feed(data):
                self._send(path, line)
            self._sender.wait(0)
            self._check()
        if (rest := lines.rest()) is not None:
            self._send(path, rest)

    def _send(self, path: Path, line: Line) -> None:
        """Hand a line to the producer when it has room."""
        try:
            while not self._sender.offer(path, line, self._on_settled):
                self._sender.wait(_POLL_S)
                self._check()
        except BadLine as error:
            self._finish()
            raise self._incomplete(f"{path}: the line at byte {line.start}: {error}") from None
        self._sent += 1

    def _on_settled(self) -> None:
        self._acknowledged += 1

    def _finish(self) -> None:
        """Wait until all sent lines are acknowledged."""
        while self._sender.flush(_POLL_S):
            self._check()

    def _check(self) -> None:
        if self._sender.failure is not None:
            self._sender.abandon()
            raise self._incomplete(str(self._sender.failure))

    def _incomplete(self, problem: str) -> DeliveryError:
        return DeliveryError(f"{problem}: {_lines(self._acknowledged)} acknowledged, not the others")


def _lines(count: int) -> str:
    return "1 line is" if count == 1 else f"{count} lines are"
