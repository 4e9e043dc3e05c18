"""Batches of a turn of the loop: what is asked of another broker in one turn is one request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from broker.membership.coordination.peer_requests import NO_RESULT
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred

log = logging.getLogger(__name__)

Target = TypeVar("Target")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Key = TypeVar("Key")
Result = TypeVar("Result")


class PeerBatches(Generic[Target, Item, Answer]):
    """The items that wait for the end of the turn, by their target.

    Args:
        call_soon: calls a function in the next turn of the loop.
        send: sends the items of one target, each with the object that its answer goes to.
        take: called with these items and the response. If `send` fails, the response fails with its error; the other
            targets are asked all the same.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        send: Callable[[Target, dict[Item, Answer]], Deferred[Response]],
        take: Callable[[dict[Item, Answer], Deferred[Response]], None],
    ) -> None:
        self._call_soon = call_soon
        self._send_one = send
        self._take = take
        self._waiting: dict[Target, dict[Item, Answer]] = {}

    def add(self, target: Target, item: Item, answer: Answer) -> Answer:
        """Send an item at the end of the turn. Return `answer`, or that of an equal item that waits already."""
        if not self._waiting:
            self._call_soon(self._send)
        return self._waiting.setdefault(target, {}).setdefault(item, answer)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for target, items in waiting.items():
            answered: Deferred[Response] = Deferred()
            answered.add_done_callback(partial(self._take, items))
            try:
                self._send_one(target, items).add_done_callback(answered.settle_as)
            except Exception as error:
                log.exception("A request to another broker cannot be sent")
                answered.fail(error)


def results_of(
    done: Deferred[Response], read: Callable[[Struct], Iterable[tuple[Key, Result]]]
) -> tuple[dict[Key, Result], ErrorCode]:
    """Return the results in a response, and the code of an item that has none."""
    try:
        return dict(read(done.result().fields)), ErrorCode.UNKNOWN_SERVER_ERROR
    except NO_RESULT:
        return {}, ErrorCode.NETWORK_EXCEPTION
    except Exception:  # it was not sent, and the error is logged
        return {}, ErrorCode.UNKNOWN_SERVER_ERROR
