"""A TLS connection: handshake steps in a thread pool, reads of a turn, and its end."""

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
from broker.network.plaintext import DisconnectWatcher
from broker.network.tls import TlsTransport
from runtime.deferred import Deferred
from tests.support.certificates import Authority
from tests.support.fake_loop import FakeLoop
from tests.unit.broker.network.tls_records import Records


class SocketLoop(FakeLoop):
    """Records which callbacks are registered for which descriptor; the test calls them."""

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
    """Records its events."""

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
    """The pool: steps of handshakes wait here until the test runs them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Deferred[None]]] = []

    def __call__(self, function: Callable[[], None]) -> Deferred[None]:
        deferred: Deferred[None] = Deferred()
        self.waiting.append((function, deferred))
        return deferred

    def take(self, error: Exception | None = None) -> None:
        """Run the waiting step, or let it fail."""
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
    """A transport and its client, which does not check certificates."""

    def __init__(self, context: ssl.SSLContext, key_log: Path | None = None) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.loop, self.steps, self.connection = SocketLoop(), Steps(), Connection()
        self.hang_ups = DisconnectWatcher(self.loop)  # type: ignore[arg-type]
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
        """The client has sent its first message, and a step is waiting."""
        with suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        meanwhile()
        self.read()
        assert self.steps.waiting

    def fill(self) -> None:
        """Fill the socket's buffer with `filled` bytes, which the client receives first."""
        with suppress(BlockingIOError):
            while True:
                self.filled += os.write(self.fd, bytes(1 << 16))

    def shake_hands(self) -> None:
        """Complete the handshake on both sides."""
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.read()
            if self.steps.waiting:
                self.steps.take()
        with suppress(ssl.SSLWantReadError):
            self.client.recv(1)  # session tickets

    def read(self) -> None:
        """Call the transport's reader if it is registered and the socket is readable."""
        readable = select.poll()
        readable.register(self.fd, select.POLLIN)
        if readable.poll(0) and self.fd in self.loop.readers:
            self.loop.readers[self.fd]()

    @property
    def watched(self) -> tuple[bool, bool, bool]:
        """Return the events that the transport waits for: bytes, room, hang-up."""
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
    def test_turn_joins_small_records_into_one_read(self, pair: Pair) -> None:
        """A read costs the connection more than a byte."""
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

    def test_rest_comes_in_the_next_turn(self, pair: Pair) -> None:
        """The rest of a record does not make the socket readable."""
        pair.shake_hands()
        pair.connection.room = memoryview(bytearray(600))
        pair.client.send(bytes(1000))
        pair.client.send(b"end")
        pair.read()
        assert [len(update) for update in pair.connection.updates] == [600]
        pair.loop.settle()
        assert b"".join(pair.connection.updates) == bytes(1000) + b"end"

    def test_receiving_pauses_without_memory(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        """Decrypted bytes wait too, until the connection resumes it."""

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

    def test_end_comes_after_the_last_bytes(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.connection.on_update = lambda: pair.connection.events.append("bytes")
        pair.client.send(b"last")
        with suppress(ssl.SSLWantReadError):
            pair.client.unwrap()
        pair.read()
        assert pair.connection.events == ["bytes", "eof"]
        assert pair.watched == (False, False, False)

    def test_closed_by_first_bytes_gets_no_eof(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.connection.on_update = pair.transport.abort
        pair.client.send(b"last")
        with suppress(ssl.SSLWantReadError):
            pair.client.unwrap()
        pair.read()
        pair.loop.settle()
        assert pair.connection.events == ["lost"]

    def test_invalid_record_ends_it_after_earlier_bytes(self, pair: Pair) -> None:
        pair.shake_hands()
        pair.client.send(b"good")
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(bytes(100))
        pair.read()
        raw.close()
        assert pair.connection.updates == [b"good"]
        assert pair.connection.events == ["lost"]

    def test_bytes_received_in_a_turn_are_limited(self, pair: Pair) -> None:
        """OpenSSL would continue as long as there are records."""
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
    """TLS 1.3 key updates: records without data, of which a client may send any number."""

    @pytest.fixture
    def pair(self, context: ssl.SSLContext, tmp_path: Path) -> Iterator[Pair]:
        pair = Pair(context, tmp_path / "keys")
        pair.shake_hands()
        yield pair
        pair.close()

    @pytest.fixture
    def records(self, pair: Pair, tmp_path: Path) -> Records:
        return Records(tmp_path / "keys")

    def test_key_updates_between_data_are_ignored(self, pair: Pair, records: Records) -> None:
        sent = [records.data(b"before "), records.key_update(), records.key_update(requested=True), records.data(b"it")]
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(b"".join(sent))
        pair.read()
        raw.close()
        assert pair.connection.updates == [b"before it"]
        assert pair.connection.events == []

    def test_client_that_sends_only_key_updates_is_closed(self, pair: Pair, records: Records) -> None:
        """Within a turn, as each blocks the loop for a while."""
        flood = b"".join(records.key_update() for _ in range(2_000))
        raw = socket.socket(fileno=pair.client.detach())
        raw.send(flood)
        pair.read()
        raw.close()
        assert len(flood) > tls._TURN_RECEIVED_BYTES
        assert pair.connection.events == [f"{tls._TURN_RECEIVED_BYTES} bytes of TLS records without data", "lost"]

    def test_client_that_ignores_key_updates_is_closed(self, pair: Pair, records: Records) -> None:
        """Each response to an update would be kept until it is sent."""
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
    """After its end a connection leaves nothing in the loop, as its descriptor is reused soon."""

    def test_end_during_a_step_without_reading(self, pair: Pair) -> None:
        """The step completes, and its result is dropped."""
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
    def test_end_while_output_of_a_step_waits(self, pair: Pair, end: str) -> None:
        pair.client_begins(pair.fill)
        pair.steps.take()
        assert pair.watched == (True, True, False)
        getattr(pair.transport, end)()
        assert pair.watched == (False, False, False)
        assert pair.connection.events == ["lost"]

    def test_output_of_a_step_is_sent_once_there_is_room(self, pair: Pair) -> None:
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
        """Resumed at once, the loop would report the same bytes again and again."""
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

    def test_failed_handshake_closes(self, pair: Pair) -> None:
        pair.client_begins()
        pair.steps.take(ssl.SSLError("no shared cipher"))
        assert [event for event in pair.connection.events if "no shared cipher" in event]
        assert pair.connection.events[-1] == "lost"
        assert pair.watched == (False, False, False)

    def test_client_gets_close_notify(self, pair: Pair) -> None:
        """Otherwise it could not distinguish the end from an attack."""
        pair.shake_hands()
        pair.client.suppress_ragged_eofs = False
        pair.transport.send([b"answer"])
        pair.transport.close_when_sent()
        assert pair.client.recv(100) == b"answer"
        assert pair.client.recv(100) == b""
        assert pair.watched == (False, False, False)
