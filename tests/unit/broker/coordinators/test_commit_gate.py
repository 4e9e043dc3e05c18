"""Responses that wait for the disk: for which partitions, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.coordinators.commit_gate import CommitGate
from broker.coordinators.runtime import CoordinatorRuntime
from broker.requests.error_code_map import NotCommitted
from metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.schema import Struct
from runtime.deferred import Deferred
from runtime.timers import Timers
from storage.errors import LogOffline
from tests.support.disk_doubles.slow_disk import SlowDisk
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.share_broker import ShareBroker

ANSWER = HEARTBEAT.response()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop(FakeClock())


@pytest.fixture
def gate(loop: FakeLoop) -> CommitGate:
    return CommitGate(Timers(loop, loop.clock), timeout_ms=100)  # type: ignore[arg-type]


def begun(gate: CommitGate, partition: int) -> Deferred[None]:
    flush: Deferred[None] = Deferred()
    gate.begun(partition, flush)
    return flush


def answer(gate: CommitGate, partitions: Iterable[int | None]) -> Deferred[Struct]:
    reply = gate.answer(partitions, ANSWER, lambda code: HEARTBEAT.response(error_code=code))
    return reply if isinstance(reply, Deferred) else Deferred.resolved(reply)  # type: ignore[arg-type]


def code(reply: Deferred[Struct]) -> ErrorCode:
    return ErrorCode(reply.result().error_code)


def test_response_waits_for_its_own_partitions(gate: CommitGate) -> None:
    own, other = begun(gate, 1), begun(gate, 2)
    reply = answer(gate, [1])
    other.fail(LogOffline("/data", "disk on fire"))
    assert not reply.done
    own.resolve(None)
    assert reply.result() is ANSWER


def test_response_of_several_partitions_waits_for_all(gate: CommitGate) -> None:
    first, second = begun(gate, 1), begun(gate, 2)
    reply = answer(gate, [1, None, 2, 1])
    first.resolve(None)
    assert not reply.done
    second.fail(LogOffline("/data", "disk on fire"))
    assert code(reply) is ErrorCode.NOT_COORDINATOR


def test_flushed_partition_is_not_waited_for(gate: CommitGate) -> None:
    """A partition with a pending flush of another request's writes is not waited for either."""
    begun(gate, 1)
    assert not answer(gate, [1]).done
    assert not gate.is_due
    assert answer(gate, [1]).done
    begun(gate, 1).resolve(None)
    assert answer(gate, [1]).done


def test_flush_is_due_until_it_is_done(gate: CommitGate) -> None:
    """Writes of timers, which have no response, are flushed too."""
    flush = begun(gate, 1)
    assert [gate.is_due_at(partition) for partition in (0, 1)] == [False, True]
    flush.resolve(None)
    assert not gate.is_due_at(1)
    begun(gate, 1).fail(LogOffline("/data", "disk on fire"))
    assert not gate.is_due_at(1)


def test_wait_for_the_flush_is_limited(gate: CommitGate, loop: FakeLoop) -> None:
    """The write may still succeed later, so the client gets a retriable error."""
    flush = begun(gate, 1)
    reply = answer(gate, [1])
    loop.advance(99)
    assert not reply.done
    loop.advance(1)
    assert code(reply) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    flush.resolve(None)


def test_wait_fails_where_the_response_has_no_error(gate: CommitGate, loop: FakeLoop) -> None:
    """The connection is closed then; the timer does not fail."""

    def failed(code: ErrorCode) -> Struct:
        raise NotCommitted(code)

    begun(gate, 1)
    late = gate.answer([1], ANSWER, failed)
    flush = begun(gate, 2)
    offline = gate.answer([2], ANSWER, failed)
    flush.fail(LogOffline("/data", "disk on fire"))
    loop.advance(100)
    for reply, code in ((late, ErrorCode.COORDINATOR_NOT_AVAILABLE), (offline, ErrorCode.NOT_COORDINATOR)):
        assert isinstance(reply, Deferred)
        with pytest.raises(NotCommitted, match=code.name):
            reply.result()


def test_response_in_time_leaves_no_timer(gate: CommitGate, loop: FakeLoop) -> None:
    flush = begun(gate, 1)
    reply = answer(gate, [1])
    flush.resolve(None)
    loop.advance(1_000)
    assert code(reply) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        (CONSUMER_OFFSETS, "offsets.commit.timeout.ms"),
        (TRANSACTION_STATE, "request.timeout.ms"),
        (SHARE_GROUP_STATE, "share.coordinator.write.timeout.ms"),
    ],
)
def test_each_coordinator_has_its_flush_key(tmp_path: Path, topic: str, key: str) -> None:
    settings = {key: "300", "log.flush.interval.messages": "1", "share.coordinator.state.topic.num.partitions": "1"}
    broker = ShareBroker(tmp_path, settings)
    broker.topics.ensure(topic)
    broker.settle()
    coordinators: list[CoordinatorRuntime[object, object, object]] = [  # type: ignore[type-var]
        broker.groups,
        broker.transactions,
        broker.share_states,  # type: ignore[list-item]
    ]
    [runtime] = [each for each in coordinators if each.topic == topic]
    disk = SlowDisk(broker, topic)
    found = runtime.log_at(0)
    assert not isinstance(found, ErrorCode)
    runtime._gate.begun(0, broker.background.flush(found.partition.log))
    name = next(name for name in map(str, range(100)) if runtime.index_of(name) == 0)
    reply = runtime.after_commit([name], ANSWER, lambda code: HEARTBEAT.response(error_code=code))
    assert isinstance(reply, Deferred)
    broker.advance(299)
    assert not reply.done
    broker.advance(1)
    assert code(reply) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.release()
    broker.close()
