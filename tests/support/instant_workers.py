"""A double of runtime.process_pool that runs jobs in the test's process, when the test releases them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from runtime.deferred import Deferred
from runtime.process_pool import PoolProcessDied


class InstantWorkers:
    """Runs jobs at once where `held` is False, else one by one on `release`. Arguments and results are pickled."""

    size = 2

    def __init__(self) -> None:
        self.held = False
        self.submitted = 0
        self._jobs: list[tuple[bytes, Deferred[Any]]] = []

    @property
    def is_wanted(self) -> bool:
        """Return whether a job waits."""
        return bool(self._jobs)

    def submit(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self.submitted += 1
        self._jobs.append((pickle.dumps((function, args)), deferred))
        if not self.held:
            self.release()
        return deferred

    def release(self, place: int = 0) -> None:
        """Run the job at that place of the queue."""
        job, deferred = self._jobs.pop(place)
        function, args = pickle.loads(job)
        try:
            outcome = pickle.loads(pickle.dumps(self.run(function, *args)))
        except Exception as error:
            deferred.fail(pickle.loads(pickle.dumps(error)))
        else:
            deferred.resolve(outcome)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a job in the process."""
        return function(*args)

    def die(self, place: int = 0) -> None:
        """As `release`, but the process dies in the job."""
        self._jobs.pop(place)[1].fail(PoolProcessDied("killed"))
