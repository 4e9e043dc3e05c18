"""The state of a broker after a heartbeat: fenced, unfenced, in controlled shutdown, or gone (KIP-631).

The decisions are those of Kafka's BrokerHeartbeatManager.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple


class BrokerState(Enum):
    """The state of a broker, as its controller sees it."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()  # its leaders move to other brokers
    SHUTDOWN_NOW = auto()  # it is fenced, and may stop

    @property
    def is_fenced(self) -> bool:
        """Whether the broker leads nothing and is in no in-sync set."""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


class Heartbeat(NamedTuple):
    """The report and the wishes of a broker. `metadata_offset` is the last offset that it has applied."""

    metadata_offset: int
    wants_fence: bool
    wants_shutdown: bool


class Progress(NamedTuple):
    """The state of the cluster when the heartbeat arrives, as far as the decision needs it.

    Args:
        registration_offset: the offset of the broker's RegisterBrokerRecord.
        leads: returns whether the broker leads a partition.
        shutdown_offset: the offset that ends the moves of a broker in controlled shutdown, -1 in other states.
        lowest_active_offset: returns the lowest offset that an active broker has applied.
    """

    registration_offset: int
    leads: Callable[[], bool]
    shutdown_offset: int
    lowest_active_offset: Callable[[], int]


def next_state(state: BrokerState, heartbeat: Heartbeat, progress: Progress) -> BrokerState:
    """Return the state after a heartbeat."""
    if state is BrokerState.FENCED:
        if heartbeat.wants_shutdown:
            return BrokerState.SHUTDOWN_NOW
        is_caught_up = heartbeat.metadata_offset >= progress.registration_offset
        return BrokerState.UNFENCED if is_caught_up and not heartbeat.wants_fence else BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if heartbeat.wants_fence:
            return BrokerState.SHUTDOWN_NOW if heartbeat.wants_shutdown else BrokerState.FENCED
        if not heartbeat.wants_shutdown:
            return BrokerState.UNFENCED
        return BrokerState.CONTROLLED_SHUTDOWN if progress.leads() else BrokerState.SHUTDOWN_NOW
    # The broker goes on as leader until the others know the new leaders, so that clients always find one.
    if progress.leads() or progress.shutdown_offset > progress.lowest_active_offset():
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.SHUTDOWN_NOW
