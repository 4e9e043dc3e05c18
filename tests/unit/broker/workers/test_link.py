"""Messages between two processes, here two ends in one loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from broker.workers.link import (
    MOST_BYTES,
    Kind,
    Link,
    LinkEnded,
    receive_first,
)
from runtime.deferred import Deferred
from storage.worker_process import LENGTH, pack
from tests.support.eventually import eventually_async

until = partial(eventually_async, interval_s=0)  # looks once in each turn of the event loop


class End:
    """One end. `heard` are the messages; a callable is called, and what it gives is the answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self.heard: list[Any] = []
        self.ended = 0
        self.link = Link(loop, sock, self._serve, self._on_end)

    def _serve(self, message: Any) -> object:
        self.heard.append(message)
        return answers[message]() if isinstance(message, str) and message in answers else None

    def _on_end(self) -> None:
        self.ended += 1


later: Deferred[str] = Deferred()


class Unpicklable(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def _fail(error: Exception) -> object:
    raise error


answers: dict[str, Callable[[], object]] = {
    "one": lambda: 1,
    "later": lambda: later,
    "unpicklable": lambda: lambda: None,
    "fails": lambda: _fail(ValueError("so")),
    "fails badly": lambda: _fail(Unpicklable("so", "not")),
}


def run(life: Callable[[End, End], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        one, other = (End(loop, each) for each in socket.socketpair())
        one.link.listen()
        other.link.listen()
        try:
            await life(one, other)
        finally:
            one.link.close()
            other.link.close()

    asyncio.run(main())


def test_messages_come_in_order_whatever_their_size() -> None:
    """More than the sockets take at a time, both ways at once."""
    sent = [bytes(size) for size in (1, 3_000_000, 0, 70_000, 2)]

    async def life(one: End, other: End) -> None:
        for message in sent:
            one.link.tell(message)
            other.link.tell(message)
        await until(lambda: len(one.heard) == len(other.heard) == len(sent))
        assert one.heard == other.heard == sent

    run(life)


def test_what_is_asked_is_answered_under_its_number() -> None:
    """Now, later, in another order than it was asked, or by an error."""
    global later
    later = Deferred()

    async def life(one: End, other: End) -> None:
        slow, quick = one.link.ask("later"), one.link.ask("one")
        fails, badly = one.link.ask("fails"), one.link.ask("fails badly")
        await until(lambda: badly.done)
        assert (slow.done, quick.result()) == (False, 1)
        with pytest.raises(ValueError, match="so"):
            fails.result()
        with pytest.raises(RuntimeError, match="Unpicklable: so"):
            badly.result()
        unpicklable = one.link.ask("unpicklable")
        await until(lambda: unpicklable.done)
        assert other.heard == ["later", "one", "fails", "fails badly", "unpicklable"]
        with pytest.raises(Exception, match="pickle"):
            unpicklable.result()
        later.resolve("at last")
        await until(lambda: slow.done)
        assert slow.result() == "at last"

    run(life)


def test_who_is_gone_answers_nothing_any_more() -> None:
    """What was asked fails; so does what is asked then; what is told is lost; the end is told once."""
    global later
    later = Deferred()

    async def life(one: End, other: End) -> None:
        asked = one.link.ask("later")
        await until(lambda: bool(other.heard))
        other.link.close()
        await until(lambda: one.ended == 1)
        one.link.tell("lost")
        for each in (asked, one.link.ask("one")):
            with pytest.raises(LinkEnded):
                each.result()
        later.resolve("nobody hears it")
        await asyncio.sleep(0)
        assert (one.ended, other.ended) == (1, 0)

    run(life)


class NotToBeMade:
    """Pickles, but cannot be made from that."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _fail, (ValueError("so"),)


@pytest.mark.parametrize(
    "bad",
    [
        pack((Kind.TELL, 0, NotToBeMade())),
        pack("no message"),
        pack((Kind.TELL, 0)),
        LENGTH.pack(3) + b"...",
        LENGTH.pack(MOST_BYTES + 1),
    ],
)
def test_what_cannot_be_understood_ends_the_link(bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """What was asked fails, and both ends know: the worker begins anew. What came before it is served."""
    global later
    later = Deferred()

    async def life(one: End, other: End) -> None:
        asked = other.link.ask("later")
        one.link.tell("before")
        await until(lambda: one.heard == ["later"])
        one.link._outgoing += bad
        one.link.tell("behind")
        await until(lambda: bool(one.ended and other.ended))
        assert other.heard == ["before"]
        with pytest.raises(LinkEnded):
            asked.result()
        assert "the link is closed" in caplog.text

    run(life)


def test_an_answer_that_nobody_waits_for_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def life(one: End, other: End) -> None:
        one.link._outgoing += pack((Kind.ANSWER, 7, "what?")) + pack((Kind.FAILURE, 8, ValueError()))
        one.link.tell("then")
        await until(lambda: bool(other.heard))
        assert other.heard == ["then"]
        assert "Received an answer without a request: 'what?'" in caplog.text

    run(life)


def test_a_turn_serves_so_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others follow in the next ones, in order; meanwhile nothing more is received."""
    monkeypatch.setattr("broker.workers.link.MESSAGES_A_TURN", 3)

    async def life(one: End, other: End) -> None:
        for number in range(7):
            one.link.tell(number)
        seen: list[int] = []
        while len(other.heard) < 7:
            await asyncio.sleep(0)
            seen.append(len(other.heard))
            if seen[-1] == 3:
                one.link.tell("behind")
        assert max(then - now for now, then in pairwise(seen)) == 3
        await until(lambda: len(other.heard) == 8)
        assert other.heard == [*range(7), "behind"]
        other.link.tell("still there")
        await until(lambda: one.heard == ["still there"])

        for number in range(7):
            one.link.tell(number)
        await until(lambda: len(other.heard) > 8)
        other.link.close()  # before the next turn, in which the rest is due
        await until(lambda: one.ended == 1)
        assert len(other.heard) == 8 + 3

    run(life)


def test_nothing_is_received_before_one_listens() -> None:
    """The first message may be read without a loop; those behind it stay where they are."""

    async def life() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        one = End(loop, ours)
        one.link.tell("begin")
        one.link.tell("then")
        await one.link.drained()
        assert receive_first(theirs) == "begin"
        other = End(loop, theirs)
        await asyncio.sleep(0)
        assert other.heard == []
        other.link.listen()
        await until(lambda: bool(other.heard))
        assert other.heard == ["then"]
        one.link.close()
        other.link.close()

    asyncio.run(life())


def test_a_first_message_that_never_comes_is_an_end() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"\0")
    ours.close()
    with pytest.raises(EOFError):
        receive_first(theirs)
    theirs.close()
