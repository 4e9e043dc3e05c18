"""A broker sleeps for longer than sessions last (SIGSTOP), as on a suspended machine: nothing is lost.

Group members continue afterwards from their committed offsets. Commits of expired members are rejected.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.schema import Struct
from tests.conformance.classic_group import Group
from tests.conformance.consumer_session import ConsumerSession
from tests.support.brokers import OurBroker
from tests.support.eventually import eventually
from tests.support.history import History
from tests.support.history_clients import REQUEST_TIMEOUT_MS
from tests.support.history_load import stock_load
from tests.support.history_members import sessions
from tests.support.jumping_clock import HOUR_MS, JumpingBroker
from tests.support.scale import scaled
from tests.support.wire import WireClient

SESSION_MS = 2_000
#: The session timeout of members that the test drives step by step.
PATIENT_SESSION_MS = 3_000
PROPERTIES = {
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@contextmanager
def asleep(broker: OurBroker) -> Iterator[None]:
    """Stop the broker for that time. Its sockets still accept what clients send."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.parametrize("jump_ms", [0, HOUR_MS], ids=["for-a-while", "for-an-hour"])
def test_clients_continue_where_they_were(tmp_path: Path, history: History, jump_ms: int) -> None:
    """Longer than sessions and requests last. Where the wall clock jumps an hour, longer than transactions too."""
    with JumpingBroker(tmp_path / "broker", {**PROPERTIES, **sessions(SESSION_MS)}) as broker:
        load = stock_load(broker, history, session_ms=SESSION_MS)
        for number in range(min(5, scaled(1))):
            load.get_on(20)
            with asleep(broker):
                broker.jump(jump_ms * (number + 1))
                time.sleep(REQUEST_TIMEOUT_MS / 1000 + 1)
            load.get_on(20)
        load.end(broker.bootstrap)
        assert broker.stop() == 0
        assert "Traceback" not in broker.output


def test_commits_of_an_expired_generation_are_rejected(tmp_path: Path) -> None:
    """A commit that arrives during the sleep is accepted or rejected, as its response says. Later ones are rejected."""
    broker = OurBroker(tmp_path, {**PROPERTIES, **sessions(PATIENT_SESSION_MS)})
    group = Group(broker, "classic", "c")
    session = ConsumerSession(broker, "modern", {"m": 1})
    try:
        member, other = group.connect(), group.connect()
        member_id, _ = group.stable(member, other, session_ms=PATIENT_SESSION_MS)
        generation, epoch = group.generation, session.join("member", ["m"])["epoch"]
        assert group.commit(1, member_id, generation) is ErrorCode.NONE
        assert session.commit("m", {0: 1}, "member", epoch) == {0: "NONE"}

        with asleep(broker):
            send_commit(member, ("classic", member_id, generation), "c", 2)
            send_commit(session.client, ("modern", "member", epoch), "m", 2)
            time.sleep(PATIENT_SESSION_MS / 1000 + 1)
        classic, modern = (2 if is_taken(client.receive()) else 1 for client in (member, session.client))
        group.wait_for_state("Empty")
        eventually(lambda: not session.describe()["members"])

        assert group.commit(3, member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.heartbeat(member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID
        assert session.commit("m", {0: 3}, "member", epoch) == {0: "UNKNOWN_MEMBER_ID"}
        assert session.beat("member", epoch)["code"] == "UNKNOWN_MEMBER_ID"
        assert group.committed()[0] == classic
        assert session.committed("m") == ("NONE", {0: modern})

        (again,) = group.stable(member)
        joined = session.join("member", ["m"])
        assert (again != member_id, group.generation > generation, joined["epoch"] > epoch) == (True, True, True)
        assert group.commit(3, again, generation) is ErrorCode.ILLEGAL_GENERATION
        assert session.commit("m", {0: 3}, "member", epoch) == {0: "STALE_MEMBER_EPOCH"}
        assert group.committed()[0] == classic
        assert session.committed("m") == ("NONE", {0: modern})
        assert group.commit(4, again, group.generation) is ErrorCode.NONE
        assert session.commit("m", {0: 4}, "member", joined["epoch"]) == {0: "NONE"}
        assert group.committed()[0] == 4
        assert session.committed("m") == ("NONE", {0: 4})
    finally:
        group.close()
        session.close()
        broker.kill()


def send_commit(client: WireClient, sender: tuple[str, str, int], topic: str, offset: int) -> None:
    """Send a commit for partition 0, by group, member and generation or epoch."""
    group_id, member_id, generation = sender
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    client.send(
        OFFSET_COMMIT,
        9,
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def is_taken(answer: Struct) -> bool:
    """Return whether the commit was accepted. If not, the error must be that the sender's session is over."""
    code = ErrorCode(answer.topics[0].partitions[0].error_code)
    late = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
    assert code in (ErrorCode.NONE, *late, ErrorCode.STALE_MEMBER_EPOCH)
    return code is ErrorCode.NONE
