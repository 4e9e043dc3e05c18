"""A connection: it receives frames, sends responses in order, and starts no request behind one that waits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network import connection as connection_module
from broker.requests.dispatcher import CloseConnection
from broker.requests.served_api import Implementation
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from runtime.deferred import Deferred
from tests.support.network import Link, request_frame

ECHO, WAIT = SASL_AUTHENTICATE, HEARTBEAT


class Handlers:
    """ECHO returns what it is sent; WAIT waits until the test resolves a Deferred of `waiting`."""

    def __init__(self):
        self.started = []
        self.waiting = []

    def echo(self, ctx, request):
        data = bytes(request.auth_bytes)
        self.started.append(data)
        if data == b"no answer":
            return None
        if data == b"close":
            raise CloseConnection("as asked")
        if data == b"fail":
            raise ZeroDivisionError
        return ECHO.response(auth_bytes=data)

    def wait(self, ctx, request):
        self.started.append(request.group_id)
        deferred = Deferred(mutes=request.member_id != "lets others start")
        self.waiting.append(deferred)
        return deferred

    @property
    def table(self):
        return {ECHO: self.echo, WAIT: self.wait}


@pytest.fixture
def handlers():
    return Handlers()


@pytest.fixture
def link(handlers):
    return Link(handlers.table)


def give_fast_path(dispatcher, fast_path):
    """Give WAIT a fast path."""
    served = dispatcher.served[WAIT.key]
    served.implementation = served.implementation._replace(fast_path=lambda version: fast_path)


def echo(number, data=None):
    return request_frame(ECHO, 2, number, auth_bytes=data if data is not None else b"%d" % number)


def wait(number, member_id=""):
    return request_frame(WAIT, 4, number, group_id=f"wait {number}", member_id=member_id)


def numbers(link, *apis):
    return [number for number, _ in link.answers(*((api, 4 if api is WAIT else 2) for api in apis))]


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 50, None])
def test_responses_do_not_depend_on_how_bytes_arrive(link, handlers, piece):
    """Whole frames, byte by byte, and with the start of the next frame (S12)."""
    link.receive(b"".join(echo(number) for number in range(20)), piece)

    assert [(number, b"%d" % number) for number in range(20)] == [
        (number, answer.auth_bytes) for number, answer in link.answers(*[(ECHO, 2)] * 20)
    ]


def test_request_may_wait_in_fast_path_and_handler(handlers, link):
    """Requests behind it start once both are done."""
    dispatcher = link.server.dispatcher
    first = Deferred()
    give_fast_path(dispatcher, lambda *_: first)
    link.receive(wait(1) + echo(2))
    first.resolve(None)
    link.loop.settle()
    assert handlers.started == ["wait 1"]

    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()

    assert numbers(link, WAIT, ECHO) == [1, 2]


@pytest.mark.parametrize("piece", [1000, 4096, 70_000, 300_000, None])
@pytest.mark.parametrize("size", [10_000, 16_384, 100_000, 1_000_000])
def test_large_frames_arrive_in_pieces(link, handlers, size, piece):
    """Into their own memory once a part has arrived, with small frames in between."""
    blob = bytes(range(256)) * (size // 256 + 1)
    link.receive(echo(1) + echo(2, blob) + echo(3) + echo(4, blob[1:]) + echo(5), piece)

    answers = link.answers(*[(ECHO, 2)] * 5)
    assert [b"1", blob, b"3", blob[1:], b"5"] == [answer.auth_bytes for _, answer in answers]
    assert link.server.held_bytes == 0


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 60_000), min_size=1, max_size=12),
    pieces=st.lists(st.integers(500, 90_000), min_size=1, max_size=12),
)
def test_any_mixture_of_sizes_and_pieces_is_answered(sizes, pieces):
    """Every request is answered once, in order, with its own bytes."""
    link = Link(Handlers().table)
    stream = b"".join(echo(number, bytes([number % 251]) * size) for number, size in enumerate(sizes))
    position = step = 0
    while position < len(stream):
        piece = pieces[step % len(pieces)]
        link.receive(stream[position : position + piece], settle=step % 3 == 0)
        position += piece
        step += 1
    link.loop.settle()

    answers = link.answers(*[(ECHO, 2)] * len(sizes))
    assert [(number, bytes([number % 251]) * size) for number, size in enumerate(sizes)] == [
        (number, answer.auth_bytes) for number, answer in answers
    ]


def test_requests_of_one_read_are_answered_with_one_send(link):
    """Pipelined requests need one system call for all their responses."""
    link.receive(b"".join(echo(number) for number in range(10)))

    assert link.transport.sends == 1


def test_memory_of_a_frame_grows_with_its_bytes(link):
    """A frame whose length is 100 MB and of which 64 KiB arrived takes less than a megabyte."""
    link.receive((100_000_000).to_bytes(4) + bytes(65_536))

    assert link.server.held_bytes <= 1 << 20
    link.connection.on_lost()
    assert link.server.held_bytes == 0


def test_no_request_starts_behind_a_waiting_one(link, handlers):
    """As Kafka mutes the channel: later requests are kept, and served after its response."""
    link.receive(echo(1) + wait(2) + echo(3) + echo(4))
    assert handlers.started == [b"1", "wait 2"]
    assert numbers(link, ECHO) == [1]
    link.receive(echo(5)[:7])
    link.receive(echo(5)[7:])

    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()

    assert handlers.started == [b"1", "wait 2", b"3", b"4", b"5"]
    assert numbers(link, ECHO, WAIT, ECHO, ECHO, ECHO) == [1, 2, 3, 4, 5]


def test_requests_start_behind_one_that_does_not_mute(link, handlers):
    """A request that waits for a flush lets later ones be appended. Responses keep their order."""
    link.receive(wait(1, "lets others start") + echo(2) + wait(3, "lets others start") + echo(4))
    assert handlers.started == ["wait 1", b"2", "wait 3", b"4"]

    handlers.waiting[1].resolve(WAIT.response())
    link.loop.settle()
    assert link.transport.sent == b""
    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()

    assert numbers(link, WAIT, ECHO, WAIT, ECHO) == [1, 2, 3, 4]


def test_muting_request_behind_one_that_does_not_mute(link, handlers):
    """The third request waits for the second, also once the first is answered."""
    link.receive(wait(1, "lets others start") + wait(2) + echo(3))
    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()
    assert handlers.started == ["wait 1", "wait 2"]

    handlers.waiting[1].resolve(WAIT.response())
    link.loop.settle()

    assert numbers(link, WAIT, WAIT, ECHO) == [1, 2, 3]


def test_requests_behind_one_that_does_not_mute_are_limited(link, handlers):
    """Also while later ones are finished: their answers have to be kept."""
    link.receive(b"".join(wait(number, "lets others start") for number in range(100)))
    for each in handlers.waiting[1:]:
        each.resolve(WAIT.response())
        link.loop.settle()
    assert len(handlers.waiting) == 64

    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()

    assert numbers(link, *[WAIT] * 64) == list(range(64))
    assert len(handlers.waiting) == 100


@pytest.mark.parametrize("before", [b"", wait(1, "lets others start")], ids=["alone", "behind one that waits"])
def test_requests_behind_a_redirect_go_the_new_way(link, handlers, before):
    """However many arrived with it, and also if a response before it is still pending."""
    new_way = []

    def redirect(ctx, request):
        link.connection.redirect(lambda connection, request: new_way.append(bytes(request[-2:-1])))
        return ECHO.response(auth_bytes=b"")

    link.server.dispatcher.served[ECHO.key].implementation = Implementation(ECHO, redirect)
    link.receive(before + echo(2) + echo(3, b"3") + echo(4, b"4"))

    assert new_way == [b"3", b"4"]


def test_acks_0_gets_no_response(link):
    link.receive(echo(1) + echo(2, b"no answer") + echo(3))

    assert numbers(link, ECHO, ECHO) == [1, 3]


def test_backlog_behind_a_waiting_request_is_limited(link, handlers):
    """To 64 KiB plus one read. The rest stays in the kernel and at the client."""
    link.receive(wait(1))
    link.receive(b"".join(echo(number, bytes(1000)) for number in range(2, 200)), 10_000)
    assert not link.transport.reading
    assert link.server.held_bytes <= 64 * 1024 + 10_000

    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()

    assert link.transport.reading
    assert link.server.held_bytes < 1100


def test_requests_of_a_connection_per_turn_are_limited(link, handlers):
    """Other connections have their turn in between."""
    per_turn = connection_module.TURN_REQUESTS
    link.receive(b"".join(echo(number) for number in range(3 * per_turn)), settle=False)
    assert per_turn == len(handlers.started)

    link.loop.turn()
    assert 2 * per_turn == len(handlers.started)
    link.loop.settle()

    assert list(range(3 * per_turn)) == numbers(link, *[ECHO] * 3 * per_turn)


def test_a_client_that_does_not_read_responses_is_not_served(link, handlers):
    """Until it has read all of them."""
    link.transport.blocked = True
    blob = bytes(100_000)
    for number in range(30):
        link.receive(echo(number, blob))
    assert len(handlers.started) < 12
    started = len(handlers.started)

    link.transport.unblock()
    link.loop.settle()

    assert len(handlers.started) > started


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_invalid_sizes_close_the_connection_after_the_responses(link, caplog, size):
    """Negative, or above socket.request.max.bytes. Earlier requests are answered."""
    link.receive(echo(1) + size.to_bytes(4, signed=True) + b"x")

    assert numbers(link, ECHO) == [1]
    assert link.transport.closed == "when sent"
    assert "is closed" in caplog.text
    assert list(link.server.connections) == []


@pytest.mark.parametrize(
    "data",
    [
        request_frame(ECHO, 2, 1, auth_bytes=b"x" * 10)[:-8] + b"\xff" * 8,  # a wrong length
        b"\0\0\0\x02\0\x24",  # shorter than a header
        b"\0\0\0\x00",
        b"\0\0\0\x0c\0\x24\0\x02\0\0\0\x01\0\x64ab",  # a client id beyond the frame
        b"\0\0\0\x0a\x7f\xff\0\x00\0\0\0\x01\xff\xff",  # an API that does not exist
        b"\0\0\0\x0a\0\x24\0\x63\0\0\0\x01\xff\xff",  # a version that does not exist
        b"\0\0\0\x0a\0\x03\0\x00\0\0\0\x01\xff\xff",  # an API that is not served
    ],
)
def test_malformed_or_unsupported_requests_close_one_connection(link, handlers, data, caplog):
    """One line in the log; earlier requests are answered, and other connections are unaffected."""
    other, other_transport = link.connect()
    link.receive(echo(1) + data + echo(2))

    assert numbers(link, ECHO) == [1]
    assert link.transport.closed == "when sent"
    assert len(caplog.records) == 1
    assert [other] == list(link.server.connections)
    assert other_transport.closed is None


def test_a_handler_may_close_the_connection(link, caplog):
    """This is how a client with acks=0 learns of a failure."""
    link.receive(echo(1) + echo(2, b"close") + echo(3))

    assert numbers(link, ECHO) == [1]
    assert link.transport.closed
    assert "as asked" in caplog.text


def test_a_failing_handler_is_answered_and_keeps_the_connection(link, caplog):
    """UNKNOWN_SERVER_ERROR in the shape of the API, and one traceback."""
    link.receive(echo(1, b"fail") + echo(2))

    answers = link.answers((ECHO, 2), (ECHO, 2))
    assert [answer.error_code for _, answer in answers] == [-1, 0]
    assert caplog.text.count("Traceback") == 1


def test_disconnect_cancels_a_waiting_request(link, handlers):
    """Its late response is dropped."""
    cancelled = []
    link.receive(wait(1) + echo(2))
    handlers.waiting[0].on_cancel(lambda: cancelled.append(1))

    link.connection.on_eof()
    assert link.transport.closed == "aborted"
    assert cancelled == [1]

    handlers.waiting[0].resolve(WAIT.response())
    link.loop.settle()
    assert link.transport.sent == b""
    assert list(link.server.connections) == []
    assert link.server.held_bytes == 0


def test_half_closed_connection_gets_its_responses(link, handlers):
    """A client that has shut down its sending side may still read."""
    count = connection_module.TURN_REQUESTS * 2
    link.receive(b"".join(echo(number) for number in range(count)), settle=False)
    link.connection.on_eof()
    assert link.transport.closed is None
    link.loop.settle()

    assert list(range(count)) == numbers(link, *[ECHO] * count)
    assert link.transport.closed == "when sent"


def test_deferred_error_is_answered_or_closes(link, handlers, caplog):
    link.receive(wait(1) + wait(2) + echo(3))
    handlers.waiting[0].fail(ZeroDivisionError())
    link.loop.settle()
    assert [answer.error_code for _, answer in link.answers((WAIT, 4))] == [-1]

    handlers.waiting[1].fail(CloseConnection("enough"))
    link.loop.settle()
    assert link.transport.closed
    assert handlers.started[-1:] != [b"3"]


def test_failure_of_a_late_response_closes_the_connection(link, handlers, caplog):
    """Any exception does, as requests behind it would never start."""
    fast_path = Deferred()
    give_fast_path(link.server.dispatcher, lambda *_: fast_path)
    link.receive(wait(1) + echo(2))
    fast_path.fail(ZeroDivisionError())
    link.loop.settle()

    assert link.transport.closed
    assert handlers.started == []
    assert "serving it failed" in caplog.text


def test_unknown_api_versions_version_gets_version_0(link):
    """UNSUPPORTED_VERSION with the range of ApiVersions, as Kafka 4.4.0 answers (KIP-511)."""
    link = Link({API_VERSIONS: lambda ctx, request: API_VERSIONS.response()})
    link.receive(bytes.fromhex("00000019001200630000006a000573776565700007676f6c64656e04312e3000")[:29])

    assert bytes.fromhex("000000100000006a002300000001001200000005") == bytes(link.transport.sent)


def test_saturated_worker_pool_stops_receiving(link):
    """queued.max.requests limits the calls in the pool. Receiving resumes below it."""
    link.server.max_queued_requests = 4
    link.server.queued(4)
    assert not link.transport.reading
    link.server.queued(-1)
    assert not link.transport.reading
    link.server.queued(-1)
    assert link.transport.reading
