"""Look-ups by time, in steps that do not block the loop (storage/log/timestamps.py).

Most requests finish at once, in their first turn. The others wait for further turns: each turn of the loop runs one of
them, in rotation. Pool processes search large batches, only a few at a time, so that appends that need the pool do not
wait long; a pool process reads the file itself. A look-up also continues as soon as its search is done. A waiting
look-up keeps only names and numbers in memory, and, like any waiting request, the decoded request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from runtime.deferred import Deferred
from runtime.gate import Gate
from runtime.process_pool import PoolProcessDied, ProcessPool
from storage.log.batch_search import BatchSearch, SearchResult, search_file
from storage.log.timestamps import Allowance

if TYPE_CHECKING:
    from broker.requests.context import RequestCharge

T = TypeVar("T")

#: A look-up in steps, like `Steps` of storage/log/timestamps.py. A step may also yield a Deferred, which it does not
#: cancel, and is resumed with None when it is done.
LookUpSteps: TypeAlias = Generator["BatchSearch | Deferred[Any] | None", Any, T]

#: Records and headers that a look-up may read in one turn: some 2 ms. It may exceed this by one small batch.
_RECORDS_PER_TURN = 800


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
        self.allowance.left = _RECORDS_PER_TURN

    def run(self, steps: LookUpSteps[T], charge: RequestCharge | None = None) -> T | Deferred[T]:
        """Run a look-up: return its result at once, or a Deferred. Cancelling the Deferred ends the look-up.

        Call `begin_turn` first. `charge` counts the time against the client's quota. Errors of the look-up are raised,
        or fail the Deferred.
        """
        try:
            wanted = steps.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        look_up = _LookUp(self, steps, charge)
        look_up.wait(wanted)
        return look_up.result

    def wait_for_turn(self, look_up: _LookUp[Any]) -> None:
        """Continue the look-up in a later turn of the loop."""
        self._waiting.append(look_up)
        if len(self._waiting) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        look_up = self._waiting.popleft()
        if self._waiting:
            self._call_soon(self._turn)
        look_up.resume()


class _LookUp(Generic[T]):
    """A look-up that waits for its turn, for room in the pool (the gate), or for a pool process."""

    __slots__ = ("_charge", "_continuation", "_look_ups", "_queued_entry", "_steps", "result")

    def __init__(self, look_ups: TimeLookUps, steps: LookUpSteps[T], charge: RequestCharge | None) -> None:
        self._look_ups = look_ups
        self._steps = steps
        self._charge = charge
        self._continuation: Callable[[], BatchSearch | Deferred[Any] | None]
        self._queued_entry: Callable[[], None] | None = None
        self.result: Deferred[T] = Deferred()
        self.result.on_cancel(self._cancel)

    def wait(self, wanted: BatchSearch | Deferred[Any] | None) -> None:
        """Wait for a turn, for the search that it wants, or for a Deferred."""
        if wanted is None:
            self._continuation = partial(self._steps.send, None)
            self._look_ups.wait_for_turn(self)
        elif isinstance(wanted, Deferred):
            self._continuation = partial(self._steps.send, None)
            wanted.add_done_callback(self._on_waited)
        else:
            self._queued_entry = partial(self._search, wanted)
            self._look_ups.gate.enter(self._queued_entry)

    def resume(self) -> None:
        """Continue the look-up in a turn of its own."""
        self._look_ups.begin_turn()
        if self._charge is not None:
            self._charge.resume()
        try:
            outcome = partial(self.wait, self._continuation())
        except StopIteration as end:
            outcome = partial(self.result.resolve, end.value)
        except Exception as error:
            outcome = partial(self.result.fail, error)
        if self._charge is not None:
            self._charge.pause()
        outcome()

    def _on_waited(self, _: Deferred[Any]) -> None:
        if not self.result.done:  # its client is still there
            self.resume()

    def _search(self, wanted: BatchSearch) -> None:
        self._queued_entry = None
        self._look_ups.workers.submit(search_file, wanted).add_done_callback(self._on_searched)

    def _on_searched(self, job: Deferred[SearchResult]) -> None:
        try:
            self._continuation = partial(self._steps.send, job.result())
        except PoolProcessDied:  # perhaps because of the batch, which is not searched again
            self._continuation = partial(self._steps.send, None)
        except Exception as error:
            self._continuation = partial(self._steps.throw, error)
        self._look_ups.gate.leave()
        self.resume()

    def _cancel(self) -> None:
        """End the look-up at its next turn. A running search continues, because stopping it would cost its process."""
        self._steps.close()
        if self._queued_entry is not None:
            self._look_ups.gate.withdraw(self._queued_entry)
