"""The states of a broker's lifecycle."""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    """The numbers are Kafka's."""

    NOT_RUNNING = 0
    STARTING = 1
    RUNNING = 3
    SHUTTING_DOWN = 7
