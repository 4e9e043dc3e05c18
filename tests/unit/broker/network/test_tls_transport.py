"""A TLS connection's life: the handshake in somebody else's hands, what a turn receives, what an end leaves behind."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.network import tls
from broker.network.plaintext import HangUps
from broker.network.tls import TlsTransport
from runtime.deferred import Deferred
from tests.support.certificates import Authority
from tests.support.fake_loop import FakeLoop
from tests.support.tls_records import Records


class SocketLoop(FakeLoop):
    """Remembers who is to be told what about which descriptor; tells nobody by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        self.writers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def remove_writer(self, fd: int) -> None:
        self.writers.pop(fd, None)


class Connection:
    """Keeps what it is told."""

    transport: TlsTransport

    def __init__(self) -> None:
        self.room = memoryview(bytearray(128 * 1024))
        self.updates: list[bytes] = []
        self.on_update: Callable[[], None] = lambda: None
        self.events: list[str] = []

    def get_buffer(self) -> memoryview:
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        self.updates.append(bytes(self.room[:nbytes]))
        self.on_update()

    def on_eof(self) -> None:
        self.events.append("eof")

    def on_lost(self) -> None:
        self.events.append("lost")

    def on_sent(self) -> None:
        self.events.append("sent")

    def close(self, reason: str) -> None:
        self.events.append(reason)
        self.transport.close_when_sent()


class Steps:
    """The pool: a handshake's steps wait here until they are taken."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Deferred[None]]] = []

    def __call__(self, function: Callable[[], None]) -> Deferred[None]:
        deferred: Deferred[None] = Deferred()
        self.waiting.append((function, deferred))
        return deferred

    def take(self, error: Exception | None = None) -> None:
        """Take the one that waits, or have it fail."""
        function, deferred = self.waiting.pop()
        try:
            if error is not None:
                raise error
            function()
        except OSError as caught:
            deferred.fail(caught)
        else:
            deferred.resolve(None)


class Pair:
    """A transport and its client, which trusts anybody."""

    def __init__(self, context: ssl.SSLContext, key_log: Path | None = None) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.loop, self.steps, self.connection = SocketLoop(), Steps(), Connection()
        self.hang_ups = HangUps(self.loop)  # type: ignore[arg-type]
        self.fd = ours.fileno()
        self.filled = 0
        self.transport = TlsTransport(
            self.loop,  # type: ignore[arg-type]
            ours,
            self.connection,  # type: ignore[arg-type]
            self.hang_ups,
            context,
            self.steps,
            lambda connection, certificate: None,
        )
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        if key_log is not None:
            trusting.keylog_filename = str(key_log)
        self.client = trusting.wrap_socket(theirs, do_handshake_on_connect=False)

    def client_begins(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Its first message is there, and a step is under way."""
        with suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        meanwhile()
        self.read()
        assert self.steps.waiting

    def fill(self) -> None:
        """Leave no room for what the transport sends, by `filled` bytes that the client is to receive first."""
        with suppress(BlockingIOError):
            while True:
                self.filled += os.write(self.fd, bytes(1 << 16))

    def shake_hands(self) -> None:
        """Until both sides have."""
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.read()
            if self.steps.waiting:
                self.steps.take()
        with suppress(ssl.SSLWantReadError):
            self.client.recv(1)  # tickets

    def read(self) -> None:
        """Tell the transport that its socket is readable, if it is and the transport wants to know."""
        if select.select([self.fd], [], [], 0)[0] and self.fd in self.loop.readers:
            self.loop.readers[self.fd]()

    @property
    def watched(self) -> tuple[bool, bool, bool]:
        """For bytes, for room, for a hang-up."""
        return self.fd in self.loop.readers, self.fd in self.loop.writers, self.fd in self.hang_ups._transports

    def close(self) -> None:
        self.transport.abort()
        self.client.close()
        self.hang_ups.close()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory: Path = tmp_path_factory.mktemp("certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Authority(directory).issue("server"))
    return context


@pytest.fixture
def pair(context: ssl.SSLContext) -> Iterator[Pair]:
    pair = Pair(context)
    yield pair
    pair.close()


class TestReceiving:
    def test_a_turn_takes_few_records_and_tells_once(self, pair: Pair) -> None:
        """However little each brings: what a connection does with a read costs more than a byte."""
        pair.shake_hands()
        for number in range(100):
            pair.client.send(bytes((number,)))
        turns = 0
        while sum(map(len, pair.connection.updates)) < 100:
            pair.loop.turn()
            pair.read()
            turns += 1
            assert len(pair.connection.updates) == turns
        assert b"".join(pair.connection.updates) == bytes(range(100))
        assert {len(update) for update in pair.connection.updates} == {tls._TURN_RECORDS, 100 % tls._TURN_RECORDS}

    def test_what_does_not_fit_comes_in_the_next_turn(self, pair: Pair) -> None:
        """Also the rest of a record, which does not make the socket readable."""
        pair.shake_hands()
        pair.connection.room = memoryview(bytearray(600))
        pair.client.send(bytes(1000))
        pair.client.send(b"end")
        pair.read()
        assert [len(update) for update in pair.connection.updates] == [600]
        pair.loop.settle()
        assert b"".join(pair.connection.updates) == bytes(1000) + b"end"

    def test_what_there_is_no_memory_for_comes_when_there_is(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also what was decrypted already: the connection says when."""

        def full() -> memoryview:
            pair.transport.pause_reading()
            raise BlockingIOError

        pair.shake_hands()
        pair.connection.room = memoryview(bytearray(600))
        pair.client.send(bytes(1000))
        pair.read()
        monkeypatch.setattr(pair.connection, "get_buffer", full)
        pair.loop.settle()
        assert [len(update) for update in pair.connection.updates] == [600]
        monkeypatch.undo()
        pair.transport.resume_reading()
        pair.loop.settle()

        assert [len(update) for update in pair.connection.updates] == [600, 400]
        assert pair.connection.events == []

    def test_the_end_comes_behind_the_last_bytes(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.connection.on_update = lambda: pair.connection.events.append("bytes")
        pair.client.send(b"last")
        with suppress(ssl.SSLWantReadError):
            pair.client.unwrap()
        pair.read()
        assert pair.connection.events == ["bytes", "eof"]
        assert pair.watched == (False, False, False)

    def test_who_was_let_go_for_what_came_first_is_not_told_of_the_end(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.connection.on_update = pair.transport.abort
        pair.client.send(b"last")
        with suppress(ssl.SSLWantReadError):
            pair.client.unwrap()
        pair.read()
        pair.loop.settle()
        assert pair.connection.events == ["lost"]

    def test_bytes_that_are_no_record_end_it_behind_those_before(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.client.send(b"good")
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(bytes(100))
        pair.read()
        raw.close()
        assert pair.connection.updates == [b"good"]
        assert pair.connection.events == ["lost"]

    def test_a_turn_receives_so_much(self, pair: Pair) -> None:
        """OpenSSL would go on for as long as there is something."""
        pair.shake_hands()
        for _ in range(4):
            pair.client.send(bytes(16 * 1024))
        pair.read()
        pair.loop.settle()
        assert 0 < sum(map(len, pair.connection.updates)) <= tls._TURN_RECEIVED_BYTES
        pair.read()
        pair.loop.settle()
        assert sum(map(len, pair.connection.updates)) == 4 * 16 * 1024


class TestKeyUpdates:
    """Records of TLS 1.3 that bring nothing, of which a client may send as many as it likes."""

    @pytest.fixture
    def pair(self, context: ssl.SSLContext, tmp_path: Path) -> Iterator[Pair]:
        pair = Pair(context, tmp_path / "keys")
        pair.shake_hands()
        yield pair
        pair.close()

    @pytest.fixture
    def records(self, pair: Pair, tmp_path: Path) -> Records:
        return Records(tmp_path / "keys")

    def test_amid_data(self, pair: Pair, records: Records) -> None:
        sent = [records.data(b"before "), records.key_update(), records.key_update(requested=True), records.data(b"it")]
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(b"".join(sent))
        pair.read()
        raw.close()
        assert pair.connection.updates == [b"before it"]
        assert pair.connection.events == []

    def test_who_sends_nothing_else_is_let_go(self, pair: Pair, records: Records) -> None:
        """Within a turn: they hold the loop for as long as they are looked at."""
        flood = b"".join(records.key_update() for _ in range(2_000))
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(flood)
        pair.read()
        raw.close()
        assert len(flood) > tls._TURN_RECEIVED_BYTES
        assert pair.connection.events == [f"{tls._TURN_RECEIVED_BYTES} bytes of TLS records without data", "lost"]

    def test_who_does_not_read_that_keys_are_updated_is_let_go(self, pair: Pair, records: Records) -> None:
        """Each answer is kept until it is sent."""
        pair.fill()
        raw = socket.socket(fileno=pair.client.detach())
        rounds = 0
        while not pair.connection.events and rounds < 10:
            raw.send(b"".join(records.key_update(requested=True) for _ in range(1_000)) + records.data(b"more"))
            pair.read()
            rounds += 1
        raw.close()
        assert pair.connection.updates == [b"more"] * rounds
        assert pair.connection.events == ["it requests key updates without reading the responses"]
        assert pair.transport._outgoing.pending < 2 * tls._TURN_RECEIVED_BYTES


class TestEnds:
    """Nothing of a connection that has ended may be left with the loop: its descriptor is soon another's."""

    def test_during_a_step_while_nothing_is_received(self, pair: Pair) -> None:
        """The step goes on, and finds nobody who would hear of it."""
        pair.client_begins()
        pair.transport.pause_reading()
        assert pair.watched == (False, False, True)
        pair.transport.abort()
        assert pair.watched == (False, False, False)
        assert pair.connection.events == ["lost"]
        pair.steps.take()
        assert pair.watched == (False, False, False)
        assert pair.connection.events == ["lost"]

    @pytest.mark.parametrize("end", ["abort", "close_when_sent"])
    def test_while_what_a_step_says_waits_for_room(self, pair: Pair, end: str) -> None:
        pair.client_begins(pair.fill)
        pair.steps.take()
        assert pair.watched == (True, True, False)
        getattr(pair.transport, end)()
        assert pair.watched == (False, False, False)
        assert pair.connection.events == ["lost"]

    def test_what_a_step_says_is_sent_when_there_is_room(self, pair: Pair) -> None:
        pair.client_begins(pair.fill)
        pair.steps.take()
        while pair.filled:
            pair.filled -= len(socket.socket.recv(pair.client, pair.filled))
        pair.loop.writers[pair.fd]()
        assert pair.watched == (True, False, False)
        pair.shake_hands()
        pair.client.send(b"secured")
        pair.read()
        assert pair.connection.updates == [b"secured"]

    def test_receiving_resumed_during_a_step_waits_for_its_end(self, pair: Pair) -> None:
        """The loop would else be told of the same bytes again and again."""
        pair.client_begins()
        pair.transport.pause_reading()
        pair.transport.resume_reading()
        assert pair.watched == (False, False, False)
        pair.steps.take()
        assert pair.watched == (True, False, False)
        pair.shake_hands()
        pair.client.send(b"secured")
        pair.read()
        assert pair.connection.updates == [b"secured"]

    def test_a_handshake_that_fails(self, pair: Pair) -> None:
        pair.client_begins()
        pair.steps.take(ssl.SSLError("no shared cipher"))
        assert [event for event in pair.connection.events if "no shared cipher" in event]
        assert pair.connection.events[-1] == "lost"
        assert pair.watched == (False, False, False)

    def test_the_client_is_told(self, pair: Pair) -> None:
        """Else it could not tell the end from an attacker's doing."""
        pair.shake_hands()
        pair.client.suppress_ragged_eofs = False
        pair.transport.send([b"answer"])
        pair.transport.close_when_sent()
        assert pair.client.recv(100) == b"answer"
        assert pair.client.recv(100) == b""
        assert pair.watched == (False, False, False)
