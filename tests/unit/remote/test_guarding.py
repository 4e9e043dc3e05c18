"""The decisions about a store that fails: pauses, the circuit, the limit of requests."""

from __future__ import annotations

import pytest

from remote.circuit import Circuit
from remote.errors import Absent, Damaged, Denied, OutOfSpace, RemoteStorageError, Throttled, Unreachable
from remote.request_limit import RequestLimit
from remote.retries import pause_before_next


def opened(at_s: float) -> Circuit:
    circuit = Circuit()
    assert [circuit.failed(at_s) for _ in range(5)] == [False] * 4 + [True]
    return circuit


def test_a_circuit_opens_after_five_failures_in_a_row() -> None:
    circuit = Circuit()
    for _ in range(4):
        circuit.failed(0)
    circuit.succeeded(0)
    for _ in range(4):
        circuit.failed(0)
    assert circuit.may_send(0)
    assert circuit.failed(0)
    assert not circuit.may_send(0.5)


def test_an_open_circuit_has_one_probe_a_second() -> None:
    circuit = opened(10)
    assert [circuit.may_send(now) for now in (10.9, 11.0, 11.1, 15)] == [False, True, False, False]
    assert not circuit.failed(15)
    circuit.end_probe()
    assert [circuit.may_send(now) for now in (15.9, 16.0)] == [False, True]


def test_an_answer_closes_the_circuit() -> None:
    circuit = opened(10)
    assert circuit.may_send(11)
    assert circuit.succeeded(13) == 3
    assert circuit.may_send(13)
    assert circuit.succeeded(14) is None


def test_refused_credentials_open_it_at_once_for_a_minute() -> None:
    circuit = Circuit()
    assert circuit.denied(0)
    assert [circuit.may_send(now) for now in (59, 60)] == [False, True]


def test_the_limit_is_halved_and_rises_by_one() -> None:
    limit = RequestLimit(16)
    limit.throttled(0)
    limit.throttled(0.5)  # of the same burst
    assert limit.now == 8
    limit.throttled(1)
    assert limit.now == 4
    for _ in range(4):
        limit.served()
    assert limit.now == 5
    for now in range(2, 12):
        limit.throttled(now)
    assert limit.now == 1
    for _ in range(1000):
        limit.served()
    assert limit.now == 16


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (Unreachable("k", ""), [0.1, 0.2, None]),
        (Throttled("k", ""), [0.5, 1.0, None]),
        (Absent("k", ""), [None]),
        (Denied("k", ""), [None]),
        (Damaged("k", ""), [None]),
        (OutOfSpace("k", ""), [None]),
    ],
)
def test_only_a_store_that_does_not_serve_is_asked_again(error: RemoteStorageError, pauses: list[float | None]) -> None:
    assert [pause_before_next(error, tries, 0) for tries in range(1, len(pauses) + 1)] == pauses


def test_chance_shortens_pauses_to_the_half() -> None:
    assert pause_before_next(Unreachable("k", ""), 2, 1.0) == pytest.approx(0.1)
