"""A gate: a limit of tasks at a time, in the order of their arrival."""

from __future__ import annotations

from functools import partial

from runtime.gate import Gate


def test_other_tasks_wait_in_order() -> None:
    gate, begun = Gate(2), []
    for number in range(4):
        gate.enter(partial(begun.append, number))
    assert begun == [0, 1]
    gate.leave()
    assert begun == [0, 1, 2]
    for _ in range(3):
        gate.leave()
    assert begun == [0, 1, 2, 3]
    for number in range(4, 7):
        gate.enter(partial(begun.append, number))
    assert begun == [0, 1, 2, 3, 4, 5]


def test_withdrawn_task_is_not_admitted() -> None:
    gate, begun = Gate(1), []
    first, second, third = (partial(begun.append, number) for number in range(3))
    for each in (first, second, third):
        gate.enter(each)
    assert gate.withdraw(second)
    assert not gate.withdraw(first)
    gate.leave()
    assert begun == [0, 2]


def test_many_tasks_may_leave_at_once() -> None:
    """Without recursion."""
    gate, begun = Gate(1), []
    gate.enter(lambda: None)
    for number in range(5_000):

        def pass_through(number: int = number) -> None:
            begun.append(number)
            gate.leave()

        gate.enter(pass_through)
    gate.leave()
    assert begun == list(range(5_000))
