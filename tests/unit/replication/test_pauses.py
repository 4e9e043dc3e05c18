"""A leader whose answers change nothing is asked with pauses (F4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, EpochEndOffset
from replication.following import Phase
from tests.unit.replication.follower_pair import Pair, reset


@pytest.fixture
def pair() -> Pair:
    return Pair()


def asked_before(pair: Pair, until_ms: int, answer: Callable[[], None]) -> int:
    """Answer all requests up to a time in the same way; return how many there were. 100 are too many."""
    for count in range(100):
        if pair.phase is Phase.DELAYED:
            wakes_at_ms = pair.fetcher.wakes_at_ms()
            assert wakes_at_ms is not None
            pair.now = wakes_at_ms
        if pair.now > until_ms:
            return count
        answer()
    return 100


def test_leader_that_names_other_offsets_than_it_has_is_asked_with_pauses(pair: Pair) -> None:
    """Each reset succeeds, and the next fetch is out of range again."""

    def answer() -> None:
        pair.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
        reset(pair)

    assert asked_before(pair, 5000, answer) <= 15


def test_reset_after_a_reset_with_records_has_no_pause(pair: Pair) -> None:
    """The leader may delete records whenever it likes."""
    for start in (10, 20):
        pair.theirs.start_over(start)
        pair.theirs.write(5, start)
        for _ in range(2):
            pair.step()
            reset(pair)
        pair.step()
        assert pair.ours.log_end_offset == start + 1


def test_leader_whose_divergence_truncates_nothing_is_asked_with_pauses(pair: Pair) -> None:
    pair.ours.write(1, 0)
    lie = EpochEndOffset(epoch=1, end_offset=7)
    assert asked_before(pair, 5000, lambda: pair.answer(0, diverging_epoch=lie)) <= 6
    assert len(pair.ours.entries) == 1


def test_leader_that_refuses_new_sessions_is_asked_with_pauses(pair: Pair) -> None:
    def answer() -> None:
        pair.request()
        pair.fetcher.answered(FETCH.response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]), pair.now)

    assert asked_before(pair, 5000, answer) <= 6
