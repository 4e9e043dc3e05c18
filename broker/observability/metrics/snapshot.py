"""Take all samples at one moment, on the event loop, for another thread.

Many partitions have many samples: they are taken in parts, and the loop serves its sockets in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from broker.observability.metrics.metric import Metric, Sample, Value
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: Samples taken in one turn: about half a millisecond.
_AT_ONCE = 500

#: Values, each with the values of its labels.
Samples: TypeAlias = list[tuple[tuple[str, ...], Value]]
Snapshot: TypeAlias = Mapping[Metric, Samples]


def take_snapshot(
    loop: AbstractEventLoop,
    samples: Callable[[], Iterator[Sample]],
    prepare: Callable[[], Deferred[None]] | None = None,
) -> Future[Snapshot]:
    """Take the samples of `samples()` on the loop; callable from any thread. Raises RuntimeError if the loop is closed.

    First `prepare()` is called on the loop, and its Deferred is awaited.
    """
    taken: Future[Snapshot] = Future()
    snapshot: dict[Metric, Samples] = {}

    def go_on(rest: Iterator[Sample]) -> None:
        try:
            some = list(islice(rest, _AT_ONCE))
        except Exception as error:
            taken.set_exception(error)
            return
        for metric, labels, value in some:
            snapshot.setdefault(metric, []).append((labels, value))
        if some:
            loop.call_soon(go_on, rest)
        else:
            taken.set_result(snapshot)

    def begin() -> None:
        try:
            prepared = Deferred.resolved(None) if prepare is None else prepare()
        except Exception as error:
            taken.set_exception(error)
            return
        prepared.add_done_callback(lambda _: go_on(samples()))

    loop.call_soon_threadsafe(begin)
    return taken
