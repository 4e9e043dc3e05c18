"""The states of a transactional id, and the allowed transitions."""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """The states. The numbers are those of the records; `text` is the name that clients see."""

    text: str

    def __new__(cls, number: int, text: str = "") -> TransactionState:
        member = int.__new__(cls, number)
        member._value_ = number
        member.text = text
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    #: Only names that clients may filter by: an id that expires or is fenced never stays in these states.
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


_DONE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

#: Decided, but not all partitions have their markers yet.
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})

#: No transaction is in progress: the id may begin one, get another producer, or expire.
IDLE = _DONE

#: State -> the states from which an id may enter it.
LEGAL_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _DONE,
    TransactionState.ONGOING: _DONE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # A producer that bumps its epoch with each transaction can also abort one without partitions.
    TransactionState.PREPARE_ABORT: _DONE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}

BY_TEXT = {state.text: state for state in TransactionState}


class IllegalTransition(Exception):
    """A transition that the table does not allow: an error of the coordinator."""

    def __init__(self, transactional_id: str, before: TransactionState, after: TransactionState) -> None:
        super().__init__(f"transactional id {transactional_id}: from {before.text} to {after.text}")
