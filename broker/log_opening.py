"""Opening what a start has left for later: as soon as clients are let in, log after log, so that soon none waits.

Who asks for a log that waits has it opened at once (broker/partitions.py), so many in a turn of the loop; the others
are opened here, a few in a turn, with a pause between turns that leaves half of the time to clients. A log that is not
as a clean stop leaves it is repaired by a worker, as at a start after an unclean stop; until then it is offline. What
could not be opened for lack of descriptors is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from broker.config import BrokerConfig
from broker.deferred import Deferred
from broker.workers import WorkerDied, Workers, WorkersClosed
from storage.checkpoints import TopicPartition
from storage.errors import LogOffline
from storage.log_manager import LogManager
from storage.recovery.job import Recovered, RecoveryJob, recover_partition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.timers import Timer, Timers

log = logging.getLogger(__name__)

#: The loop is held for so long at most, and for one log more, and then serves others for about as long.
_TURN_S = 0.001
_PAUSE_MS = 1
#: The most logs that those who ask have opened in a turn of the loop: each takes 0.3 ms, and some as long as 2 ms.
#: Who asks for more is told that the others are offline, and finds them open when it asks again. That is for lists of
#: all partitions: a producer or a consumer, which may not ask again, seldom wants so many at a time.
_ASKED_A_TURN = 256
#: Until what could not be opened is tried again.
_AGAIN_MS = 5_000


class LogOpening:
    """The `Repairs` of a LogManager, too. Its methods belong to the event loop's thread.

    Args:
        make_workers: a pool of so many processes.
    """

    def __init__(
        self,
        logs: LogManager,
        config: BrokerConfig,
        loop: AbstractEventLoop,
        timers: Timers,
        make_workers: Callable[[int], Workers] | None = None,
    ) -> None:
        self._logs = logs
        self._loop = loop
        self._timers = timers
        make_workers = make_workers or partial(Workers, loop=loop, name="recovery")
        self._workers = make_workers(config.get_int("num.recovery.threads.per.data.dir"))
        self._repairs: dict[TopicPartition, Deferred[Recovered]] = {}
        self._timer: Timer | None = None
        #: Whether there are clients, who are not to wait.
        self._serving = False
        #: For how many logs `may_open` was asked in this turn of the loop.
        self._asked = 0
        #: Called when some were opened here.
        self.on_opened: Callable[[], object] = lambda: None

    def start(self) -> None:
        """From here on whoever opens a log holds the loop for a moment only."""
        self._serving = True
        self._logs.unopened.repairs = self
        if self._logs.unopened:
            self._open_all()

    def stop(self) -> None:
        """What waits is left as it is, and what is in repair to the next start."""
        if self._timer is not None:
            self._timer.cancel()
        self._repairs.clear()
        self._workers.close()

    def _open_all(self) -> None:
        self._open_some(iter(list(self._logs.unopened)))

    def _open_some(self, keys: Iterator[TopicPartition]) -> None:
        until = time.perf_counter() + _TURN_S
        for key in keys:
            with suppress(LogOffline):
                self._logs.open(*key)
            if time.perf_counter() >= until:
                self.on_opened()
                self._timer = self._timers.call_later(_PAUSE_MS, lambda: self._open_some(keys))
                return
        self.on_opened()
        if any(each.problem is None for each in self._logs.unopened.values()):
            self._timer = self._timers.call_later(_AGAIN_MS, self._open_all)
        else:
            self._timer = None
            offline = len(self._logs.unopened)
            log.info("All logs are open%s", f" but {offline}, which are offline" if offline else "")

    def may_open(self) -> bool:
        """Whether somebody who asks for a log may have it opened in this turn of the loop. To be called once a log."""
        if not self._serving:
            return True
        if not self._asked:
            self._loop.call_soon(self._begin_turn)
        self._asked += 1
        return self._asked <= _ASKED_A_TURN

    def _begin_turn(self) -> None:
        self._asked = 0

    # -- repairs -----------------------------------------------------------------------------------------------------

    def begin(self, key: TopicPartition, job: RecoveryJob) -> None:
        """Have a log repaired."""
        repair = self._repairs[key] = self._workers.submit(recover_partition, job)
        repair.add_done_callback(lambda done: self._on_repaired(key, done))

    def abandon(self, key: TopicPartition) -> None:
        """Nobody touches the log's files from now on."""
        repair = self._repairs.pop(key, None)
        if repair is not None:
            repair.cancel()

    def _on_repaired(self, key: TopicPartition, done: Deferred[Recovered]) -> None:
        if self._repairs.pop(key, None) is None:  # it was abandoned
            return
        outcome: Recovered | Exception
        try:
            outcome = done.result()
        except WorkersClosed:
            return
        except Exception as error:
            outcome = error
        if isinstance(outcome, WorkerDied):  # which says nothing about the log
            log.warning("%s-%d is repaired later: %s", *key, outcome)
            self._logs.unopened.wait_again(key)
        else:
            self._logs.end_repair(key, outcome)
        if self._timer is None:
            self._timer = self._timers.call_later(_AGAIN_MS, self._open_all)
