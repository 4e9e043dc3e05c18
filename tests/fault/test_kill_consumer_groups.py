"""kill -9 under a consumer group, repeatedly: acknowledged heartbeats and commits hold."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from protocol.error_codes import ErrorCode
from tests.conformance.consumer_session import ConsumerSession
from tests.support.brokers import OurBroker
from tests.support.scale import scaled
from tests.support.wire import Closed

KILLS = min(20, scaled(3))
MEMBERS = 4
PARTITIONS = 12
TOPIC = "t"
PROPERTIES = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}


class Member(threading.Thread):
    """A correct client: it keeps the last assignment, revokes what it must, and commits for its partitions.

    It sometimes leaves, and joins again under a new id.
    """

    def __init__(self, number: int, broker: OurBroker) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(number)
        self.broker = broker
        self.number = number
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.lives = 0
        self.member_id = ""
        self.epoch = 0
        self.owned: list[int] = []
        self.committed: dict[int, int] = {}
        self.reported: tuple[str, int] = ("", 0)
        """id and epoch of the last answer"""

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    session = ConsumerSession(self.broker, "g", {TOPIC: PARTITIONS}, new=False)
                    while not self.stopping.is_set():
                        self.step(session)
                except (Closed, OSError, AssertionError):
                    time.sleep(0.02)
        except BaseException as error:
            self.failure = error

    def step(self, session: ConsumerSession) -> None:
        """Send one heartbeat, and a commit."""
        if not self.member_id:
            self.lives += 1
            self.member_id, self.epoch, self.owned = f"m{self.number}-{self.lives}", 0, []
        if self.epoch > 0 and self.random.random() < 0.02:
            session.beat(self.member_id, -1)
            self.member_id, self.reported = "", ("", 0)
            return
        if self.epoch == 0:
            answer = session.join(self.member_id, [TOPIC])
        else:
            answer = session.beat(self.member_id, self.epoch, {TOPIC: self.owned} if self.owned else {})
        if answer["code"] in (ErrorCode.FENCED_MEMBER_EPOCH.name, ErrorCode.UNKNOWN_MEMBER_ID.name):
            self.epoch, self.owned = 0, []
        elif answer["code"] == ErrorCode.NONE.name:
            self.epoch = answer["epoch"]
            self.reported = (self.member_id, self.epoch)
            if answer["assignment"] is not None:
                self.owned = answer["assignment"].get(TOPIC, [])
            self.commit(session)
        time.sleep(0.002)

    def commit(self, session: ConsumerSession) -> None:
        """Move one offset forward in one of its partitions."""
        if self.owned:
            partition = self.random.choice(self.owned)
            offset = max(self.committed.get(partition, 0), session.committed(TOPIC)[1].get(partition, 0)) + 1
            if session.commit(TOPIC, {partition: offset}, self.member_id, self.epoch)[partition] == "NONE":
                self.committed[partition] = offset


def test_members_continue_where_they_were(tmp_path: Path) -> None:
    """No epoch goes back, no partition has two owners, no acknowledged commit is lost."""
    chance = random.Random(848)
    broker = OurBroker(tmp_path, PROPERTIES)
    ConsumerSession(broker, "g", {TOPIC: PARTITIONS}).close()
    members = [Member(number, broker) for number in range(MEMBERS)]
    for member in members:
        member.start()
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.3, 1.2))
            reported = [(member.reported, dict(member.committed)) for member in members]
            broker.kill()
            broker.start()
            session = ConsumerSession(broker, "g", {TOPIC: PARTITIONS}, new=False)
            group = session.describe()
            stored = session.committed(TOPIC)[1]
            session.close()
            owned = [index for each in group["members"].values() for index in each["assignment"].get(TOPIC, [])]
            assert len(owned) == len(set(owned))
            assert set(group["members"]) & {member_id for (member_id, _), _ in reported}
            for (member_id, epoch), committed in reported:
                if member_id in group["members"]:  # it may have left meanwhile
                    assert group["members"][member_id]["epoch"] >= epoch
                for partition, offset in committed.items():
                    assert stored[partition] >= offset
    finally:
        for member in members:
            member.stopping.set()
            member.join(30)
        failures = [member.failure for member in members if member.failure is not None]
        broker.stop()
    assert failures == []
    assert sum(sum(member.committed.values()) for member in members) > 0
