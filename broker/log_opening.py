"""Opening what a start has left for later: as soon as clients are let in, log after log, so that soon none waits.

Who asks for a log that waits has it opened at once (broker/partitions.py), so many in a turn of the loop; the others
are opened here, a few in a turn, with a pause between turns that leaves half of the time to clients. A log that is not
as a clean stop leaves it is repaired by a worker, as at a start after an unclean stop; until then it is offline. What
could not be opened for lack of descriptors is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
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
    from broker.timers import Timer, Timers

log = logging.getLogger(__name__)

#: The loop is held for so long at most, and for one log more, and then serves others for about as long.
_TURN_S = 0.001
_PAUSE_MS = 1
#: So long the loop is held at most for those who ask, and for one log more. A log takes 0.3 ms, some as long as 10 ms.
#: Who asks for more is told to ask again (`LogWaits`), which clients do by themselves, and finds them open then.
_ASKED_S = 0.02
#: And so many logs, however fast: each is some work for the turns that follow.
_ASKED_A_TURN = 256
#: A log at which so many workers have died is left alone.
_MOST_DEATHS = 3
#: A stop waits no longer for repairs. The last segment of a log, of a gigabyte, takes some seconds, and so it would
#: at the next start.
_LAST_REPAIRS_S = 20
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
        loop: asyncio.AbstractEventLoop,
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
        #: How many logs those who asked have opened in this turn of the loop, and when it is over for them.
        self._asked = 0
        self._asked_until = 0.0
        self._deaths: Counter[TopicPartition] = Counter()
        #: Called when some were opened here.
        self.on_opened: Callable[[], object] = lambda: None

    def start(self) -> None:
        """From here on whoever opens a log holds the loop for a moment only."""
        self._serving = True
        self._logs.unopened.repairs = self
        if self._logs.unopened:
            self._open_all()

    async def end_repairs(self) -> None:
        """Wait for the workers, before a stop, as long as that may take."""
        until = time.monotonic() + _LAST_REPAIRS_S
        while self._repairs and time.monotonic() < until:
            await asyncio.sleep(0.01)

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
        count = len(self._logs.logs)
        is_over = True
        for key in keys:
            with suppress(LogOffline):
                self._logs.open(*key)
            if time.perf_counter() >= until:
                is_over = False
                break
        if len(self._logs.logs) > count:
            self.on_opened()
        if not is_over:
            self._timer = self._timers.call_later(_PAUSE_MS, lambda: self._open_some(keys))
        elif any(each.problem is None for each in self._logs.unopened.values()):
            self._timer = self._timers.call_later(_AGAIN_MS, self._open_all)
        else:
            self._timer = None
            offline = len(self._logs.unopened)
            log.info("All logs are open%s", f" but {offline}, which are offline" if offline else "")

    def may_open(self) -> bool:
        """Whether somebody who asks for a log may have it opened in this turn of the loop: the first always, more until
        the time is over. To be called once a log.
        """
        if not self._serving:
            return True
        if not self._asked:
            self._loop.call_soon(self._begin_turn)
            self._asked_until = time.perf_counter() + _ASKED_S
        elif self._asked >= _ASKED_A_TURN or time.perf_counter() >= self._asked_until:
            return False
        self._asked += 1
        return True

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
        self._deaths[key] += isinstance(outcome, WorkerDied)
        if isinstance(outcome, WorkerDied) and self._deaths[key] < _MOST_DEATHS:  # which says nothing about the log
            log.warning("%s-%d is repaired later: %s", *key, outcome)
            self._logs.unopened.wait_again(key)
        else:
            self._logs.end_repair(key, outcome)
        if self._timer is None:
            self._timer = self._timers.call_later(_AGAIN_MS, self._open_all)
