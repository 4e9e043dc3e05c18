"""Elections at intervals: preferred leaders, and partitions that have none and may lose records."""

from __future__ import annotations

import logging
from collections.abc import Callable

from config import BrokerConfig
from controller.broker_life import Appends
from controller.replica_index import ReplicaIndex
from metadata.leader_balance import elect_preferred, elect_unclean
from metadata.partition_rules import MayBeUnclean

log = logging.getLogger(__name__)

_AT_ONCE_MS = 1
"""Between two runs that end at their limit: other requests are served meanwhile."""


class Elections:
    """Runs what is due. Times are of a monotonic clock, in milliseconds."""

    def __init__(
        self,
        config: BrokerConfig,
        appends: Appends,
        index: ReplicaIndex,
        may_be_unclean: MayBeUnclean,
        clock_ms: Callable[[], int],
    ) -> None:
        self._appends = appends
        self._index = index
        self._may_be_unclean = may_be_unclean
        self._clock_ms = clock_ms
        self._balances = config.get_bool("auto.leader.rebalance.enable")
        self._balance_ms = config.get_int("leader.imbalance.check.interval.seconds") * 1000
        self._unclean_ms = config.get_int("unclean.leader.election.interval.ms")
        self._balance_at = clock_ms() + self._balance_ms
        self._unclean_at = clock_ms() + self._unclean_ms

    def run_due(self) -> None:
        """Elect the leaders that are due."""
        now_ms = self._clock_ms()
        if now_ms >= self._unclean_at:
            self.elect_unclean()
        if now_ms >= self._balance_at:
            self._balance()

    def elect_unclean(self) -> None:
        """Elect leaders of partitions that have none, where unclean.leader.election.enable allows it."""
        found = elect_unclean(self._appends.image, self._index.without_leader(), self._may_be_unclean)
        self._unclean_at = self._clock_ms() + (_AT_ONCE_MS if found.goes_on else self._unclean_ms)
        self._appends.write(found.records)
        if found.elected:
            log.warning("%d partitions got a leader that may lack committed records", found.elected)

    def _balance(self) -> None:
        found = elect_preferred(self._appends.image, self._index.with_other_leader() if self._balances else ())
        self._balance_at = self._clock_ms() + (_AT_ONCE_MS if found.goes_on else self._balance_ms)
        self._appends.write(found.records)
        if found.elected:
            log.info("%d partitions are led by their preferred replica again", found.elected)

    def until_next_ms(self) -> int:
        """Return after how many milliseconds something is due."""
        return max(min(self._balance_at, self._unclean_at) - self._clock_ms(), 0)
