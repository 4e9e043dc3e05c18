"""Broker: the wiring of one broker process. What handlers reach through `ctx.broker` are its attributes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.dispatch import Dispatcher, discover
from broker.network.listener import CannotBind
from broker.network.server import Server
from broker.network.settings import bind_listeners, configure
from broker.offload import Offload
from broker.purgatory import Purgatory
from broker.timers import Timers
from broker.turn import Turn
from metadata.features import BOOTSTRAP_FEATURES

log = logging.getLogger(__name__)

# A shutdown waits no longer than this for clients to take their last answers.
_LAST_ANSWERS_MS = 2_000


class CannotStart(Exception):
    """Why a broker can not start, in one line for people. Nothing was touched."""


@dataclass(frozen=True, slots=True)
class Features:
    """The feature levels in force, and the metadata offset that they are of."""

    epoch: int
    levels: Mapping[str, int]


class Broker:
    """One broker. Everything in it belongs to the event loop's thread."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, clock: Clock | None = None) -> None:
        self.config = config
        self.loop = loop
        self.clock = clock or Clock()
        self.turn = Turn(loop.call_soon)
        self.timers = Timers(loop, self.clock)
        self.purgatory = Purgatory(self.timers, self.turn)
        self.dispatcher = Dispatcher(self, discover())
        self.server = Server(loop, self.clock, self.turn, self.dispatcher)
        self.offload = Offload(loop, config.get_int("num.io.threads"), self.server.queued)

    @property
    def addresses(self) -> list[str]:
        """Where it listens, for people."""
        return [f"{each.name}://{address}" for each in self.server.listeners for address in each.addresses]

    def features(self) -> Features:
        """The features in force."""
        return Features(0, BOOTSTRAP_FEATURES)

    async def start(self) -> None:
        """Come up; clients are let in last. Raises CannotStart, with everything closed again."""
        try:
            listeners = bind_listeners(self.config, self.clock)
        except CannotBind as error:
            raise CannotStart(str(error)) from None
        configure(self.server, self.config, listeners)
        self.server.open(listeners)

    async def stop(self) -> None:
        """Go down in good order: nobody new, last answers, everything on disk and marked clean."""
        self.server.stop_accepting()
        self.server.stop_receiving()
        self.purgatory.expire_all()
        deadline_ms = self.clock.monotonic_ms() + _LAST_ANSWERS_MS
        while self.server.busy and self.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.005)
        self.server.close()
        self.offload.close()
