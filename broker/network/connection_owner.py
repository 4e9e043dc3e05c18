"""The interface of the server for its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from broker.network.connection import Connection
    from broker.network.receive_buffer import ReceiveBuffer
    from broker.network.request_memory import RequestMemory
    from broker.requests.dispatcher import Dispatcher
    from runtime.log_limit import LimitedLog
    from runtime.turn import Turn


class ConnectionOwner(Protocol):
    """The part of the server that connections use."""

    dispatcher: Dispatcher
    turn: Turn
    memory: RequestMemory
    receive_buffer: ReceiveBuffer
    closing_log: LimitedLog
    max_request_bytes: int
    call_soon: Callable[[Callable[[], None]], object]
    call_later: Callable[[float, Callable[[], None]], TimerHandle]

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
