"""The checker finds each kind of error in a history, and none in a correct one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checker import Kind, check
from tests.support.history import (
    UNKNOWN_OFFSET,
    Acknowledged,
    Assigned,
    Committed,
    Committing,
    Ended,
    Event,
    History,
    Outcome,
    Read,
    ReadAll,
    Sent,
    read_history,
)


def sent(value: str, *, producer: str = "p", partition: int = 0, transaction: str | None = None) -> Sent:
    return Sent(producer, "t", partition, value, transaction)


def acknowledged(value: str, offset: int) -> Acknowledged:
    return Acknowledged("t", 0, offset, value)


def read(value: str, offset: int, *, reader: str = "r", partition: int = 0, committed: bool = True) -> Read:
    return Read(reader, "t", partition, offset, value, committed)


def ended(outcome: Outcome) -> Ended:
    return Ended("x", outcome)


def assigned(reader: str) -> Assigned:
    return Assigned("g", reader, "t", 0)


def commit(reader: str, offset: int) -> list[Event]:
    return [Committing(reader, "t", 0, offset), Committed(reader, "t", 0, offset)]


ALL = ReadAll("r", "t", 0)
COMMITTED, ABORTED, UNKNOWN = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN

RIGHT: dict[str, list[Event]] = {
    "nothing": [],
    "sent, acknowledged and read": [sent("a"), acknowledged("a", 0), read("a", 0), ALL],
    "acknowledged, at offsets that the client does not know": [
        *(sent(value) for value in "ab"),
        *(acknowledged(value, UNKNOWN_OFFSET) for value in "ab"),
        *(read("a", 0), read("b", 1), ALL),
    ],
    "never acknowledged, and not there": [sent("a"), ALL],
    "never acknowledged, and there": [sent("a"), read("a", 0), ALL],
    "not read to the end": [sent("a"), acknowledged("a", 0)],
    "two readers": [sent("a"), read("a", 0), read("a", 0, reader="s"), ALL],
    "two producers, one behind the other": [sent("a"), sent("b", producer="q"), read("b", 0), read("a", 1), ALL],
    "offsets with gaps": [sent("a"), sent("b"), read("a", 0), read("b", 7), ALL],
    "committed": [sent("a", transaction="x"), acknowledged("a", 0), ended(COMMITTED), read("a", 0), ALL],
    "aborted, and not seen": [sent("a", transaction="x"), acknowledged("a", 0), ended(ABORTED), ALL],
    "aborted, and seen by one who reads all": [
        sent("a", transaction="x"),
        ended(ABORTED),
        read("a", 0, committed=False),
    ],
    "unknown, and all there": [
        *(sent(value, transaction="x") for value in "ab"),
        read("a", 0),
        read("b", 1),
        ALL,
    ],
    "unknown, and nothing there": [*(sent(value, transaction="x") for value in "ab"), ended(UNKNOWN), ALL],
    "a member goes on where another was": [
        *(sent(value) for value in "ab"),
        *(acknowledged(value, offset) for offset, value in enumerate("ab")),
        *(assigned("m"), read("a", 0, reader="m"), *commit("m", 1)),
        *(assigned("n"), read("b", 1, reader="n"), *commit("n", 2)),
        ReadAll("g", "t", 0),
    ],
    "a commit that was not answered": [
        sent("a"),
        *(assigned("m"), read("a", 0, reader="m"), Committing("m", "t", 0, 1)),
        *(assigned("n"), read("a", 0, reader="n")),
    ],
    "a commit that was refused, as another has the partition": [
        *(assigned("m"), *commit("m", 1), assigned("n"), *commit("n", 2)),
        *(Committing("m", "t", 0, 3), *commit("n", 4)),
    ],
}

WRONG: dict[str, tuple[Kind, list[Event]]] = {
    "acknowledged and gone": (Kind.LOST_WRITE, [sent("a"), acknowledged("a", 0), ALL]),
    "acknowledged at an unknown offset, and gone": (
        Kind.LOST_WRITE,
        [sent("a"), acknowledged("a", UNKNOWN_OFFSET), ALL],
    ),
    "committed and gone": (Kind.LOST_WRITE, [sent("a", transaction="x"), ended(COMMITTED), ALL]),
    "gone for one of two readers": (
        Kind.LOST_WRITE,
        [sent("a"), acknowledged("a", 0), read("a", 0, reader="s"), ReadAll("s", "t", 0), ALL],
    ),
    "read without an acknowledgement, and gone": (
        Kind.LOST_READ,
        [sent("a"), read("a", 0, reader="s"), ALL],
    ),
    "read while the end of its transaction is unknown, and gone": (
        Kind.LOST_READ,
        [sent("a", transaction="x"), read("a", 0, reader="s"), ended(UNKNOWN), ALL],
    ),
    "there twice": (Kind.DUPLICATE, [sent("a"), read("a", 0), read("a", 1)]),
    "there twice, for two readers": (Kind.DUPLICATE, [sent("a"), read("a", 0), read("a", 1, reader="s")]),
    "two values at an offset": (
        Kind.INCONSISTENT_OFFSET,
        [sent("a"), sent("b", producer="q"), read("a", 0), read("b", 0, reader="s")],
    ),
    "an acknowledged offset that another value has": (
        Kind.INCONSISTENT_OFFSET,
        [sent("a"), sent("b"), acknowledged("a", 0), read("b", 0)],
    ),
    "read elsewhere than acknowledged": (Kind.INCONSISTENT_OFFSET, [sent("a"), acknowledged("a", 0), read("a", 1)]),
    "never sent": (Kind.PHANTOM, [read("a", 0)]),
    "sent to another partition": (Kind.PHANTOM, [sent("a", partition=1), read("a", 0)]),
    "aborted and seen": (Kind.ABORTED_READ, [sent("a", transaction="x"), ended(ABORTED), read("a", 0)]),
    "half of a transaction": (
        Kind.TORN_TRANSACTION,
        [*(sent(value, transaction="x") for value in "ab"), ended(UNKNOWN), read("a", 0), ALL],
    ),
    "the second before the first": (Kind.ORDER, [sent("a"), sent("b"), read("b", 0), read("a", 1)]),
    "back to an earlier offset": (
        Kind.UNMONOTONIC_READ,
        [sent("a"), sent("b", producer="q"), read("a", 1), read("b", 0)],
    ),
    "gone for all members of a group": (
        Kind.LOST_WRITE,
        [
            *(sent(value) for value in "ab"),
            *(acknowledged(value, offset) for offset, value in enumerate("ab")),
            *(assigned("m"), read("b", 1, reader="m"), ReadAll("g", "t", 0)),
        ],
    ),
    "committed, and read again by another member": (
        Kind.LOST_COMMIT,
        [
            sent("a"),
            *(assigned("m"), read("a", 0, reader="m"), *commit("m", 1)),
            *(assigned("n"), read("a", 0, reader="n")),
        ],
    ),
    "one who had it before commits for it": (
        Kind.STALE_COMMIT,
        [assigned("m"), *commit("m", 1), assigned("n"), *commit("m", 2), *commit("n", 2)],
    ),
    "two commit in turn": (
        Kind.STALE_COMMIT,
        [assigned("m"), assigned("n"), *commit("m", 1), *commit("n", 2), *commit("m", 3)],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_correct_history_has_no_findings(name: str) -> None:
    assert check(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_found_and_nothing_else(name: str) -> None:
    kind, events = WRONG[name]
    assert {anomaly.kind for anomaly in check(events)} == {kind}


def test_each_kind_of_error_has_a_history() -> None:
    assert {kind for kind, _ in WRONG.values()} == set(Kind)


def test_a_history_is_read_back_as_written(tmp_path: Path) -> None:
    """All kinds of events, in order."""
    events = [
        *(sent("a", transaction="x"), acknowledged("a", 0), ended(ABORTED), read("a", 0), ALL),
        *(assigned("m"), *commit("m", 1)),
    ]
    history = History(tmp_path / "history.jsonl")
    history.note(*events)
    history.close()
    assert list(read_history(history.path)) == events
    assert {anomaly.kind for anomaly in check(read_history(history.path))} == {Kind.ABORTED_READ}
