"""Work of several steps that wait for threads and for the disk, written as a generator.

The event loop's thread runs all steps. A generator yields the Deferred that it waits for, by `yield from wait(...)`.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, TypeAlias, TypeVar

from runtime.deferred import Deferred

T = TypeVar("T")

Steps: TypeAlias = Generator[Deferred[Any], Any, T]


def wait(deferred: Deferred[T]) -> Steps[T]:
    """Return the value of a Deferred once it is done. Raises the error it failed with."""
    value: T = yield deferred
    return value


def run(steps: Steps[T]) -> Deferred[T]:
    """Run the steps; resolve to what the generator returns. Fails with the error that it raises."""
    ended: Deferred[T] = Deferred()
    _advance(steps, ended, Deferred.resolved(None))
    return ended


def _advance(steps: Steps[T], ended: Deferred[T], done: Deferred[Any]) -> None:
    """Go on until the steps wait for something that is not done."""
    while done.done:
        try:
            try:
                value = done.result()
            except Exception as error:
                done = steps.throw(error)
            else:
                done = steps.send(value)
        except StopIteration as end:
            ended.resolve(end.value)
            return
        except Exception as error:
            ended.fail(error)
            return
    done.add_done_callback(partial(_advance, steps, ended))
