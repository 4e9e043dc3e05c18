"""Look-ups by time, in steps that do not block the loop (storage/log/timestamps.py).

Most requests finish in a first turn at once. The others wait for further turns: each turn of the loop runs one of them,
in rotation. Workers search batches that are not small, only a few at a time, so that batches to be appended do not wait
long behind them. A worker reads from the file itself. A waiting look-up keeps only names and numbers in memory, and,
like any waiting request, the decoded request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runtime.deferred import Deferred
from runtime.gate import Gate
from runtime.process_pool import PoolProcessDied, ProcessPool
from storage.log.batch_search import BatchSearch, SearchResult, search_file
from storage.log.timestamps import Allowance, Steps

if TYPE_CHECKING:
    from broker.requests.context import RequestCharge

T = TypeVar("T")

#: The work of a request in one turn: some 2 ms, and a small batch more.
_A_TURN = 800


class TimeLookUps:
    """The look-ups of all requests; `allowance` is the present turn's. Belongs to the event loop's thread."""

    def __init__(self, workers: ProcessPool, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.allowance = Allowance(0)
        self.gate = Gate(workers.size)
        self.workers = workers
        self._call_soon = call_soon
        self._waiting: deque[_LookUp[Any]] = deque()

    def begin_turn(self) -> None:
        """Begin the turn of a request, with a full allowance."""
        self.allowance.left = _A_TURN

    def run(self, steps: Steps[T], charge: RequestCharge | None = None) -> T | Deferred[T]:
        """Run a look-up: return its result at once, or a Deferred. Raises, or fails with, its errors; can be cancelled.

        It is part of the turn that has begun. `charge`: the request's, to which the time is charged.
        """
        try:
            wanted = steps.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        look_up = _LookUp(self, steps, charge)
        look_up.wait(wanted)
        return look_up.found

    def wait_for_turn(self, look_up: _LookUp[Any]) -> None:
        """Continue the look-up in a later turn of the loop."""
        self._waiting.append(look_up)
        if len(self._waiting) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        look_up = self._waiting.popleft()
        if self._waiting:
            self._call_soon(self._turn)
        look_up.go_on()


class _LookUp(Generic[T]):
    """A look-up that waits: for a turn, for a worker, or at the gate for a worker."""

    __slots__ = ("_charge", "_enter", "_go_on", "_look_ups", "_steps", "found")

    def __init__(self, look_ups: TimeLookUps, steps: Steps[T], charge: RequestCharge | None) -> None:
        self._look_ups = look_ups
        self._steps = steps
        self._charge = charge
        self._go_on: Callable[[], BatchSearch | None]
        self._enter: Callable[[], None] | None = None
        self.found: Deferred[T] = Deferred()
        self.found.on_cancel(self._cancel)

    def wait(self, wanted: BatchSearch | None) -> None:
        """Wait for a turn, or for the search that it wants."""
        if wanted is None:
            self._go_on = partial(self._steps.send, None)
            self._look_ups.wait_for_turn(self)
        else:
            self._enter = partial(self._search, wanted)
            self._look_ups.gate.enter(self._enter)

    def go_on(self) -> None:
        """Continue: it is the look-up's turn."""
        self._look_ups.begin_turn()
        if self._charge is not None:
            self._charge.resume()
        try:
            outcome = partial(self.wait, self._go_on())
        except StopIteration as end:
            outcome = partial(self.found.resolve, end.value)
        except Exception as error:
            outcome = partial(self.found.fail, error)
        if self._charge is not None:
            self._charge.pause()
        outcome()

    def _search(self, wanted: BatchSearch) -> None:
        self._enter = None
        self._look_ups.workers.submit(search_file, wanted).add_done_callback(self._on_searched)

    def _on_searched(self, job: Deferred[SearchResult]) -> None:
        try:
            self._go_on = partial(self._steps.send, job.result())
        except PoolProcessDied:  # perhaps because of the batch, which is not searched again
            self._go_on = partial(self._steps.send, None)
        except Exception as error:
            self._go_on = partial(self._steps.throw, error)
        self._look_ups.gate.leave()
        self.go_on()

    def _cancel(self) -> None:
        """End the look-up at its next turn. A running search continues, because stopping it would cost its process."""
        self._steps.close()
        if self._enter is not None:
            self._look_ups.gate.withdraw(self._enter)
