"""The effects of a coordinator's decision: records to write, parked requests to answer, lines to log.

A decision only collects its effects. The program that runs the coordinator applies them with `carry_out`. See
README.md, rules 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import field

from coordinator.shard import Producer
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

R = TypeVar("R")


class Waiter(Protocol):
    """A parked request. `api_version` is the version of its response; `answer` is called at most once."""

    @property
    def api_version(self) -> int: ...

    def answer(self, response: Struct) -> None: ...


class Reply(msgspec.Struct, frozen=True):
    """A response to a parked request."""

    waiter: Waiter
    response: Struct


class Write(NamedTuple, Generic[R]):
    """Records that are appended to the log together or not at all.

    `on_written` is called after the records were replayed, `on_failed` when they could not be written. Both may add to
    the effects, including another write. With a `producer` the records are part of its transaction.
    """

    records: Sequence[R]
    on_written: Callable[[], None] | None = None
    on_failed: Callable[[ErrorCode], None] | None = None
    producer: Producer | None = None


class Effects(msgspec.Struct, Generic[R]):
    """The effects of one request or of one deadline."""

    replies: list[Reply] = field(default_factory=list)
    writes: list[Write[R]] = field(default_factory=list)
    notes: list[tuple[object, ...]] = field(default_factory=list)

    def note(self, text: str, *values: object) -> None:
        """Log a line for operators; `text` has a %s for each value. For rare events only."""
        self.notes.append((text, *values))

    def reply(self, waiter: Waiter | None, response: Struct) -> None:
        """Answer a parked request. With None, because no request is parked, do nothing."""
        if waiter is not None:
            self.replies.append(Reply(waiter, response))

    def write(
        self,
        records: Sequence[R],
        on_written: Callable[[], None] | None = None,
        on_failed: Callable[[ErrorCode], None] | None = None,
        producer: Producer | None = None,
    ) -> None:
        self.writes.append(Write(records, on_written, on_failed, producer))


def carry_out(effects: Effects[R], write: Callable[[Sequence[R], Producer | None], ErrorCode]) -> ErrorCode:
    """Make the writes in order, including those that follow from them, and then send the responses.

    `write` appends records to the log, all or none, and replays them. It returns NONE or why it failed. (If tombstones
    do not fit into one batch, the first ones may have been written.) Its second argument is the producer in whose
    transaction the records are, or None. Returns the first error. A caller without a parked request returns that error
    to the client instead of the decision's result.
    """
    failure = ErrorCode.NONE
    while effects.writes:
        wanted = effects.writes.pop(0)
        code = write(wanted.records, wanted.producer)
        if code is ErrorCode.NONE:
            if wanted.on_written is not None:
                wanted.on_written()
        else:
            failure = failure or code
            if wanted.on_failed is not None:
                wanted.on_failed(code)
    for reply in effects.replies:
        reply.waiter.answer(reply.response)
    return failure
