"""Members of a consumer group, each a process (tests/conformance/group_member.py), and a producer beside them.

Whatever is waited for, `Members.wait_until` is told by: it looks after the producer and the processes meanwhile, and
where it fails it tells what each of them, the group and the broker have to say.
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
#: Longer than whatever goes wrong once takes to go right: a request's time-out of 30 s, and a session's after it.
DEADLINE_S = 120
_LINES_TOLD = 30


class Member:
    """A member in a process of its own, and what it has told so far."""

    def __init__(self, library: str, bootstrap: str, group: tuple[str, str], directory: Path, client_id: str) -> None:
        """Start it; `group` are its topic and its group id."""
        self.library = library
        self.client_id = client_id
        path = directory / f"{library}-{time.monotonic_ns()}"
        self._told, self._errors, self._log = (path.with_suffix(end) for end in (".jsonl", ".err", ".log"))
        self._events: list[dict[str, object]] = []
        self._bytes_read = 0
        self._ended = False
        command = [sys.executable, "-m", "tests.conformance.group_member", library, bootstrap, *group]
        environment = {**os.environ, "GROUP_MEMBER_CLIENT_ID": client_id, "GROUP_MEMBER_LOG": str(self._log)}
        with self._told.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=errors, env=environment)

    @property
    def events(self) -> list[dict[str, object]]:
        """What it has told in whole lines: a killed process may leave half of one."""
        with self._told.open("rb") as told:  # only what is new: members of a crowd tell much, and are asked often
            told.seek(self._bytes_read)
            for line in told:
                if line.endswith(b"\n"):
                    self._events.append(json.loads(line))
                    self._bytes_read += len(line)
        return self._events

    @property
    def batches(self) -> dict[int, list[str]]:
        """The values that it read, by batch."""
        return {int(str(event["batch"])): list(map(str, event["read"])) for event in self.events if "read" in event}  # type: ignore[call-overload]

    @property
    def committed(self) -> set[int]:
        """The batches whose commit was confirmed."""
        return {int(str(event["committed"])) for event in self.events if "committed" in event}

    @property
    def has_died(self) -> bool:
        """Whether it is gone without having been told to go."""
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
        """For people: whether it runs, and the ends of all that it has told."""
        code = self._process.poll()
        state = "runs" if code is None else f"has ended with {code}"
        parts = [f"{self.library} {self.client_id!r}, process {self._process.pid}, {state}"]
        for path in (self._told, self._errors, self._log):
            parts.append(f"{path.name}:\n{_tail(path.read_text(errors='replace') if path.exists() else '')}")
        return "\n".join(parts)


class Load:
    """Numbered records, sent all the time until `stop`; `sent` is what was acknowledged."""

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
        """Raise what has ended it before its time, if anything has."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Send no more, and wait until all is acknowledged. Raises as `check`."""
        self._ending.set()
        self._thread.join()
        self.check()


class Members:
    """All members of a group that have been, and what they have read."""

    def __init__(self, broker: RunningBroker, load: Load, topic: str, group_id: str, directory: Path) -> None:
        self._broker = broker
        self._load = load
        self._group = topic, group_id
        self._directory = directory
        self._all: list[Member] = []

    def start(self, library: str, client_id: str = "member") -> Member:
        """A new member, which may not have joined yet."""
        member = Member(library, self._broker.bootstrap, self._group, self._directory, client_id)
        self._all.append(member)
        return member

    def join(self, library: str) -> Member:
        """A new member, which has read something and committed it."""
        member = self.start(library)
        self.wait_until(lambda: bool(member.committed), f"{library} commits nothing")
        return member

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait for a condition; `what` is wrong as long as it does not hold."""

        def holds() -> bool:
            if condition():
                return True
            self._load.check()
            died = [member.client_id for member in self._all if member.has_died]
            assert not died, f"{died} died\n{self.story()}"
            return False

        eventually(holds, lambda: f"{what}\n{self.story()}", timeout_s=timeout_s, interval_s=0.05)

    def read(self) -> Counter[str]:
        """How often each value was read."""
        return Counter(value for member in self._all for batch in member.batches.values() for value in batch)

    def finish(self) -> None:
        """Wait until all is read that was sent."""
        self._load.stop()
        self.wait_until(lambda: set(self.read()) >= self._load.sent, "records are missing")

    def kill(self) -> None:
        for member in self._all:
            member.end(signal.SIGKILL)

    def check(self) -> None:
        """Each record was read, and none a second time once the batch that it was in was committed."""
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
        """For people: what there is to know about the group, its members, the producer and the broker."""
        return "\n\n".join(
            [
                f"{len(self._load.sent)} records are acknowledged, {len(self.read())} are read",
                describe_group(self._broker, self._group[1]),
                f"the broker:\n{_tail(self._broker.output)}",
                *(member.story() for member in self._all),
            ]
        )


def describe_group(broker: RunningBroker, group_id: str) -> str:
    """For people: the state of a group and its members, as the broker tells them; or why it does not."""
    try:
        with WireClient(HOST, broker.port, timeout_s=10) as client:
            listed = client.call(LIST_GROUPS, 5).groups
            asked = {
                "as a classic group": client.call(DESCRIBE_GROUPS, 5, groups=[group_id]).groups,
                "as a consumer group": client.call(CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group_id]).groups,
            }
    except Exception as error:
        return f"the broker does not tell of its groups: {error!r}"
    lines = [f"groups: {listed}"]
    for how, groups in asked.items():
        for group in groups:
            lines.append(f"{how}: state {group.group_state!r}, error {group.error_code}, {len(group.members)} members")
            lines += [f"    {member}" for member in group.members]
    return "\n".join(lines)


def _tail(text: str) -> str:
    """The last lines, of which none is endless."""
    return "\n".join(line[:500] for line in text.splitlines()[-_LINES_TOLD:])
