"""Share-partition states, which the main process keeps, at the worker that leads the partition."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from broker.workers.messages import ReadShare, WriteShare
from broker.workers.remote_shares import RemoteShareStates
from broker.workers.share_keeping import ShareKeeper
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey, ShareState
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop

SHARE = ShareKey("g", b"t" * 16, 3)
OTHER = ShareKey("other", b"t" * 16, 3)
STATE = ShareState(1, 7)


class MainProcessLink:
    """Records requests; the test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Deferred[Any]]] = []

    def ask(self, message: object) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((message, answer))
        return answer


class Coordinator:
    """Accepts or rejects writes; `forced` is the result of the flush, if that is waited for."""

    def __init__(self) -> None:
        self.refusal: Refused | None = None
        self.forced: Deferred[ErrorCode] | None = None
        self.taken: list[int] = []

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        return STATE

    def write(self, share: ShareKey, *, start_offset: int, **rest: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.taken.append(start_offset)

    def after_commit(self, keys: object, response: Any, failed: Any) -> Any:
        return response if self.forced is None else self.forced.then(lambda code: failed(code) if code else response)


def timers_of(loop: FakeLoop) -> Timers:
    return Timers(loop, loop.clock)


def write(start_offset: int) -> WriteShare:
    return WriteShare(SHARE, 1, 0, start_offset, 0, ())


def test_state_is_requested_once() -> None:
    """Until it arrives, fetches wait. A later read requests it again."""
    link = MainProcessLink()
    keys: list[ShareKey] = []
    states = RemoteShareStates(link, timers_of(FakeLoop()), keys.append)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            states.read(SHARE, 5)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    [(message, answer)] = link.asked
    assert message == ReadShare(SHARE, 5)
    assert keys == []
    answer.resolve(STATE)
    assert keys == [SHARE]
    assert states.read(SHARE, 5) is STATE
    with pytest.raises(Refused):
        states.read(SHARE, 5)
    link.asked[1][1].fail(Refused(ErrorCode.FENCED_LEADER_EPOCH))
    with pytest.raises(Refused) as refused:
        states.read(SHARE, 5)
    assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(("group_id", "forgotten"), [("g", [SHARE]), (None, [SHARE, OTHER])])
def test_changed_states_are_read_again(group_id: str | None, forgotten: list[ShareKey]) -> None:
    """Those of one group, or of all groups if the topic was deleted."""
    link = MainProcessLink()
    states = RemoteShareStates(link, timers_of(FakeLoop()), lambda _: None)  # type: ignore[arg-type]
    for share in (SHARE, OTHER):
        with pytest.raises(Refused):
            states.read(share, 0)
        link.asked[-1][1].resolve(STATE)
    states.forget(b"another", group_id)
    states.forget(SHARE.topic_id, group_id)
    for share in (SHARE, OTHER):
        if share in forgotten:
            with pytest.raises(Refused):
                states.read(share, 0)
        else:
            assert states.read(share, 0) is STATE


def test_unused_results_are_dropped() -> None:
    """A state or error whose client has disconnected is not kept for the next one."""
    link, loop = MainProcessLink(), FakeLoop()
    states = RemoteShareStates(link, timers_of(loop), lambda _: None)  # type: ignore[arg-type]
    for share in (SHARE, OTHER):
        with pytest.raises(Refused):
            states.read(share, 0)
    link.asked[0][1].fail(Refused(ErrorCode.INVALID_REQUEST))
    link.asked[1][1].resolve(STATE)
    loop.advance(4_999)
    assert states.read(OTHER, 0) is STATE
    with pytest.raises(Refused):
        states.read(OTHER, 0)  # requested again: the timer of the first request does not apply
    loop.advance(1)
    for share in (SHARE, OTHER):
        with pytest.raises(Refused) as refused:
            states.read(share, 0)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [message.share for message, _ in link.asked] == [SHARE, OTHER, OTHER, SHARE]


def test_write_behind_a_missing_change_is_rejected() -> None:
    """The worker wrote more before it learned of the failure. It has to read the state again."""
    coordinator = Coordinator()
    keeper = ShareKeeper(coordinator)  # type: ignore[arg-type]
    assert keeper.write(write(1)) is None
    coordinator.refusal = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(Refused):
        keeper.write(write(2))
    coordinator.refusal = None
    with pytest.raises(Refused) as refused:
        keeper.write(write(3))
    assert refused.value.code is ErrorCode.FENCED_STATE_EPOCH
    assert keeper.read(ReadShare(SHARE, 0)) is STATE
    assert keeper.write(write(4)) is None
    assert coordinator.taken == [1, 4]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_write_waits_for_the_flush(code: ErrorCode) -> None:
    """If flush.messages requires it. A failed flush counts as a missing change."""
    coordinator = Coordinator()
    coordinator.forced = Deferred()
    keeper = ShareKeeper(coordinator)  # type: ignore[arg-type]
    written = keeper.write(write(1))
    assert written is not None
    assert not written.done
    coordinator.forced.resolve(code)
    if code is ErrorCode.NONE:
        written.result()
        assert keeper.write(write(2)) is not None
        return
    for attempt in (written.result, lambda: keeper.write(write(2))):
        with pytest.raises(Refused):
            attempt()


def test_late_failure_does_not_affect_a_new_reader() -> None:
    """The worker reads again after its first change, before the second one is known to fail."""
    coordinator = Coordinator()
    keeper = ShareKeeper(coordinator)  # type: ignore[arg-type]
    written, forced = [], []
    for offset in (1, 2):
        coordinator.forced = Deferred()
        forced.append(coordinator.forced)
        written.append(keeper.write(write(offset)))
    coordinator.forced = None
    forced[0].resolve(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(Refused):
        keeper.write(write(3))
    assert keeper.read(ReadShare(SHARE, 0)) is STATE
    forced[1].resolve(ErrorCode.KAFKA_STORAGE_ERROR)
    assert written[1] is not None
    with pytest.raises(Refused):
        written[1].result()
    assert keeper.write(write(4)) is None
    assert coordinator.taken == [1, 2, 4]


def test_rejection_can_be_pickled() -> None:
    refused = pickle.loads(pickle.dumps(Refused(ErrorCode.FENCED_STATE_EPOCH, "words")))
    assert (refused.code, refused.message) == (ErrorCode.FENCED_STATE_EPOCH, "words")
