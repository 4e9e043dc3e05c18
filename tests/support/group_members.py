"""Members of a consumer group, each a process (tests/conformance/group_member.py), and a producer beside them.

`Members.wait_until` is the way to wait: it also watches the producer and the processes, and its failure shows the
output of each of them, the group and the broker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.list_groups import LIST_GROUPS
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import WireClient

ROOT = Path(__file__).resolve().parents[2]
#: longer than one recovery: a request's time-out of 30 s, and a session's after it
DEADLINE_S = 120
_LINES_TOLD = 30


class Member:
    """A member in a process of its own, and its output so far."""

    def __init__(self, library: str, bootstrap: str, group: tuple[str, str], directory: Path, client_id: str) -> None:
        """Start the member; `group` is its topic and its group id."""
        self.library = library
        self.client_id = client_id
        path = directory / f"{library}-{time.monotonic_ns()}"
        self._output, self._errors, self._log = (path.with_suffix(end) for end in (".jsonl", ".err", ".log"))
        self._events: list[dict[str, object]] = []
        self._bytes_read = 0
        self._ended = False
        command = [sys.executable, "-m", "tests.conformance.group_member", library, bootstrap, *group]
        environment = {**os.environ, "GROUP_MEMBER_CLIENT_ID": client_id, "GROUP_MEMBER_LOG": str(self._log)}
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=errors, env=environment)

    @property
    def events(self) -> list[dict[str, object]]:
        """Return the whole lines that it printed: a killed process may leave half of one."""
        # reads only new output: members of a large group print a lot, and are asked often
        with self._output.open("rb") as output:
            output.seek(self._bytes_read)
            for line in output:
                if line.endswith(b"\n"):
                    self._events.append(json.loads(line))
                    self._bytes_read += len(line)
        return self._events

    @property
    def batches(self) -> dict[int, list[str]]:
        """Return the values that it read, by batch."""
        return {int(str(event["batch"])): list(map(str, event["read"])) for event in self.events if "read" in event}  # type: ignore[call-overload]

    @property
    def committed(self) -> set[int]:
        """Return the batches whose commit was confirmed."""
        return {int(str(event["committed"])) for event in self.events if "committed" in event}

    @property
    def has_died(self) -> bool:
        """Return whether the process ended although no test stopped it."""
        return not self._ended and self._process.poll() is not None

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        self._ended = True
        self._process.send_signal(how)
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            story = self.story()
            self._process.kill()
            raise AssertionError(f"it does not end on {how.name}\n{story}") from None

    def story(self) -> str:
        """Return for people whether it runs, and the last lines of its output."""
        code = self._process.poll()
        state = "runs" if code is None else f"has ended with {code}"
        parts = [f"{self.library} {self.client_id!r}, process {self._process.pid}, {state}"]
        for path in (self._output, self._errors, self._log):
            parts.append(f"{path.name}:\n{_tail(path.read_text(errors='replace') if path.exists() else '')}")
        return "\n".join(parts)


class Load:
    """A producer of numbered records until `stop`; `sent` are the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent: set[str] = set()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._send()
        except BaseException as error:  # raised again by `check`
            self._error = error

    def _send(self) -> None:
        number = 0
        while not self._ending.wait(0.02):
            for _ in range(5):
                self._producer.produce(self._topic, str(number), str(number), on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
        left = self._producer.flush(DEADLINE_S)
        assert left == 0, f"{left} records are not acknowledged"

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.sent.add(message.value().decode())  # type: ignore[attr-defined]

    def check(self) -> None:
        """Raise the error that ended the producer early, if any."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop, and wait until all records are acknowledged. Raises as `check`."""
        self._ending.set()
        self._thread.join()
        self.check()


class Members:
    """All members that a group has had, and the records that they read."""

    def __init__(self, broker: RunningBroker, load: Load, topic: str, group_id: str, directory: Path) -> None:
        self._broker = broker
        self._load = load
        self._group = topic, group_id
        self._directory = directory
        self._all: list[Member] = []

    def start(self, library: str, client_id: str = "member") -> Member:
        """Start a new member, which may not have joined yet."""
        member = Member(library, self._broker.bootstrap, self._group, self._directory, client_id)
        self._all.append(member)
        return member

    def join(self, library: str) -> Member:
        """Start a new member, and wait until it has read and committed records."""
        member = self.start(library)
        self.wait_until(lambda: bool(member.committed), f"{library} commits nothing")
        return member

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait for a condition; `what` describes the state before it holds."""

        def holds() -> bool:
            if condition():
                return True
            self._load.check()
            died = [member.client_id for member in self._all if member.has_died]
            assert not died, f"{died} died\n{self.story()}"
            return False

        eventually(holds, lambda: f"{what}\n{self.story()}", timeout_s=timeout_s, interval_s=0.05)

    def read(self) -> Counter[str]:
        """Return how often each value was read."""
        return Counter(value for member in self._all for batch in member.batches.values() for value in batch)

    def finish(self) -> None:
        """Wait until all sent records are read."""
        self._load.stop()
        self.wait_until(lambda: set(self.read()) >= self._load.sent, "records are missing")

    def kill(self) -> None:
        for member in self._all:
            member.end(signal.SIGKILL)

    def check(self) -> None:
        """Check that each record was read, and not again after a commit of its batch."""
        uncommitted: set[str] = set()
        for member in self._all:
            committed = member.committed
            for number, batch in member.batches.items():
                if number not in committed:
                    uncommitted.update(batch)
        read = self.read()
        assert set(read) == self._load.sent
        assert {value for value, times in read.items() if times > 1} <= uncommitted

    def story(self) -> str:
        """Return for people the state of the group, its members, the producer and the broker."""
        return "\n\n".join(
            [
                f"{len(self._load.sent)} records are acknowledged, {len(self.read())} are read",
                describe_group(self._broker, self._group[1]),
                f"the broker:\n{_tail(self._broker.output)}",
                *(member.story() for member in self._all),
            ]
        )


def describe_group(broker: RunningBroker, group_id: str) -> str:
    """Return for people the state of a group and its members, or the error of the request."""
    try:
        with WireClient(HOST, broker.port, timeout_s=10) as client:
            listed = client.call(LIST_GROUPS, 5).groups
            asked = {
                "as a classic group": client.call(DESCRIBE_GROUPS, 5, groups=[group_id]).groups,
                "as a consumer group": client.call(CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group_id]).groups,
            }
    except Exception as error:
        return f"the broker does not describe its groups: {error!r}"
    lines = [f"groups: {listed}"]
    for how, groups in asked.items():
        for group in groups:
            lines.append(f"{how}: state {group.group_state!r}, error {group.error_code}, {len(group.members)} members")
            lines += [f"    {member}" for member in group.members]
    return "\n".join(lines)


def _tail(text: str) -> str:
    """Return the last lines, shortened."""
    return "\n".join(line[:500] for line in text.splitlines()[-_LINES_TOLD:])
