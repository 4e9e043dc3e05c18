"""Many members of different libraries join, leave and die all the time, and a watcher observes their group.

The full size is 50 members for three minutes. The watcher asks ten times a second who owns the partitions, and how far
the group has read.
"""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.error_codes import ErrorCode
from protocol.messages.data import ConsumerProtocolAssignment
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.offset_fetch import OFFSET_FETCH
from tests.conformance.conftest import StartBroker
from tests.conformance.group_member import SESSION_TIMEOUT_MS
from tests.conformance.test_mixed_group import GROUP, PROPERTIES, TOPIC
from tests.support.brokers import HOST, RunningBroker
from tests.support.group_members import Load, Member, Members
from tests.support.scale import scaled
from tests.support.settled import wait_for_topic
from tests.support.wire import WireClient

MEMBERS = min(50, scaled(6))
PARTITIONS = MEMBERS + 2
SECONDS = min(90, scaled(8))
FEWEST_CHANGES = 3
#: the time until all have rejoined: on a busy machine fifty processes take minutes
PATIENCE_S = 120 + 5 * MEMBERS
KINDS = ["ours", "kafka"] if MEMBERS < 50 else ["ours"]
LIBRARIES = ("confluent", "aiokafka", "confluent", "kafka-python")
#: A death is noticed after the session timeout; another one within this time would make it longer.
DEATHS_APART_S = 1.8 * SESSION_TIMEOUT_MS / 1000
#: the session timeout, and the time in which a busy machine lets so many processes rejoin
LONGEST_GAP_S = SESSION_TIMEOUT_MS / 1000 + 10 + MEMBERS / 5


class Watcher(threading.Thread):
    """Observes the group from outside; `faults` are the violations."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.faults: list[str] = []
        self.dead: set[str] = set()
        self.longest_gap_s = 0.0
        self.generations = 0
        self._client = WireClient(HOST, port)
        self._ending = threading.Event()
        self.owned_at: dict[int, float] = {}
        self._committed: dict[int, int] = {}
        self._state = ""
        self._members: frozenset[str] = frozenset()
        self._settled: frozenset[str] = frozenset()  # empty while it is not stable
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ending.wait(0.1):
                self._look_at_members()
                self._look_at_offsets()
        except BaseException as error:  # raised again by `check`
            self._error = error

    def check(self) -> None:
        """Raise the error that ended the watcher early, if any."""
        if self._error is not None:
            raise self._error

    def has_settled_with(self, present: frozenset[str]) -> bool:
        """Return whether the group is stable with exactly these members, by client id."""
        self.check()
        return self._settled == present

    def stop(self) -> None:
        self._ending.set()
        self.join()
        self._client.close()
        self.check()

    def _look_at_members(self) -> None:
        (group,) = self._client.call(DESCRIBE_GROUPS, 5, groups=[GROUP]).groups
        now = time.monotonic()
        if group.error_code == ErrorCode.NONE and group.group_state == "Stable":
            members = frozenset(member.member_id for member in group.members)
            # some generations end before the next look
            self.generations += self._state != "Stable" or members != self._members
            self._members = members
            owners: dict[int, list[str]] = {}
            for member in group.members:
                assignment, _ = ConsumerProtocolAssignment.decode(0, member.member_assignment, 2)
                for topic in assignment.assigned_partitions:
                    for partition in topic.partitions:
                        owners.setdefault(partition, []).append(member.client_id)
            for partition in range(PARTITIONS):
                found = owners.get(partition, [])
                if len(found) != 1:
                    self.faults.append(f"partition {partition} is owned by {found} in a stable group")
                if set(found) - self.dead:
                    self.owned_at[partition] = now
        is_stable = group.error_code == ErrorCode.NONE and group.group_state == "Stable"
        self._settled = frozenset(member.client_id for member in group.members) if is_stable else frozenset()
        self._state = group.group_state
        for since in self.owned_at.values():
            self.longest_gap_s = max(self.longest_gap_s, now - since)

    def _look_at_offsets(self) -> None:
        answer = self._client.call(OFFSET_FETCH, 7, group_id=GROUP, topics=None, require_stable=True)
        for topic in answer.topics:
            for partition in topic.partitions:
                before = self._committed.get(partition.partition_index, 0)
                if partition.committed_offset < before:
                    told = f"from {before} to {partition.committed_offset}"
                    self.faults.append(f"the offset of partition {partition.partition_index} goes back {told}")
                self._committed[partition.partition_index] = partition.committed_offset


class Crowd(Members):
    """Members that are started without a wait."""

    def __init__(self, broker: RunningBroker, load: Load, directory: Path) -> None:
        super().__init__(broker, load, TOPIC, GROUP, directory)
        self.present: list[Member] = []
        self._numbers = itertools.count()

    @property
    def client_ids(self) -> frozenset[str]:
        """Return the client ids of the present members."""
        return frozenset(member.client_id for member in self.present)

    def start_next(self) -> None:
        number = next(self._numbers)
        library = LIBRARIES[number % len(LIBRARIES)]
        self.present.append(self.start(library, f"{library}-{number}"))


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """Start a broker with enough partitions."""
    broker = start_broker(request.param, PROPERTIES)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    wait_for_topic(broker, TOPIC, PARTITIONS)
    return broker


@pytest.fixture
def crowd(broker: RunningBroker, tmp_path: Path) -> Iterator[tuple[Crowd, Watcher]]:
    """Return an empty crowd, and its watcher."""
    load = Load(broker.bootstrap, TOPIC)
    crowd, watcher = Crowd(broker, load, tmp_path), Watcher(broker.port)
    watcher.start()
    yield crowd, watcher
    load.stop()
    crowd.kill()


def test_partitions_always_have_one_owner(crowd: tuple[Crowd, Watcher]) -> None:
    """S18.1: no partition has two owners in one generation, or none for longer than a session timeout; commits never go
    back; no record is lost, or read again after its batch is committed.
    """
    members, watcher = crowd
    dice = random.Random(MEMBERS)
    for _ in range(MEMBERS):
        members.start_next()
        time.sleep(0.2)
    members.wait_until(partial(watcher.has_settled_with, members.client_ids), "the group does not settle", PATIENCE_S)
    assert len(watcher.owned_at) == PARTITIONS
    until, death_at, changes = time.monotonic() + SECONDS, 0.0, 0
    while time.monotonic() < until or changes < FEWEST_CHANGES:
        present = list(members.present)
        going = dice.choice(present)
        if time.monotonic() > death_at + DEATHS_APART_S:
            death_at = time.monotonic()
            going.end(signal.SIGKILL)
            watcher.dead.add(going.client_id)
            members.present.remove(going)
        elif dice.random() < 0.5 and len(members.present) > MEMBERS // 2:
            going.end(signal.SIGTERM)
            members.present.remove(going)
        if len(members.present) < MEMBERS and dice.random() < 0.7:
            members.start_next()
        if members.present != present:
            changes += 1
            members.wait_until(
                partial(watcher.has_settled_with, members.client_ids), "the group does not settle", PATIENCE_S
            )
        time.sleep(dice.uniform(0, 2))
    members.finish()
    watcher.stop()
    members.kill()
    members.check()
    assert watcher.faults == []
    assert watcher.longest_gap_s < LONGEST_GAP_S
    assert watcher.generations > FEWEST_CHANGES
