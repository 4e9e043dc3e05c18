"""What a decision of a coordinator wants done: records to write, parked requests to answer, things to log.

Decisions only collect them; `carry_out` is called by whoever runs the coordinator. See README, rules 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import field

from coordinator.shard import Producer
from protocol.errors import ErrorCode
from protocol.schema import Struct

R = TypeVar("R")


class Waiter(Protocol):
    """A parked request. `api_version` is that of its answer; `answer` is called at most once."""

    @property
    def api_version(self) -> int: ...

    def answer(self, response: Struct) -> None: ...


class Reply(msgspec.Struct, frozen=True):
    """The answer to a parked request."""

    waiter: Waiter
    response: Struct


class Write(NamedTuple, Generic[R]):
    """Records that go into the log together or not at all.

    `on_written` is called after they were replayed, `on_failed` when they could not be written; both may add to the
    effects, also another write. With a `producer` they are part of its transaction.
    """

    records: Sequence[R]
    on_written: Callable[[], None] | None = None
    on_failed: Callable[[ErrorCode], None] | None = None
    producer: Producer | None = None


class Effects(msgspec.Struct, Generic[R]):
    """Collects what one request or one deadline leads to."""

    replies: list[Reply] = field(default_factory=list)
    writes: list[Write[R]] = field(default_factory=list)
    notes: list[tuple[object, ...]] = field(default_factory=list)

    def note(self, text: str, *values: object) -> None:
        """Tell operators; `text` has a %s for each value. For rare events only."""
        self.notes.append((text, *values))

    def reply(self, waiter: Waiter | None, response: Struct) -> None:
        """Answer a parked request; None, nobody waits any more, is fine."""
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
    """Do the writes in order, with those that follow from them, then deliver the answers.

    `write` appends records to the log, all or nothing, and replays them; it returns why it could not. (Of tombstones
    too many for one batch the first ones may be there then.) It is told the producer of whose transaction they are
    part, None if of none. Returns the first such code: a caller whose request has no parked answer gives it to the
    client in place of the decision's.
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
