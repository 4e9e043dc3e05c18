"""RequestMemory: the memory of incomplete requests is limited, without starving well-behaved clients."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network import request_memory
from broker.network.output_queue import OUTPUT_LIMIT_BYTES
from protocol.messages.heartbeat import HEARTBEAT as WAIT
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE as ECHO
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.network import Link, request_frame
from tests.support.scale import scaled

MIB = 1 << 20
#: A frame of this size takes a buffer of a mebibyte once an eighth of it has arrived.
LARGE = 1_000_000
#: Bytes of one read.
READ = 128 * 1024
#: Memory of each connection that is not counted to the limit.
EACH = 2 * READ
#: Seconds after which a client that stops sending loses its connection, including the time until it counts as idle.
PATIENCE_MS = 1000 * (request_memory._ROUNDS + 1)


def echo(size: int, number: int = 1) -> bytes:
    """Return a request of about this many bytes."""
    return request_frame(ECHO, 2, number, auth_bytes=bytes(size))


class Client:
    """A connection, and the bytes that its client has yet to send."""

    def __init__(self, link: Link, *frames: bytes) -> None:
        self._link = link
        self.connection, self.transport = link.connect()
        self.unsent = b"".join(frames)

    def send(self, most: int | None = None) -> Client:
        """Send everything, or this many bytes, as far as the connection receives."""
        self._link.connection, self._link.transport = self.connection, self.transport
        sent = self._link.receive(self.unsent[:most])
        self.unsent = self.unsent[sent:]
        return self

    @property
    def answer_count(self) -> int:
        """The number of responses; all have the same size."""
        sent = bytes(self.transport.sent)
        return len(sent) // (4 + int.from_bytes(sent[:4])) if sent else 0

    @property
    def is_closed(self) -> bool:
        return self.transport.closed is not None


@pytest.fixture
def waiting() -> list[Deferred[Struct]]:
    return []


@pytest.fixture
def link(waiting: list[Deferred[Struct]]) -> Link:
    return new_link(waiting)


def new_link(waiting: list[Deferred[Struct]] | None = None, limit_bytes: int = MIB) -> Link:
    def answer(ctx: Any, request: Struct) -> Struct:
        return ECHO.response()

    def wait(ctx: Any, request: Struct) -> Deferred[Struct]:
        assert waiting is not None
        waiting.append(Deferred())
        return waiting[-1]

    link = Link({ECHO: answer, WAIT: wait})
    link.server.memory.limit_bytes = limit_bytes
    return link


def two_halves(link: Link) -> tuple[Client, Client]:
    """Clients that have sent half of a frame each: one takes the whole limit, the other exceeds it."""
    return Client(link, echo(LARGE)).send(LARGE // 2), Client(link, echo(LARGE)).send(LARGE // 2)


class TestWaiting:
    def test_large_request_waits_for_the_one_before_it(self, link: Link) -> None:
        """One request may exceed the limit. Only one read of the next is received."""
        first, second = two_halves(link)
        third = Client(link, echo(LARGE)).send()
        assert len(third.unsent) == len(echo(LARGE)) - READ
        assert not third.transport.reading
        assert link.server.memory.waiting_count == 1
        assert link.server.held_bytes == 2 * MIB + READ

        second.send()
        assert third.transport.reading
        third.send()
        first.send()

        assert [each.answer_count for each in (first, second, third)] == [1, 1, 1]
        assert link.server.held_bytes == 0

    @pytest.mark.parametrize("size", [10, 10_000, 60_000])
    def test_small_requests_are_received_meanwhile(self, link: Link, size: int) -> None:
        """Small requests may arrive in pieces."""
        two_halves(link)
        Client(link, echo(LARGE)).send()
        small = Client(link, *(echo(size, number) for number in range(10)))
        while small.unsent:
            before = len(small.unsent)
            small.send(7000)
            assert len(small.unsent) < before

        assert small.answer_count == 10

    def test_request_nearest_to_its_end_goes_first(self, link: Link) -> None:
        """However long others have waited, as it frees its memory soonest."""
        _, second = two_halves(link)
        sizes = [3 * LARGE, 2 * LARGE, 4 * LARGE]
        three = [Client(link, echo(size)).send() for size in sizes]
        second.send()
        assert [each.transport.reading for each in three] == [False, True, False]
        three[1].send()
        assert [three[0].transport.reading, three[2].transport.reading] == [True, False]
        three[0].send()
        three[2].send()

        assert [each.answer_count for each in three] == [1, 1, 1]

    def test_request_within_the_limit_passes_larger_ones(self, link: Link) -> None:
        """Requests of usual size need not wait for very large ones."""
        link.server.memory.limit_bytes = 12 * MIB
        gone, second = (Client(link, echo(30 * LARGE)).send(4 * LARGE) for _ in range(2))
        gone.transport.abort()
        third = Client(link, echo(30 * LARGE)).send(4 * LARGE)
        assert [each.transport.reading for each in (second, third)] == [True, False]
        assert Client(link, echo(LARGE)).send().answer_count == 1

        assert second.send().answer_count == 1
        assert third.send().answer_count == 1

    def test_without_a_limit_no_request_waits(self, link: Link) -> None:
        """queued.max.request.bytes=-1."""
        link.server.memory.limit_bytes = -1
        for _ in range(20):
            assert Client(link, echo(LARGE)).send(LARGE // 2).transport.reading
        link.loop.advance(10 * PATIENCE_MS)

        assert link.server.held_bytes == 20 * MIB
        assert not any(each.transport.closed for each in link.server.connections)  # type: ignore[attr-defined]

    def test_requests_for_workers_are_waited_for(self, link: Link) -> None:
        """They end whatever clients do, so a request may exceed the limit beside them by one frame only."""
        Client(link, echo(LARGE)).send(LARGE // 2)
        link.server.held(MIB)
        client = Client(link, echo(LARGE // 2)).send()
        assert not client.transport.reading
        link.server.held(-MIB)
        link.loop.settle()

        assert client.send().answer_count == 1

    def test_too_many_requests_for_workers_stop_all_clients(self, link: Link) -> None:
        """Until half of their memory is free."""
        link.server.held(MIB + 1)
        assert not link.transport.reading
        link.server.held(-MIB // 2)
        assert not link.transport.reading
        link.server.held(-1)
        assert link.transport.reading

    def test_closed_connection_waits_no_more(self, link: Link) -> None:
        """Its place is free, also that beyond the limit."""
        _, second = two_halves(link)
        third, fourth = (Client(link, echo(LARGE)).send() for _ in range(2))
        third.transport.abort()
        assert link.server.memory.waiting_count == 1
        second.transport.abort()
        link.loop.settle()

        assert fourth.send().answer_count == 1

    def test_backlog_behind_a_waiting_request_is_one_read(self, link: Link, waiting: list[Deferred[Struct]]) -> None:
        """The rest stays at the client."""
        two_halves(link)
        client = Client(link, request_frame(WAIT, 4, 1), echo(100))
        client.send(len(request_frame(WAIT, 4, 1)))
        client.send(10)
        assert not client.transport.reading
        waiting[0].resolve(WAIT.response())
        link.loop.settle()
        assert client.transport.reading

        client.send()
        assert client.unsent == b""

    def test_throttled_connection_leaves_its_place_to_others(self, link: Link) -> None:
        """It waits again once it is no longer throttled."""
        _, second = two_halves(link)
        third, fourth = (Client(link, echo(LARGE)).send() for _ in range(2))
        third.connection.throttle(3000)
        second.send()
        assert not third.transport.reading
        assert fourth.send().answer_count == 1
        link.loop.advance(3000)

        assert third.send().answer_count == 1


class TestIdleClients:
    def test_idle_client_is_closed(self, link: Link, caplog: pytest.LogCaptureFixture) -> None:
        """The log has the reason, and waiting requests continue."""
        halves = two_halves(link)
        third = Client(link, echo(LARGE)).send()
        link.loop.advance(PATIENCE_MS - 1)
        assert not any(each.is_closed for each in halves)
        link.loop.advance(1)

        assert all(each.is_closed for each in halves)
        assert "500000 of 10000" in caplog.text
        assert "queued.max.request.bytes" in caplog.text
        assert third.send().answer_count == 1
        assert link.server.held_bytes == 0

    def test_longest_idle_client_is_closed_first(self, link: Link) -> None:
        """No more than needed are closed."""
        link.server.memory.limit_bytes = 2 * MIB
        other, longest = (Client(link, echo(LARGE)).send(LARGE // 2) for _ in range(2))
        exceeding = Client(link, echo(250_000)).send(150_000)

        def seconds(count: int) -> None:
            """Return the time that these checks take while nothing waits."""
            for _ in range(count):
                Client(link, echo(250_000)).send().transport.abort()
                link.loop.advance(1000)

        seconds(4)
        for each in (other, exceeding):
            each.send(80_000)
        seconds(request_memory._ROUNDS + 2)
        waiting = Client(link, echo(250_000)).send()
        assert not any(each.is_closed for each in (longest, other, exceeding, waiting))
        link.loop.advance(1000)

        assert [each.is_closed for each in (longest, other, exceeding)] == [True, False, False]
        assert waiting.send().answer_count == 1

    def test_single_bytes_do_not_keep_a_connection(self, link: Link) -> None:
        first, second = two_halves(link)
        Client(link, echo(LARGE)).send()
        for _ in range(PATIENCE_MS // 1000):
            for each in (first, second):
                each.send(1)
            link.loop.advance(1000)

        assert first.is_closed
        assert second.is_closed

    def test_slow_client_stays(self, link: Link) -> None:
        """It sends a large part in its time."""
        first, second = two_halves(link)
        third = Client(link, echo(LARGE)).send()
        for _ in range(4):
            link.loop.advance(PATIENCE_MS - 2000)
            for each in (first, second):
                each.send(70_000)

        assert not any(each.is_closed for each in (first, second, third))

    def test_idle_client_stays_while_nothing_waits(self, link: Link) -> None:
        """connections.max.idle.ms closes it later."""
        halves = two_halves(link)
        link.loop.advance(100 * PATIENCE_MS)

        assert not any(each.is_closed for each in halves)

    def test_idle_client_stays_while_the_broker_is_saturated(self, link: Link) -> None:
        """Too many calls wait for threads, so the broker receives from no client."""
        halves = two_halves(link)
        Client(link, echo(LARGE)).send()
        link.server.queued(link.server.max_queued_requests)
        link.loop.advance(10 * PATIENCE_MS)

        assert not any(each.is_closed for each in halves)

    def test_client_that_does_not_read_is_closed(self, link: Link) -> None:
        """Its complete request is not served until it reads, so the memory would never be free."""
        hoarder = Client(link, echo(1), echo(LARGE))
        hoarder.transport.blocked = True
        hoarder.transport.queued.extend(bytes(OUTPUT_LIMIT_BYTES))
        hoarder.send()
        assert (hoarder.unsent, hoarder.answer_count) == (b"", 0)
        Client(link, echo(LARGE)).send(LARGE // 2)
        third = Client(link, echo(LARGE)).send()
        link.loop.advance(PATIENCE_MS)

        assert hoarder.is_closed
        assert third.send().answer_count == 1

    def test_throttled_client_is_closed(self, link: Link) -> None:
        """It exceeded its quota, and its memory is needed now."""
        first, _ = two_halves(link)
        third = Client(link, echo(LARGE)).send()
        first.connection.throttle(1_000_000)
        link.loop.advance(PATIENCE_MS)

        assert first.is_closed
        assert third.send().answer_count == 1

    def test_no_checks_after_the_close(self, link: Link) -> None:
        two_halves(link)
        Client(link, echo(LARGE)).send()
        assert link.server.memory.waiting_count
        link.server.close()
        link.loop.advance(10 * PATIENCE_MS)

        assert link.server.held_bytes == 0
        assert link.server.memory.waiting_count == 0


@settings(deadline=None, max_examples=scaled(40))
@given(
    sizes=st.lists(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=2), min_size=1, max_size=8),
    stops=st.sets(st.integers(0, 7), max_size=5),
    steps=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 400_000)), max_size=60),
    limit_bytes=st.integers(100_000, 4 * MIB),
)
def test_any_mixture_is_served_within_the_limit(
    sizes: list[list[int]], stops: set[int], steps: list[tuple[int, int]], limit_bytes: int
) -> None:
    """In any order: all complete requests are answered, whatever clients stop in the middle."""
    link = new_link(limit_bytes=limit_bytes)
    clients = [Client(link, *map(echo, each)) for each in sizes]
    for number in stops & set(range(len(clients))):
        clients[number].unsent = clients[number].unsent[: -1 - sizes[number][-1] // 2]
    most = limit_bytes + 4 * MIB + EACH * len(clients)

    def send(client: Client, most_bytes: int) -> None:
        client.send(most_bytes)
        assert link.server.held_bytes <= most

    def are_done() -> bool:
        return all(client.answer_count == len(each) for client, each in good)

    good = [each for number, each in enumerate(zip(clients, sizes, strict=True)) if number not in stops]
    for number, size in steps:
        send(clients[number % len(clients)], size)
    for _ in range(20 * len(clients)):
        for client in clients:
            send(client, READ)
            send(client, 3_000_000)
        if are_done():
            break
        link.loop.advance(1000)
    assert are_done()
    for client in clients:
        if not client.is_closed:
            client.transport.abort()
    assert link.server.held_bytes == 0
