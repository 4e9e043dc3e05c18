"""Messages between two processes; here both ends are in one loop."""

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
    """One end. `heard` has its messages; a message that is callable is called, and its result is the answer."""

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
    """Pickles to an object that cannot be created from its arguments."""

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


def run(scenario: Callable[[End, End], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        one, other = (End(loop, each) for each in socket.socketpair())
        one.link.listen()
        other.link.listen()
        try:
            await scenario(one, other)
        finally:
            one.link.close()
            other.link.close()

    asyncio.run(main())


def test_messages_keep_their_order_at_any_size() -> None:
    """Larger than the socket buffers, in both directions at once."""
    sent = [bytes(size) for size in (1, 3_000_000, 0, 70_000, 2)]

    async def scenario(one: End, other: End) -> None:
        for message in sent:
            one.link.send(message)
            other.link.send(message)
        await until(lambda: len(one.heard) == len(other.heard) == len(sent))
        assert one.heard == other.heard == sent

    run(scenario)


def test_answers_are_matched_by_number() -> None:
    """At once, later, in another order, or as an error."""
    global later
    later = Deferred()

    async def scenario(one: End, other: End) -> None:
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

    run(scenario)


def test_closed_link_fails_requests() -> None:
    """Requests before and after the close fail, messages are dropped, and the end is reported once."""
    global later
    later = Deferred()

    async def scenario(one: End, other: End) -> None:
        asked = one.link.ask("later")
        await until(lambda: bool(other.heard))
        other.link.close()
        await until(lambda: one.ended == 1)
        one.link.send("lost")
        for each in (asked, one.link.ask("one")):
            with pytest.raises(LinkEnded):
                each.result()
        later.resolve("nobody hears it")
        await asyncio.sleep(0)
        assert (one.ended, other.ended) == (1, 0)

    run(scenario)


class CannotBeUnpickled:
    """Pickles, but cannot be unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _fail, (ValueError("so"),)


@pytest.mark.parametrize(
    "bad",
    [
        pack((Kind.MESSAGE, 0, CannotBeUnpickled())),
        pack("no message"),
        pack((Kind.MESSAGE, 0)),
        LENGTH.pack(3) + b"...",
        LENGTH.pack(MOST_BYTES + 1),
    ],
)
def test_unreadable_message_closes_the_link(bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Messages before it are handled, and requests fail. The worker is then restarted."""
    global later
    later = Deferred()

    async def scenario(one: End, other: End) -> None:
        asked = other.link.ask("later")
        one.link.send("before")
        await until(lambda: one.heard == ["later"])
        one.link._outgoing += bad
        one.link.send("behind")
        await until(lambda: bool(one.ended and other.ended))
        assert other.heard == ["before"]
        with pytest.raises(LinkEnded):
            asked.result()
        assert "the link is closed" in caplog.text

    run(scenario)


def test_unexpected_answer_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(one: End, other: End) -> None:
        one.link._outgoing += pack((Kind.ANSWER, 7, "what?")) + pack((Kind.FAILURE, 8, ValueError()))
        one.link.send("then")
        await until(lambda: bool(other.heard))
        assert other.heard == ["then"]
        assert "Received an answer without a request: 'what?'" in caplog.text

    run(scenario)


def test_messages_per_turn_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest follows in later turns, in order. Until then nothing more is received."""
    monkeypatch.setattr("broker.workers.link.MESSAGES_PER_TURN", 3)

    async def scenario(one: End, other: End) -> None:
        for number in range(7):
            one.link.send(number)
        seen: list[int] = []
        while len(other.heard) < 7:
            await asyncio.sleep(0)
            seen.append(len(other.heard))
            if seen[-1] == 3:
                one.link.send("behind")
        assert max(then - now for now, then in pairwise(seen)) == 3
        await until(lambda: len(other.heard) == 8)
        assert other.heard == [*range(7), "behind"]
        other.link.send("still there")
        await until(lambda: one.heard == ["still there"])

        for number in range(7):
            one.link.send(number)
        await until(lambda: len(other.heard) > 8)
        other.link.close()  # before the turn that handles the rest
        await until(lambda: one.ended == 1)
        assert len(other.heard) == 8 + 3

    run(scenario)


def test_first_message_can_be_read_without_a_loop() -> None:
    """Messages behind it stay in the socket until the link listens."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        one = End(loop, ours)
        one.link.send("begin")
        one.link.send("then")
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

    asyncio.run(scenario())


def test_missing_first_message_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"\0")
    ours.close()
    with pytest.raises(EOFError):
        receive_first(theirs)
    theirs.close()
