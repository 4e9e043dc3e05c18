"""Signals end `pybroker mirror` between two steps, not inside the client library."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pybroker.mirror.interrupt import Interrupt


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    former = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in former:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_waits_for_the_next_check(number: signal.Signals) -> None:
    with Interrupt() as interrupt:
        interrupt.check()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
        interrupt.check()


def test_second_signal_interrupts_at_once() -> None:
    """A step may wait for a broker."""
    with Interrupt():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_ignored_signal_stays_ignored() -> None:
    """As in a background job of a shell. The former handlers come back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        interrupt.check()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
