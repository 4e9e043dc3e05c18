"""One sync for many requests."""

from __future__ import annotations

import pytest

from runtime.coalesced_sync import CoalescedSync
from runtime.deferred import Deferred


class Syncs:
    """Syncs that end when the test says so."""

    def __init__(self) -> None:
        self.running: list[Deferred[None]] = []

    def __call__(self) -> Deferred[None]:
        self.running.append(Deferred())
        return self.running[-1]


def test_a_request_during_a_sync_waits_for_the_next():
    """The running one may have begun before their bytes were written."""
    syncs = Syncs()
    sync = CoalescedSync(syncs)
    first, second, third = sync.request(), sync.request(), sync.request()
    assert len(syncs.running) == 1

    syncs.running[0].resolve(None)
    assert (first.done, second.done, third.done) == (True, False, False)
    syncs.running[1].resolve(None)
    assert second.done
    assert third.done
    assert len(syncs.running) == 2


def test_failure_reaches_the_requests_of_the_sync():
    """Requests of the next sync do not see the failure."""
    syncs = Syncs()
    sync = CoalescedSync(syncs)
    first, second = sync.request(), sync.request()
    syncs.running[0].fail(OSError("disk"))
    syncs.running[1].resolve(None)

    with pytest.raises(OSError, match="disk"):
        first.result()
    assert second.result() is None


def test_requests_of_one_turn_share_a_sync():
    """If a turn's wait is worth it; requests for the next sync do not wait longer."""
    syncs, turn = Syncs(), []
    sync = CoalescedSync(syncs, turn.append)
    together = [sync.request(), sync.request()]
    assert (len(syncs.running), len(turn)) == (0, 1)

    turn.pop()()
    late = sync.request()
    syncs.running[0].resolve(None)
    assert [each.done for each in together] == [True, True]
    assert (len(syncs.running), turn, late.done) == (2, [], False)


def test_first_request_syncs_at_once():
    """Nothing waits without need, also after other syncs."""
    syncs = Syncs()
    sync = CoalescedSync(syncs)
    for number in (1, 2):
        waiting = sync.request()
        assert len(syncs.running) == number
        syncs.running[-1].resolve(None)
        assert waiting.done
