"""An outbound client on a loop of its own, driven by the test."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.network.outbound_client import OutboundClient
from broker.network.outbound_options import OutboundOptions
from broker.network.outbound_security import OutboundSecurity
from broker.process.event_loop import new_event_loop
from runtime.clock import Clock
from runtime.deferred import Deferred, outcome
from runtime.timers import Timers

_PATIENCE_S = 30


class OutboundDriver:
    """A client of one port. A context manager, which closes client and loop."""

    def __init__(
        self,
        port: int,
        security: OutboundSecurity | None = None,
        *,
        host: str = "127.0.0.1",
        use_uvloop: bool = True,
        **options: int,
    ) -> None:
        self.loop = new_event_loop() if use_uvloop else asyncio.new_event_loop()
        self.timers = Timers(self.loop, Clock())
        self.client = OutboundClient(
            self.loop, self.timers, host, port, OutboundOptions("test", **options), security, jitter=lambda: 0.5
        )

    def __enter__(self) -> OutboundDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.turn()
        self.loop.close()

    def result(self, deferred: Deferred[Any]) -> Any:
        """Run the loop until it is done; return its value or raise its error."""
        return self.loop.run_until_complete(asyncio.wait_for(outcome(deferred), _PATIENCE_S))

    def error(self, deferred: Deferred[Any]) -> Exception:
        """Run the loop until it has failed; return the error."""
        try:
            value = self.result(deferred)
        except Exception as error:
            return error
        raise AssertionError(f"no error, but {value!r}")

    def turn(self, seconds: float = 0.02) -> None:
        """Run the loop for this long."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
