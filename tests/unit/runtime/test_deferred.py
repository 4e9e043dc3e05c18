"""Deferred: one value that is available later."""

import pytest

from runtime.deferred import Deferred, after, gather


def test_resolve_runs_the_callbacks_in_order():
    """Callbacks are called inside resolve, and later ones at once."""
    deferred, seen = Deferred(), []
    deferred.add_done_callback(lambda each: seen.append(("first", each.result())))
    deferred.add_done_callback(lambda each: seen.append(("second", each.result())))

    deferred.resolve(7)
    deferred.add_done_callback(lambda each: seen.append(("late", each.result())))

    assert seen == [("first", 7), ("second", 7), ("late", 7)]


def test_resolve_twice_is_an_error():
    """A second response to one request is a bug."""
    deferred = Deferred.resolved(1)

    with pytest.raises(RuntimeError):
        deferred.resolve(2)


def test_result_before_it_is_done_is_an_error():
    with pytest.raises(RuntimeError):
        Deferred().result()


def test_fail_is_raised_by_result():
    deferred = Deferred()
    deferred.fail(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        deferred.result()


def test_cancel_calls_back_and_ignores_the_value():
    """A client that has disconnected needs no response, and its work may stop."""
    deferred, seen = Deferred(), []
    deferred.add_done_callback(lambda each: seen.append("done"))
    deferred.on_cancel(lambda: seen.append("cancelled"))

    deferred.cancel()
    deferred.resolve(1)
    deferred.on_cancel(lambda: seen.append("late"))

    assert seen == ["cancelled", "late"]
    assert deferred.done
    assert deferred.cancelled


def test_cancel_after_the_result_has_no_effect():
    """The response is already on its way."""
    deferred, seen = Deferred.resolved(1), []
    deferred.on_cancel(lambda: seen.append("cancelled"))

    deferred.cancel()

    assert seen == []
    assert deferred.result() == 1


def test_then_maps_the_value_and_passes_errors_and_cancels_on():
    """Handlers build their response from the result of a pool or the controller."""
    source = Deferred()
    mapped = source.then(lambda value: value * 2)
    source.resolve(21)
    assert mapped.result() == 42

    failing = Deferred()
    mapped = failing.then(lambda value: value)
    failing.fail(KeyError("x"))
    with pytest.raises(KeyError):
        mapped.result()

    raising = Deferred()
    mapped = raising.then(lambda value: 1 // value)
    raising.resolve(0)
    with pytest.raises(ZeroDivisionError):
        mapped.result()

    upstream = Deferred()
    upstream.then(lambda value: value).cancel()
    assert upstream.cancelled


def test_gather_waits_for_all_and_keeps_their_order():
    """All values, in the order of the list."""
    first, second = Deferred(), Deferred()
    both = gather([first, second])

    second.resolve("b")
    assert not both.done
    first.resolve("a")

    assert both.result() == ["a", "b"]
    assert gather([]).result() == []


def test_gather_fails_with_the_first_error():
    first, second = Deferred(), Deferred()
    both = gather([first, second])

    second.fail(OSError("disk"))
    first.resolve("a")

    with pytest.raises(OSError, match="disk"):
        both.result()


def test_a_failing_callback_does_not_stop_the_others(caplog: pytest.LogCaptureFixture):
    """Neither the other callbacks nor the caller of resolve are affected; the same for a cancel."""
    seen: list[object] = []

    def fail(*_: object) -> None:
        raise ValueError("mine")

    answered: Deferred[int] = Deferred()
    answered.add_done_callback(fail)
    answered.add_done_callback(lambda done: seen.append(done.result()))
    answered.resolve(7)
    given_up: Deferred[int] = Deferred()
    given_up.on_cancel(fail)
    given_up.on_cancel(lambda: seen.append("cancelled"))
    given_up.cancel()

    assert seen == [7, "cancelled"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["mine", "mine"]


def test_after_serves_only_connected_clients():
    first, calls = Deferred(), []
    after(first, lambda: calls.append("there"))
    after(first, lambda: calls.append("gone")).cancel()
    after(first, lambda: calls.append("gone, but begun"), even_if_cancelled=True).cancel()

    first.resolve(None)

    assert calls == ["there", "gone, but begun"]


def test_failures_for_disconnected_clients_are_logged(caplog: pytest.LogCaptureFixture):
    first = Deferred()
    after(first, lambda: 1 // 0, even_if_cancelled=True).cancel()

    first.resolve(None)

    assert "ZeroDivisionError" in caplog.text
